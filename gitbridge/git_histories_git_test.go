package gitbridge

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
)

// mergeFile merges as git does.
func (h *histories) mergeFile(b, o, t string) (string, bool) {
	if b == "" || o == "" || t == "" || strings.HasPrefix(b+o+t, "->") || strings.HasPrefix(o, "->") || strings.HasPrefix(t, "->") {
		return "", false
	}
	mode := func(s string) string { return before(s, " ") }
	m := mode(o)
	if mode(o) == mode(b) {
		m = mode(t)
	}
	dir := h.t.TempDir()
	for name, text := range map[string]string{"b": b, "o": o, "t": t} {
		must.OK(h.t, os.WriteFile(filepath.Join(dir, name), []byte(after(text, " ")), 0o600))
	}
	cmd := exec.Command("git", "merge-file", "-p", "o", "b", "t")
	cmd.Dir = dir
	out, err := cmd.Output()
	return m + " " + string(out), err == nil
}

// gitConflicts returns the paths at which git's own merge of the two working trees has conflicts.
func (h *histories) gitConflicts(base, ours, theirs *side) string {
	return h.gitMerge(base, ours, theirs, h.t.TempDir(), `m=$(git merge-tree --write-tree --name-only $o $t); echo "$m" | sed '1d;/^$/,$d'
git grep -l "^<<<<<<<.* $o" $(echo "$m" | sed 1q)`) // git may leave markers without an error
}

// gitMerged returns the files of git's own merge of the two working trees that differ from both sides, and the files
// that one side changed and the other side renamed. It returns no files if there are conflicts.
func (h *histories) gitMerged(base, ours, theirs *side) map[string]string {
	lost := func(b, o, t *side) []string { // files that t does not have, and whose changes are not committed
		return slices.DeleteFunc(slices.Collect(maps.Keys(o.files)), func(at string) bool {
			return t.files[at] != "" || b.files[at] == "" || o.files[at] == b.files[at] || !ours.dirty[at] && !theirs.dirty[at]
		})
	}
	all := slices.Concat(lost(base, ours, theirs), lost(base, theirs, ours), lost(ours, theirs, base))
	if len(all) == 0 {
		return nil
	}
	out := make(map[string]string)
	dir := h.t.TempDir()
	h.gitMerge(base, ours, theirs, dir, `m=$(git merge-tree --write-tree $o $t) && mkdir m && git archive $m | tar -x -C m`)
	if _, err := os.Lstat(filepath.Join(dir, "m")); err != nil {
		return nil
	}
	for at, text := range h.filesBelow(filepath.Join(dir, "m")) {
		if strings.Contains(text, "<<<<<<<< ") {
			return nil
		}
		if text != ours.files[at] && text != theirs.files[at] {
			out[at] = text
		}
	}
	for _, at := range slices.Concat(lost(base, ours, theirs), lost(base, theirs, ours)) {
		out[at] = ""
	}
	return out
}

// isMoved reports whether a file has the changes of both sides of a file that one side, or both, renamed to its path.
func (h *histories) isMoved(n string, base, ours, theirs *side, at string) bool {
	for from, b := range base.files {
		for _, pair := range [][2]string{{ours.files[from], theirs.files[at]}, {ours.files[at], theirs.files[from]}, {ours.files[at], theirs.files[at]}} {
			if is, ok := h.mergeFile(b, pair[0], pair[1]); ok && is == n && (ours.files[from] == "" || theirs.files[from] == "") {
				return true
			}
		}
	}
	return false
}

// isMovedAway reports whether a file is gone because a file at another path has the changes of both sides, see isMoved.
func (h *histories) isMovedAway(at string, base, ours, theirs, now *side) bool {
	from := &side{files: map[string]string{at: base.files[at]}}
	return now.files[at] == "" && slices.ContainsFunc(slices.Collect(maps.Keys(now.files)), func(to string) bool {
		return base.files[to] == "" && h.isMoved(now.files[to], from, ours, theirs, to)
	})
}

