package service

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// SnapshotRow returns the columns of a snapshot in a listing: name, 12 digits of the id or "-", time, message.
func SnapshotRow(i info.Info) []string {
	id := "-"
	if i.ID != "" {
		id = i.ID[:12]
	}
	return []string{i.Name, id, i.Created.Format(time.RFC3339), OneLine(i.Message)}
}

// countsText writes numbers of changes, as in "+1 ~2 -3".
func countsText(c info.Counts) string {
	text := fmt.Sprintf("+%d ~%d -%d", c.Created, c.Modified, c.Deleted)
	if c.Restored > 0 {
		text += fmt.Sprintf(" (%d restored)", c.Restored)
	}
	return text
}

func infoFields(i *info.Info) [][]string {
	id := i.ID
	if id == "" {
		id = "- (not sealed yet)"
	}

	rows := [][]string{
		{"name", i.Name},
		{"number", fmt.Sprintf("cp-%d", i.Seq)},
		{"id", id},
		{"created", i.Created.Format(time.RFC3339) + " (" + humanize.Time(i.Created) + ")"},
		{"kind", i.Kind},
	}

	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}

	add("parent", i.Parent)
	add("message", OneLine(i.Message))
	add("labels", labelText(i.Labels))
	if i.Expires != nil {
		add("expires", i.Expires.Format(time.RFC3339)+" ("+humanize.Time(*i.Expires)+")")
	}
	if i.Pinned {
		add("pinned", "yes")
	}

	add("files", humanize.Comma(i.Files))
	size := BytesText(i.Bytes)
	if i.Sealed {
		size += ", of which " + BytesText(i.UniqueBytes) + " were new"
	}

	add("size", size)
	add("changes", fmt.Sprintf("%d created, %d modified, %d deleted, %d restored",
		i.Counts.Created, i.Counts.Modified, i.Counts.Deleted, i.Counts.Restored))
	by := fmt.Sprintf("user %d, process %d", i.UID, i.PID)
	if i.Command != "" {
		by += ", " + OneLine(i.Command)
	}

	add("made by", by)
	add("git commit", i.GitCommit)

	return rows
}

