package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
)

// The sets of tools. A tool has a name in each set that it is in.
const (
	setAll = iota
	setSnapshots
	setWorkspace // below workspace__NAME__
)

// A tool is an operation of the service with the names and arguments that models know.
type tool struct {
	names        [3]string // by set
	title, about string
	effect       effect
	op           any // the operation's arguments, with those that every call has
	// args are the arguments that the tool takes. AS=FIELD is one by another name; a
	// list that is called by a name in the singular takes one element.
	args string
	// pages cuts the text up; else the structured content is the operation's result.
	pages bool
	show  shower
	// anywhere: it needs no workspace.
	anywhere bool
	// own does the work of a tool that is no operation.
	own func(ctx context.Context, a *app, p locate.Place, args any, notify notifier) (any, error)
}

// A shower writes results of a type, to which it gets a pointer, as text.
type shower struct {
	of   reflect.Type
	text func(result any) string
}

func text[R any](show func(*R) string) shower {
	return shower{reflect.TypeFor[R](), func(result any) string { return show(result.(*R)) }}
}

var tools = []tool{
	{names: [3]string{"snapshot_create", "snapshots_create", "snapshot"}, title: "Create a snapshot", effect: adds,
		about: "Take a snapshot of the workspace. It takes the same time for any size.",
		op:    service.Snapshot{Wait: true}, args: "name description=message labels expires pinned if_changed",
		show: text(func(i *snapshot.Info) string { return fmt.Sprintf("snapshot %s created: %s", i.Name, i.ID) })},
	{names: [3]string{"snapshot_list", "snapshots_list"}, title: "List snapshots", effect: reads,
		about: "List the snapshots, newest first: name, id, time and description.",
		op:    service.List{}, args: "limit since kind labels", pages: true,
		show: text(func(l *service.Snapshots) string { return joinRows(listRows(l.Snapshots, false)) })},
	{names: [3]string{"snapshot_show"}, title: "Show a snapshot", effect: reads,
		about: "Show everything about one snapshot.", op: service.Show{}, args: "name",
		show: text(func(i *snapshot.Info) string { return rowsText(infoFields(*i)) })},
	{names: [3]string{"snapshot_delete", "snapshots_delete"}, title: "Delete a snapshot", effect: destroys,
		about: "Delete a snapshot. Contents that only this snapshot has are lost.", op: service.Remove{}, args: "name=names",
		show: text(func(d *service.Removed) string { return "snapshot " + strings.Join(d.Names, " ") + " deleted" })},
	{names: [3]string{"snapshot_compact", "snapshots_compact"}, title: "Compact snapshots", effect: destroys,
		about: "Make one snapshot of the newest version of each path of several snapshots. These are deleted unless they are pinned.",
		op:    service.Compact{}, args: "names name description=message",
		show: text(func(c *service.Compacted) string { return compactedLines(*c) })},
	{names: [3]string{"snapshot_push"}, title: "Push a snapshot", effect: sends,
		about: "Send a snapshot to a remote that the owner of the store added.",
		op:    service.Push{}, args: "name=snapshots remote as",
		show: text(func(l *service.PushedList) string {
			var b strings.Builder
			for _, p := range l.Pushed {
				b.WriteString(pushedLine(p.Remote, p))
			}
			return b.String()
		})},
	{names: [3]string{"snapshot_restore"}, title: "Restore a snapshot", effect: destroys,
		about: "Make the workspace, or some paths, equal to a snapshot. snapshot_undo undoes it.",
		op:    service.Restore{}, args: "name paths keep dry_run", show: text(restoredText)},
	{names: [3]string{"snapshot_undo"}, title: "Undo the last restore", effect: destroys,
		about: "Undo the last restore, revert or merge.",
		op:    service.Restore{Name: "undo"}, args: "keep dry_run", show: text(restoredText)},
	{names: [3]string{"snapshot_revert", "snapshots_revert"}, title: "Revert a file", effect: destroys,
		about: "Restore one path from a snapshot, or from the newest one in which it differs. It is deleted if the snapshot does not have it.",
		op:    service.Revert{}, args: "path name", show: text(restoredText)},
	{names: [3]string{"snapshot_diff"}, title: "Show differences", effect: reads,
		about: "Show what changed from one snapshot to another, or to now, as a patch.",
		op:    service.Diff{Format: "patch"}, args: "name=a other=b paths", pages: true, show: text(differences)},
	{names: [3]string{"snapshot_changes", "snapshots_changes"}, title: "List changed files", effect: reads,
		about: "List the files that changed from one snapshot to another, or to now: A, M, D, T or R and the path.",
		op:    service.Diff{Format: "name-status"}, args: "name=a other=b paths", pages: true, show: text(differences)},
	{names: [3]string{"snapshot_history", "snapshots_history"}, title: "Show the history of a file", effect: reads,
		about: "List the snapshots in which a path was created, modified or deleted, newest first.",
		op:    service.PathHistory{}, args: "path all", pages: true,
		show: text(func(h *service.History) string { return joinRows(historyRows(*h)) })},
	{names: [3]string{"snapshot_blame"}, title: "Blame a file", effect: reads,
		about: "Show for each line of a file its snapshot, actors, command, time and number.",
		op:    service.Blame{}, args: "path", pages: true,
		show: text(func(b *service.Blamed) string { return joinRows(blameRows(*b)) })},
	{names: [3]string{"fork_create", "", "branch"}, title: "Create a fork", effect: adds,
		about: "Create a fork, a writable copy of a snapshot or of the present state. The answer has its path.",
		op:    service.Fork{}, args: "name snapshot ttl",
		show: text(func(f *service.Forked) string { return fmt.Sprintf("fork %s created: %s", f.Name, f.Path) })},
	{names: [3]string{"", "", "restore"}, title: "Restore", effect: adds,
		about: "Create a new workspace from a ref. The present one stays as it is.",
		op:    service.Fork{}, args: "name snapshot",
		show: text(func(f *service.Forked) string { return f.Name })},
	{names: [3]string{"fork_list"}, title: "List forks", effect: reads,
		about: "List the forks: name, base, time, snapshots, changed files and time to live.",
		op:    service.Forks{}, pages: true,
		show: text(func(l *service.ForkList) string { return joinRows(forkRows(l.Forks)) })},
	{names: [3]string{"fork_merge"}, title: "Merge a fork", effect: destroys,
		about: "Merge what a fork changed into the workspace. Conflicts are listed, and then nothing is changed.",
		op:    service.Merge{}, args: "fork ours theirs resolve keep dry_run",
		show: text(func(p *service.Merged) string {
			p.Paths = shorten(p.Paths)
			return mergedLines(*p)
		})},
	{names: [3]string{"fork_delete"}, title: "Delete a fork", effect: destroys,
		about: "Delete a fork. Its last state becomes a snapshot of the workspace, unless discard is set.",
		op:    service.DeleteFork{}, args: "name discard force",
		show: text(deletedForkText)},
	{names: [3]string{"workspace_claim"}, title: "Claim a workspace", effect: adds,
		about: "Get the path of the fork with a label, or create it.",
		op:    service.Claim{}, args: "label from ttl",
		show: text(func(c *service.Claimed) string { return c.Tier + ": " + c.Path })},
	{names: [3]string{"workspace_undo"}, title: "Undo one actor's work", effect: destroys,
		about: "Undo what one actor changed and keep what all others changed. If others changed the same lines later, the paths are listed and nothing is changed.",
		op:    service.UndoBy{}, args: "by since paths keep ours theirs dry_run",
		show: text(func(u *service.UndoneBy) string {
			u.Paths = shorten(u.Paths)
			return undoneLines(*u)
		})},
	{names: [3]string{"workspace_status"}, title: "Show the status", effect: reads,
		about: "Show the status of the workspace and its store.", op: service.GetStatus{},
		show: text(func(s *service.Status) string { return rowsText(statusFields(*s)) })},
	{names: [3]string{"workspace_log"}, title: "Show the events", effect: reads,
		about: "List events, newest first: time, action, path, and the program.",
		op:    service.Log{}, args: "path since action command limit", pages: true, show: text(eventLines)},
	{names: [3]string{"run_list"}, title: "List runs", effect: reads, anywhere: true,
		about: "List the runs of amberfs run, in all directories: name, directory, state, changed files and size.",
		op:    runListArgs{}, show: text(func(l *runList) string { return joinRows(runRows(l.Runs)) }), own: listRunsTool},
	{names: [3]string{"run_apply"}, title: "Apply a run", effect: destroys, anywhere: true,
		about: "Write what a run changed to its directory. Conflicts are listed, and then nothing is changed.",
		op:    runApplyArgs{}, args: "name leave ours theirs dry_run",
		show: text(func(d *gitbridge.Applied) string { d.Paths = shorten(d.Paths); return (&app{}).appliedLines(d) }), own: applyRunTool},
	{names: [3]string{"run_remove"}, title: "Remove a run", effect: destroys, anywhere: true,
		about: "Remove a run. For a day, the user can have it back.",
		op:    runRemoveArgs{}, args: "name", show: text(func(r *runs.Run) string { return "run " + r.Name + " removed" }), own: removeRunTool},
	{names: [3]string{"snapshot_bisect"}, title: "Find what broke", effect: executes,
		about: "Find the first snapshot for which a command fails, by running it in forks of snapshots. The forks are discarded.",
		op:    bisectArgs{}, args: "good bad command jobs repeat timeout trust_ends kind labels by",
		show: text(bisectedText),
		own: func(ctx context.Context, a *app, p locate.Place, args any, notify notifier) (any, error) {
			return a.bisect(ctx, p, args.(bisectArgs), func(r bisectRound) { notify(r.text(), r.Round, 0) })
		}},
	{names: [3]string{"workspace_explore"}, title: "Try a command in several forks", effect: executes,
		about: "Run a command in several forks of the present state, check each, and merge the first or the best that passes.",
		op:    exploreArgs{}, args: "attempts command jobs check score merge timeout",
		show: text(exploredText),
		own: func(ctx context.Context, a *app, p locate.Place, args any, notify notifier) (any, error) {
			ended := 0
			return a.explore(ctx, p, args.(exploreArgs), func(all []*attempt, t *attempt) {
				if t != nil {
					ended++
					notify(fmt.Sprintf("attempt %d %s", t.Attempt, t.State), ended, len(all))
				}
			})
		}},
}