// dropped returns the paths of files whose changes git's merge drops without a conflict, which no merge of files may do.
// Git does so if one side changed a file, the other side renamed it, and both have equal files at the new path.
func (h *histories) dropped(base, ours, theirs *side) (paths []string) {
	renamed := h.gitMerge(base, ours, theirs, h.t.TempDir(), `for s in $o $t; do git diff-tree -r -M --diff-filter=R --name-status $b $s; done`)
	for l := range strings.Lines(renamed) {
		f := strings.Split(strings.TrimSpace(l), "\t")
		if len(f) != 3 {
			h.t.Fatalf("git: %s", renamed)
		}
		if from, to := f[1], f[2]; ours.files[to] == theirs.files[to] && ours.files[from]+theirs.files[from] != "" && ours.files[from]+theirs.files[from] != base.files[from] {
			paths = append(paths, from)
		}
	}
	return paths
}

// gitMerge has git make commits of a base and two working trees, $b, $o and $t, and runs a script with them in a directory.
func (h *histories) gitMerge(base, ours, theirs *side, dir, script string) string {
	write := func(s *side, name string) {
		at := filepath.Join(dir, name)
		for file, text := range s.files {
			p := filepath.Join(at, file)
			must.OK(h.t, os.MkdirAll(filepath.Dir(p), 0o755))
			if strings.HasPrefix(text, "-> ") {
				must.OK(h.t, os.Symlink(text[3:], p))
				continue
			}
			mode := fs.FileMode(0o644)
			if before(text, " ") != "----------" {
				mode = 0o755
			}
			must.OK(h.t, os.WriteFile(p, []byte(after(text, " ")), mode))
		}
		must.OK(h.t, os.MkdirAll(at, 0o755))
	}
	write(base, "b")
	write(ours, "o")
	write(theirs, "t")
	return h.rig.in(dir, `exec 2>&1; git init -q; c() { rm -f .git/index; git --work-tree=$1 add -A -f; git commit-tree $2 $3 -m $1 $(git write-tree); }
b=$(c b); o=$(c o -p $b); t=$(c t -p $b); `+script)
}

// ofBoth calls git with the objects of both sides, and with the shallow history of the receiving side. It returns "" if
// git fails.
func (h *histories) ofBoth(args string) string {
	return strings.TrimSpace(h.rig.in(filepath.Join(h.rig.dir, h.below), `a=$(git -C "$TOP/run/`+h.below+`" rev-parse --path-format=absolute --git-path objects); out=$(GIT_SHALLOW_FILE="`+filepath.Join(h.to, h.below, ".git/shallow")+`" GIT_ALTERNATE_OBJECT_DIRECTORIES=$a git `+args+` 2>/dev/null) && echo "$out"`))
}

// mergeTree returns the tree of git's merge of the branch that ours has checked out, "" if the merge has conflicts.
func (h *histories) mergeTree(ours, theirs *side) string {
	return h.ofBoth("merge-tree --write-tree " + ours.commit + " " + theirs.refs[ours.head])
}

// committed returns a side with the files of its HEAD.
func (h *histories) committed(s *side) *side {
	dir := h.t.TempDir()
	h.ofBoth("archive " + s.commit + " | tar -x -C " + dir)
	return &side{files: h.filesBelow(dir)}
}

// checkHead checks the HEAD of the receiving side: it is the HEAD of theirs if only theirs moved HEAD.
func (h *histories) checkHead(fail func(string, ...any), base, ours, theirs, now *side) {
	at := func(s *side) string { return cmp.Or(s.head, s.commit) }
	// Ours has commits of its own, or took some back.
	moved := ours.commit != base.commit && !(h.contains(theirs.commit, ours.commit) && (base.commit == "" || h.contains(ours.commit, base.commit) || ours.head == "" && base.head != ""))
	want := at(ours)
	switch {
	case at(theirs) == at(base), moved:
	case at(ours) != at(base) && cmp.Or(ours.head, theirs.head) != "":
	case theirs.head != "" && ours.refs[theirs.head] == "" && base.refs[theirs.head] != "": // it is gone here
	case theirs.head != "" && now.refs[theirs.head] != theirs.commit: // it has other files
	default:
		want = at(theirs)
	}
	switch busy := len(ours.wip) > 0; {
	case at(now) == want, busy && at(now) == at(ours):
	case theirs.head != "" && h.checkedOut(theirs.head) && strings.HasPrefix(now.head, "refs/heads/amberfs"):
	default:
		fail("HEAD is at %s, want %s: base %s %.7s ours %s %.7s theirs %s %.7s", at(now), want, base.head, base.commit, ours.head, ours.commit, theirs.head, theirs.commit)
	}
}

