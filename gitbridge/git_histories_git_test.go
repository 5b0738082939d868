package gitbridge

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

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
	return h.gitMerge(base, ours, theirs, h.t.TempDir(), `git merge-tree --write-tree --name-only $o $t | sed '1d;/^$/,$d'`)
}

// gitMerged returns the files of git's own merge of the two working trees that are as on neither side, and those that one side
// changed and the other renamed. It returns none if there are conflicts, or no such files.
func (h *histories) gitMerged(base, ours, theirs *side) map[string]string {
	lost := func(b, o, t *side) []string { // files that t does not have
		return slices.DeleteFunc(slices.Collect(maps.Keys(o.files)), func(at string) bool { return t.files[at] != "" || b.files[at] == "" || o.files[at] == b.files[at] })
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
		if text != ours.files[at] && text != theirs.files[at] {
			out[at] = text
		}
	}
	for _, at := range slices.Concat(lost(base, ours, theirs), lost(base, theirs, ours)) {
		out[at] = ""
	}
	return out
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

// ofBoth calls git with the objects of both sides, and with as much of the history as the receiving one
// has. It returns "" if that fails.
func (h *histories) ofBoth(args string) string {
	return strings.TrimSpace(h.rig.in(filepath.Join(h.rig.dir, h.below), `a=$(git -C "$TOP/run/`+h.below+`" rev-parse --path-format=absolute --git-path objects); out=$(GIT_SHALLOW_FILE="`+filepath.Join(h.to, h.below, ".git/shallow")+`" GIT_ALTERNATE_OBJECT_DIRECTORIES=$a git `+args+` 2>/dev/null) && echo "$out"`))
}

// mergeTree is the tree of git's merge of the branch that ours has checked out, "" if it has conflicts.
func (h *histories) mergeTree(ours, theirs *side) string {
	return h.ofBoth("merge-tree --write-tree " + ours.commit + " " + theirs.refs[ours.head])
}

// committed is what a side has committed.
func (h *histories) committed(s *side) *side {
	dir := h.t.TempDir()
	h.ofBoth("archive " + s.commit + " | tar -x -C " + dir)
	return &side{files: h.filesBelow(dir)}
}

// checkHead checks what is checked out: what theirs has, if theirs alone moved HEAD.
func (h *histories) checkHead(fail func(string, ...any), base, ours, theirs, now *side) {
	at := func(s *side) string { return cmp.Or(s.head, s.commit) }
	// Ours has commits of its own, or took some back.
	moved := ours.commit != base.commit && !(h.contains(theirs.commit, ours.commit) && (base.commit == "" || h.contains(ours.commit, base.commit)))
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