func restoredText(r *service.Restored) string {
	r.Paths = shorten(r.Paths)
	return restoredLines(*r)
}

func differences(text *string) string {
	if *text == "" {
		return "no differences"
	}
	return strings.ToValidUTF8(*text, "\uFFFD")
}

func eventLines(list *[]events.Event) string {
	var b strings.Builder
	for _, e := range slices.Backward(*list) {
		b.WriteString(eventText(e, false) + "\n")
	}
	return b.String()
}

// inJSON is a result as the format json has it: a list is one, and lines are one.
func inJSON(result any) (string, error) {
	switch r := result.(type) {
	case *service.Snapshots:
		result = r.Snapshots
	case *string:
		result = strings.Split(*r, "\n")
	}
	b, err := json.Marshal(result)
	return string(b), err
}

const maxListed = 100

// shorten bounds a list; the count beside it says how many there are.
func shorten[T any](list []T) []T { return list[:min(len(list), maxListed)] }

// The set "workspace:NAME" has three tools. A ref that one of them returns is a snapshot
// or a workspace, and each of them takes both:
//
//	SNAPSHOT           of the server's workspace
//	FORK, FORK/FORK    a workspace that restore or branch made
//	FORK@SNAPSHOT      a snapshot of that
type ref struct {
	Ref string `json:"ref" jsonschema:"a state or a workspace, as these tools return it"`
}