// checkedOut reports whether another working tree may have a branch.
func (h *histories) checkedOut(name string) bool {
	return strings.Contains(h.worktrees, "ref: "+name+"\n")
}

func (h *histories) checkIndex(fail func(string, ...any), base, ours, theirs, now *side, followed map[string]string, prefer bool) {
	for at := range now.staged {
		switch {
		case ours.staged[at] && ours.index[at] == now.index[at], theirs.staged[at] && theirs.index[at] == now.index[at]:
		default:
			fail("STAGED %s: %q, ours %v %q, theirs %v %q", at, now.index[at], ours.staged[at], ours.index[at], theirs.staged[at], theirs.index[at])
		}
	}
	for at := range ours.staged { // stays staged, or is in the commit, unless HEAD has changed it
		if !now.staged[at] && now.commit == ours.commit && !theirs.staged[at] && theirs.index[at] == ours.index[at] {
			fail("UNSTAGED %s", at)
		}
	}
	for at := range now.dirty {
		first := before(at, "/")
		moved := (len(h.excused) > 0 || followed == nil) && h.isMoved(now.files[at], base, ours, theirs, at)
		dropped := base.dirty[at] && now.files[at] == theirs.files[at] && maps.Equal(base.refs, theirs.refs) && base.commit == theirs.commit // without a change of git there
		if followed[at] == "" && !moved && !dropped && !ours.dirty[at] && !theirs.dirty[at] && !h.excused[at] && !h.excused[first] && !prefer && !slices.Contains(nestedNames, at) && !(h.sparse && now.index[at] == "") &&
			!(slices.Contains(nestedNames, first) && ours.files[at] != "" && now.index[at] == "") && // it was ignored
			!((ours.nested[first] == nil) != (theirs.nested[first] == nil)) &&
			!(base.files[at] != "" && now.files[at] == "" && (ours.files[at] == "" || theirs.files[at] == "")) {
			fail("DIRTY %s", at)
		}
	}
	for _, w := range now.wip {
		if !slices.Contains(ours.wip, w) && !slices.Contains(theirs.wip, w) {
			fail("WIP %s", w)
		}
	}
	if of := map[bool]*side{true: ours, false: theirs}[slices.Contains(ours.wip, "MERGE_HEAD")]; slices.Contains(now.wip, "MERGE_HEAD") && !prefer {
		for at := range of.staged {
			if now.index[at] != of.index[at] && !slices.Equal(ours.wip, base.wip) {
				fail("MERGE_HEAD without %s", at)
			}
		}
	}
}

// stateOfDir returns the present state of the directory, with the base's files at and below the paths in kept. Its files
// have the inode numbers of the base.
func (r *rig) stateOfDir(kept ...string) *tree.State {
	entries := r.read(r.dir, kept...)
	for _, top := range kept {
		must.OK(r.t, r.base.Walk(context.Background(), r.m.Src, tree.WalkOptions{Paths: []string{top}}, func(p *tree.Path, n *tree.Inode) error {
			e := stream.Entry{Path: p.String(), Meta: stream.Meta{Mode: n.Mode, UID: n.UID, GID: n.GID, Mtime: n.Mtime}, Target: n.Target}
			if n.IsRegular() {
				e.Data = n.Content.Reader(r.m.Src.Files)
			}
			entries = append(entries, e)
			return nil
		}))
	}
	st := r.state(entries, func(rel string) uint64 { return r.inos[rel] })
	var add func(n *tree.Inode, at string)
	add = func(n *tree.Inode, at string) {
		must.OK(r.t, n.Dir.List(r.m.Src, 0, func(e tree.Dirent, _ uint64) bool {
			rel := strings.TrimPrefix(at+"/"+e.Name, "/")
			r.inos[rel] = e.Ino
			if e.Type == unix.S_IFDIR {
				add(got(st.Get(r.m.Src, e.Ino)), rel)
			}
			return true
		}))
	}
	add(got(st.Get(r.m.Src, tree.RootIno)), "")
	return st
}