func labelText(labels map[string]string) string {
	var out []string
	for k, v := range labels {
		out = append(out, OneLine(k+"="+v))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func listRows(l *Snapshots) [][]string { return rowsOf(l.Snapshots, "no snapshots", SnapshotRow) }

// LongRows returns a row for each snapshot: the columns of SnapshotRow, the kind, the numbers of changes and the
// labels.
func (l *Snapshots) LongRows() [][]string {
	return rowsOf(l.Snapshots, "no snapshots", func(i info.Info) []string {
		kind := i.Kind
		if i.Pinned {
			kind += ", pinned"
		}

		return append(SnapshotRow(i), kind, countsText(i.Counts), labelText(i.Labels))
	})
}

// rowsOf returns a row for each element of a list. For an empty list it returns one row with the text
// ifEmpty, or no row if ifEmpty is "".
func rowsOf[T any](list []T, ifEmpty string, row func(T) []string) (rows [][]string) {
	if len(list) == 0 && ifEmpty != "" {
		return [][]string{{ifEmpty}}
	}
	for _, one := range list {
		rows = append(rows, row(one))
	}
	return rows
}

func historyRows(h *History) [][]string {
	return rowsOf(h.Entries, "", func(e HistoryEntry) []string {
		size := strconv.FormatInt(e.Size, 10)
		if e.Action == "deleted" {
			size = "-"
		}

		return []string{e.Action, cmp.Or(e.Snapshot, "now"), e.Created.Format(time.RFC3339), size, OneLine(e.Message)}
	})
}

func blameRows(b *Blamed) [][]string {
	return rowsOf(b.Lines, "", func(l BlamedLine) []string {
		return []string{
			cmp.Or(l.Snapshot, "now"), strings.Join(l.Actors, ","), OneLine(l.Command), l.Time.Format(time.RFC3339), strconv.Itoa(l.Line),
			strings.ToValidUTF8(l.Text, "\uFFFD"),
		}
	})
}

func actorRows(l *ActorList) [][]string {
	return rowsOf(l.Actors, "", func(s ActorState) []string {
		return []string{s.Name, plural(s.Snapshots, "snapshot", "snapshots"), s.First.Format(time.RFC3339), s.Last.Format(time.RFC3339)}
	})
}

func duRows(u *info.Disk) (rows [][]string) {
	rows = rowsOf(u.Snapshots, "", func(s info.UsedBy) []string { return []string{BytesText(s.Bytes), s.Name} })
	forks := rowsOf(u.Forks, "", func(f info.UsedBy) []string { return []string{BytesText(f.Bytes), ".forks/" + f.Name} })
	rows = append(rows, forks...)
	return append(rows, []string{BytesText(u.Together), plural(len(u.Snapshots), "snapshot", "snapshots") + " together"})
}

func opRows(l *OpList) [][]string {
	return rowsOf(l.Ops, "no operations", func(o OpState) []string {
		state := ""
		switch {
		case o.Undoes > 0 && !o.Undone:
			state = fmt.Sprintf("undid %d", o.Undoes)
		case o.Undone:
			state = "undone"
		case o.Interrupted:
			state = "interrupted"
		}

		who := cmp.Or(o.Actor, o.Command, fmt.Sprintf("uid:%d", o.UID))
		return []string{strconv.FormatUint(o.Number, 10), humanize.Time(o.At), o.Name, cmp.Or(gitquote.ReadableName(strings.TrimSpace(o.Of+" "+o.To)), "-"), gitquote.ReadableName(who), state}
	})
}

func forkRows(l *ForkList) [][]string {
	return rowsOf(l.Forks, "no forks", func(f ForkState) []string {
		changed := plural(f.Changed, "file", "files") + " changed"
		if f.More {
			changed = "at least " + changed
		}

		ttl := "-"
		if f.TTL != "" {
			ttl = "ttl " + f.TTL
		}

		return []string{f.Name, cmp.Or(f.Base, "present state"), humanize.Time(f.Created), cmp.Or(gitquote.ReadableName(f.Last), "-"), plural(f.Snapshots, "snapshot", "snapshots"), changed, ttl}
	})
}

// EventText returns an event as a line without a newline. paint may add color to the action.
func EventText(e events.Event, paint func(action string) string) string {
	path := gitquote.ReadableName(e.Path)
	switch {
	case e.Action == "captured":
		path = e.From
	case e.From != "":
		path += " (from " + gitquote.ReadableName(e.From) + ")"
	}

	if e.Detail != "" {
		path += ", " + OneLine(e.Detail)
	}

	who := ""
	if e.PID != 0 || e.Command != "" {
		who = fmt.Sprintf("  %s[%d]", gitquote.ReadableName(e.Command), e.PID)
	}

	return e.Time.Local().Format("2006-01-02 15:04:05") + "  " + paint(fmt.Sprintf("%-8s", e.Action)) + "  " + path + who
}

// eventLines writes events, newest first.
func eventLines(list *[]events.Event) string {
	var b strings.Builder
	for _, e := range slices.Backward(*list) {
		b.WriteString(EventText(e, func(action string) string { return action }) + "\n")
	}
	return b.String()
}

// diffText returns the text of a diff, or "no differences".
func diffText(text *string) string {
	if *text == "" {
		return "no differences"
	}
	return strings.ToValidUTF8(*text, "\uFFFD")
}

func removedLines(result *Removed) string {
	return formatNames("snapshot %s deleted\n", result.Names) + undoDeadlineLine(result.Kept)
}

func pinnedLines(result *Pinned) string {
	return formatNames("snapshot %s "+map[bool]string{true: "pinned", false: "unpinned"}[result.Pin]+"\n", result.Names)
}

// formatNames formats each name, and joins the results.
func formatNames(format string, names []string) string {
	return joinTexts(names, func(name string) string { return fmt.Sprintf(format, name) })
}

// joinTexts joins the texts of the elements of a list.
func joinTexts[T any](list []T, text func(T) string) string {
	var b strings.Builder
	for _, one := range list {
		b.WriteString(text(one))
	}
	return b.String()
}

func compactedLines(result *snapshot.Compacted) string {
	text := "snapshot " + result.Name + " created: " + result.ID + "\n"
	if len(result.Removed) > 0 {
		text += "deleted " + strings.Join(result.Removed, " ") + "\n"
	}
	if len(result.Kept) > 0 {
		text += "pinned, so kept: " + strings.Join(result.Kept, " ") + "\n"
	}

	return text
}

func pushedLines(l *PushedList) string {
	return joinTexts(l.Pushed, func(p Pushed) string {
		as := ""
		if p.As != p.Snapshot {
			as = " as " + p.As
		}
		if p.Unchanged {
			return fmt.Sprintf("snapshot %s is on %s already%s\n", p.Snapshot, p.Remote, as)
		}

		return fmt.Sprintf("snapshot %s pushed to %s%s: %s\n", p.Snapshot, p.Remote, as, BytesText(p.Bytes))
	})
}

func deletedForkLine(result *DeletedFork) string {
	text := fmt.Sprintf("fork %s deleted", result.Name)
	switch {
	case result.Snapshot != "":
		text += "; its last state is the snapshot " + result.Snapshot
	case result.Kept.IsZero():
		text += "; nothing was kept"
	}
	return text + "\n" + undoDeadlineLine(result.Kept)
}

func restoredLines(r *snapshot.RestoreResult) string {
	text := ChangedText("restored", "would restore", r.DryRun, "snapshot "+r.Snapshot, r.Changed, r.Changed, r.Paths, 0)
	return text + prefixedLines("kept as it is: ", r.Kept)
}

func mergedLines(result *snapshot.PromoteResult) string {
	paths, inGit := WithoutGit(result.Paths)
	return ChangedText("merged", "would merge", result.DryRun, "fork "+result.Fork, result.Changed, result.Changed, paths, inGit) + GitText(result.Git) + HiddenText(result.Hidden)
}

// HiddenText returns a line that names the hidden paths at which a fork or a run has files, "" for none.
func HiddenText(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return "hidden paths, which stay as they are: " + gitquote.ListNames(paths) + "\n"
}

// WithoutGit returns the paths outside of .git directories, and the number of paths inside of them.
func WithoutGit(paths []graft.PathChange) (work []graft.PathChange, inGit int) {
	for _, p := range paths {
		if _, _, git := threeway.SplitGitPath(p.Path); !git {
			work = append(work, p)
		}
	}
	return work, len(paths) - len(work)
}

// GitText describes the changes of git directories, see RepositoryText.
func GitText(repos []threeway.Repository) string {
	return joinTexts(repos, func(g threeway.Repository) string { return RepositoryText(g.Dir, "", g.Lines, g.Commits) })
}

// RepositoryText describes the changes of a git directory at the path dir. The text has one line with all of lines,
// then a line for each commit. If .git is a file that names another directory, target is the path of that
// directory, else "".
func RepositoryText(dir, target string, lines, commits []string) string {
	text := "git: "
	if dir != ".git" {
		text = "git in " + gitquote.ReadableName(strings.TrimSuffix(dir, "/.git")) + ": "
	}

	text += gitquote.EscapeControls(strings.Join(lines, ", "), "")
	if target != "" {
		text += " (the repository is " + gitquote.ReadableName(target) + ")"
	}
	for _, c := range commits {
		text += "\n" + gitquote.EscapeControls(c, "")
	}

	return text + "\n"
}

func undoneLines(result *UndoneBy) string {
	text := ChangedText("undid", "would undo", result.DryRun, "the changes by "+result.Actor, result.Changed, result.Changed, result.Paths, 0)
	text += prefixedLines("kept as it is: ", result.Kept)
	text += prefixedLines("in conflict: ", result.Conflicts)
	text += prefixedLines("also changed by others between the same snapshots: ", result.Shared)
	if result.Later {
		text += result.Actor + " has changed more since; these changes stay\n"
	}

	return text
}

// briefPushed returns the answer of the control file push, which pushes one snapshot.
func briefPushed(result any) any { return result.(PushedList).Pushed[0] }

// briefRestored returns the answer of a control file about a restore, with only the first paths.
func briefRestored(result any) any {
	const maxPaths = 100
	r := result.(snapshot.RestoreResult)
	r.More = r.More || len(r.Paths) > maxPaths
	r.Shorten(maxPaths)
	return r
}

// policyText writes a policy as JSON.
func policyText(p *policy.Policy) string {
	var b strings.Builder
	e := gitquote.Encoder(&b)
	e.SetIndent("", "  ")
	_ = e.Encode(p) // writes to a Builder never fail, and a policy can be encoded because it was read from JSON
	return b.String()
}

// createdLine returns a line for a new snapshot: its name and id or, if the call did not wait for the id, only its
// number.
func createdLine(a snapshot.CaptureOptions, i *info.Info) string {
	if !a.Wait {
		return fmt.Sprintf("cp-%d\n", i.Seq)
	}
	return fmt.Sprintf("snapshot %s created: %s\n", i.Name, i.ID)
}