type newRef struct {
	Ref  string `json:"ref" jsonschema:"every tool of this set takes it"`
	Path string `json:"path,omitempty" jsonschema:"where the new workspace is"`
}

// resolve finds the workspace of a ref, and the snapshot if it is one.
func (m *mcpServer) resolve(ctx context.Context, ref string) (workspace, name string) {
	workspace, name, isSnapshot := strings.Cut(ref, "@")
	if isSnapshot || ref == "" || strings.Contains(ref, "/") || slices.Contains(m.a.names(ctx, "fork"), ref) {
		return workspace, name
	}
	return "", ref
}

func (m *mcpServer) offerRef(workspace string, t *tool) {
	in := mustSchema(reflect.TypeFor[ref]())
	in.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	_, makesFork := t.op.(service.Fork)
	if !makesFork {
		in.Required = nil // the server's workspace
	}
	name := "workspace__" + workspace + "__" + t.names[setWorkspace]
	m.add(t, name, in, reflect.TypeFor[newRef](), func(ctx context.Context, args arguments, _ notifier) (string, any, error) {
		var r ref
		if raw, ok := args["ref"]; ok {
			if err := json.Unmarshal(raw, &r.Ref); err != nil || r.Ref == "" {
				return "", nil, fail.New(fail.Usage, "the argument ref must be a string that these tools returned, not %s", raw)
			}
		}
		at, state := m.resolve(ctx, r.Ref)
		p, err := m.place(at)
		if err != nil {
			return "", nil, err
		}
		made, between := newRef{}, "@"
		if makesFork {
			between = "/"
			made, err = m.branch(ctx, p, workspace, state)
		} else {
			made, err = m.capture(ctx, p, state)
		}
		made.Ref = strings.TrimPrefix(at+between+made.Ref, between)
		return made.Ref, made, err
	})
}

// capture returns the ref of the present state of the workspace at a place, or of its
// snapshot.
func (m *mcpServer) capture(ctx context.Context, p locate.Place, name string) (newRef, error) {
	made := snapshot.Info{Name: name}
	var err error
	if name == "" {
		err = m.a.ask(ctx, p, service.Snapshot{Wait: true}, &made)
	}
	return newRef{Ref: made.Name}, err
}

// branch makes a workspace out of a state of the workspace at a place.
func (m *mcpServer) branch(ctx context.Context, p locate.Place, workspace, state string) (newRef, error) {
	for n := 1; ; n++ {
		var made service.Forked
		err := m.a.ask(ctx, p, service.Fork{Name: fmt.Sprintf("%s-%d", workspace, n), Snapshot: state}, &made)
		if fail.KindOf(err) != fail.Exists { // else the name is in use
			return newRef{Ref: made.Name, Path: made.Path}, err
		}
	}
}
