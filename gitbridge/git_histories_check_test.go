package gitbridge

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/tests/must"
)

// A side is what a repository and its working tree have.
type side struct {
	refs   map[string]string
	head   string // a ref, or "" if it is detached
	commit string
	index  map[string]string // path to mode, object and stage
	staged map[string]bool   // paths that differ from HEAD
	dirty  map[string]bool   // all paths of git status
	stash  []string
	files  map[string]string // of the working tree
	wip    []string
	log    string
	nested map[string]*side // repositories and working trees in it
	graphs bool             // git has files that list its commits or packs

	shallow []string // the commits whose parents it does not have
}

// aCommit is a commit of a history.
type aCommit struct {
	parents []string
	subject string
}

// dag is the script that prints the commits of a side.
const dag = `git for-each-ref refs/tags --format='%(objectname)|%(*objectname)|tag'; git log --all --reflog --format='%H|%P|%s' 2>/dev/null; echo @end`

// capture reads a side after a script has run in it.
func (h *histories) capture(dir, script string) *side {
	h.t.Helper()
	h.rig.in(dir, script)
	return h.captureIn(dir, ".")
}

// nestedNames are the directories in which some kinds of repositories have further working trees.
var nestedNames = []string{"lib", "inner"}

// captureIn reads a side, or one that is nested in it.
func (h *histories) captureIn(top, below string) *side {
	dir := filepath.Join(top, below)
	s := &side{refs: make(map[string]string), index: make(map[string]string), staged: make(map[string]bool), dirty: make(map[string]bool), nested: make(map[string]*side)}
	s.files = h.filesBelow(dir)
	for _, name := range nestedNames {
		if _, err := os.Lstat(filepath.Join(dir, name, ".git")); err == nil {
			s.nested[name] = h.captureIn(dir, name)
		}
	}
	script := "cd " + below + " || exit\necho @status; git status --porcelain=v2 -uall --no-renames; echo @dag\n"
	if h.readGit(dir, s) {
		script += dag
	}
	out := h.rig.in(top, script)
	for l := range strings.Lines(before(after(out, "@status\n"), "@dag\n")) {
		s.status(strings.TrimSuffix(strings.TrimSuffix(l, "\n"), "/"))
	}
	list := after(out, "@dag\n")
	for l := range strings.Lines(before(list, "@end\n")) {
		p := strings.SplitN(strings.TrimSuffix(l, "\n"), "|", 3)
		if p[2] == "tag" && p[1] == "" {
			continue // it is no object of its own
		}
		if c := (aCommit{strings.Fields(p[1]), p[2]}); len(c.parents) >= len(h.commits[p[0]].parents) { // else it is shallow on this side only
			h.commits[p[0]] = c
		}
	}
	if !strings.Contains(out, "@dag\n") || strings.HasSuffix(script, dag) && !strings.HasSuffix(list, "@end\n") {
		h.t.Fatalf("the script ended early: %s", out)
	}
	names := slices.Sorted(maps.Keys(s.refs))
	for _, name := range names {
		s.log += fmt.Sprintf("%s %.7s\n", name, s.refs[name])
	}
	s.log += fmt.Sprintf("HEAD %s %.7s %v stash %.7v\n%s", s.head, s.commit, s.wip, s.stash, before(after(out, "@status\n"), "@dag"))
	return s
}

// readGit reads refs, HEAD and operations in progress. It reports whether they name commits that are not known.
func (h *histories) readGit(dir string, s *side) (unknown bool) {
	own := filepath.Join(dir, ".git")
	if b, err := os.ReadFile(own); err == nil {
		own = strings.TrimSpace(strings.TrimPrefix(string(b), "gitdir: "))
		if !filepath.IsAbs(own) {
			own = filepath.Join(dir, own)
		}
		if rel, ok := strings.CutPrefix(own, h.rig.dir+"/"); ok && strings.HasPrefix(dir, h.rig.run) {
			own = filepath.Join(h.rig.run, rel) // the run's is at the path of the directory
		}
	}
	common := own
	if b, err := os.ReadFile(filepath.Join(own, "commondir")); err == nil {
		common = filepath.Join(own, strings.TrimSpace(string(b)))
	}
	read := func(at string) string { b, _ := os.ReadFile(at); return strings.TrimSpace(string(b)) } // else it is not there
	for l := range strings.Lines(read(filepath.Join(common, "packed-refs"))) {
		if f := strings.Fields(l); len(f) == 2 && strings.HasPrefix(f[1], "refs/") {
			s.refs[f[1]] = f[0]
		}
	}
	for _, top := range []string{common, own} {
		_ = filepath.WalkDir(filepath.Join(top, "refs"), func(p string, d fs.DirEntry, err error) error { // a linked one may have none
			if err == nil && d.Type().IsRegular() {
				if id := read(p); !strings.HasPrefix(id, "ref: ") {
					s.refs[got(filepath.Rel(top, p))] = id
				}
			}
			return nil
		})
	}
	s.shallow = strings.Fields(read(filepath.Join(common, "shallow")))
	s.commit = read(filepath.Join(own, "HEAD"))
	if name, ok := strings.CutPrefix(s.commit, "ref: "); ok {
		s.head, s.commit = name, s.refs[name]
	}
	for l := range strings.Lines(read(filepath.Join(common, "logs/refs/stash"))) {
		s.stash = append(s.stash, strings.Fields(l)[1])
	}
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG"} {
		if _, err := os.Lstat(filepath.Join(own, name)); err == nil {
			s.wip = append(s.wip, name)
		}
	}
	if heads := got(filepath.Glob(filepath.Join(common, "worktrees/*/HEAD"))); len(heads) > 0 {
		if !strings.Contains(read(filepath.Join(common, "config")), "bare = true") {
			heads = append(heads, filepath.Join(common, "HEAD"))
		}
		for _, at := range heads {
			h.worktrees += read(at) + "\n"
		}
	}
	for _, name := range []string{"info/alternates", "info/commit-graph", "info/commit-graphs", "pack/multi-pack-index"} {
		_, err := os.Lstat(filepath.Join(common, "objects", name))
		s.graphs = s.graphs || err == nil
	}
	return h.unknown(s, own) || h.unknown(s, common)
}

// unknown reports whether refs of a side, or HEADs and logs of a git directory, name commits that are not known.
func (h *histories) unknown(s *side, dir string) bool {
	all := append(slices.Collect(maps.Values(s.refs)), s.commit)
	for _, pattern := range []string{"worktrees/*/HEAD", "logs/*", "logs/refs/*", "logs/refs/*/*", "logs/refs/*/*/*", "logs/refs/*/*/*/*", "worktrees/*/logs/*", "worktrees/*/logs/refs/*/*"} {
		for _, at := range got(filepath.Glob(filepath.Join(dir, pattern))) {
			b, _ := os.ReadFile(at) // else it is a directory
			for l := range strings.Lines(string(b)) {
				old, rest, _ := strings.Cut(l, " ")
				all = append(all, strings.TrimSpace(old), before(rest, " "))
			}
		}
	}
	return slices.ContainsFunc(all, func(id string) bool {
		_, known := h.commits[id]
		return !known && strings.Trim(id, "0") != "" && id != "ref:" && !strings.HasPrefix(id, "refs/")
	})
}

func after(s, sep string) string  { _, a, _ := strings.Cut(s, sep); return a }
func before(s, sep string) string { b, _, _ := strings.Cut(s, sep); return b }

func (s *side) status(l string) {
	switch {
	case strings.HasPrefix(l, "1 "):
		f := strings.SplitN(l, " ", 9)
		s.dirty[f[8]] = true
		s.index[f[8]] = f[4] + " " + f[7]
		if f[1][0] != '.' {
			s.staged[f[8]] = true
		}
	case strings.HasPrefix(l, "u "):
		f := strings.SplitN(l, " ", 11)
		s.dirty[f[10]], s.staged[f[10]] = true, true
		s.index[f[10]] = strings.Join(append(f[3:6], f[7:10]...), " ") // not the mode of the file
	case strings.HasPrefix(l, "? "):
		s.dirty[l[2:]] = true
	}
}

// filesBelow returns the files of a working tree, without git directories and nested working trees.
func (h *histories) filesBelow(dir string) map[string]string {
	out := make(map[string]string)
	must.OK(h.t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := got(filepath.Rel(dir, p))
		switch {
		case d.IsDir() && slices.Contains(nestedNames, rel):
			if _, err := os.Lstat(filepath.Join(p, ".git")); err == nil {
				return filepath.SkipDir
			}
		case d.Name() == ".git":
			if d.IsDir() {
				return filepath.SkipDir
			}
		case d.Type() == fs.ModeSymlink:
			out[rel] = "-> " + got(os.Readlink(p))
		case d.Type().IsRegular():
			out[rel] = fmt.Sprint(got(d.Info()).Mode()&0o100) + " " + string(got(os.ReadFile(p)))
		}
		return nil
	}))
	return out
}

// reach returns the given commits and all commits in their histories.
func (h *histories) reach(from ...string) map[string]bool {
	all := make(map[string]bool)
	for len(from) > 0 {
		id := from[len(from)-1]
		from = from[:len(from)-1]
		if c, ok := h.commits[id]; ok && !all[id] {
			all[id] = true
			from = append(from, c.parents...)
		}
	}
	return all
}

func (h *histories) contains(a, b string) bool { return a == b || h.reach(a)[b] }

// tips returns the commits that keep all commits of a side: the values of refs, HEAD and the stashes.
func (s *side) tips() (out []string) {
	for name, id := range s.refs {
		if !strings.HasPrefix(name, "refs/bisect/") {
			out = append(out, id)
		}
	}
	return append(append(out, s.commit), s.stash...)
}

// branches returns the tips that the receiving side must have after the merge. Tags, which a side may move, and
// remote-tracking branches are not among them.
func (s *side) branches() (out []string) {
	for name, id := range s.refs {
		if strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/notes/") {
			out = append(out, id)
		}
	}
	return append(append(out, s.commit), s.stash...)
}

// fetchedOver returns the commits that remote-tracking branches had before a fetch of theirs moved them. As in git, no
// other ref has to keep these commits.
func (s *side) fetchedOver(theirs *side, said string) (out []string) {
	for name, id := range s.refs {
		if short, ok := strings.CutPrefix(name, "refs/remotes/"); ok && theirs.refs[name] != id && strings.Contains(said, short+" moved") {
			out = append(out, id)
		}
	}
	return out
}

// withoutBroken returns theirs with the base's values of the refs that are said to be left out because objects of their
// histories are missing, as in a git clone --shared of a repository that was pruned.
func (s *side) withoutBroken(said string, base *side) *side {
	out := *s
	out.refs = maps.Clone(s.refs)
	for name := range s.refs {
		if !strings.Contains(said, name+" is left out: its objects are missing") {
			continue
		}
		delete(out.refs, name)
		if id := base.refs[name]; id != "" {
			out.refs[name] = id
		}
		if s.head == name {
			out.commit = base.commit
		}
	}
	return &out
}

// prunedSource matches what git fsck prints of a repository whose objects are those of another one that was pruned.
var prunedSource = regexp.MustCompile(`invalid reflog entry|broken link from +commit|^ +to +commit|missing commit|Could not read|failed to parse commit`)

// check compares now, the receiving side after the merge, with the three sides of the merge.
func (h *histories) check(dir, said string, base, ours, theirs, now *side, prefer bool) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	graphs := fmt.Sprintf("-c core.commitGraph=%v -c core.multiPackIndex=%v", now.graphs, now.graphs) // without files of theirs, they cost a process each
	for l := range strings.Lines(h.rig.in(dir, `git `+graphs+` fsck --full --strict --no-dangling --no-progress 2>&1`)) {
		borrows := !h.k.own && strings.HasPrefix(dir, h.rig.run) && prunedSource.MatchString(l)
		if !borrows && !strings.HasPrefix(l, "notice:") && !strings.HasPrefix(l, "dangling ") {
			fail("FSCK %s", l)
		}
	}
	for _, id := range now.shallow {
		if !slices.Contains(ours.shallow, id) && h.reach(ours.tips()...)[id] {
			fail("LOST: the parents of %s, which ours had", h.commits[id].subject)
		}
	}
	theirs = theirs.withoutBroken(said, base)
	// No commit is lost.
	has, hadTheirs := h.reach(append(now.tips(), ours.fetchedOver(theirs, said)...)...), h.reach(base.tips()...)
	newStash := func(id string) bool { return !slices.Contains(append(base.stash, base.refs["refs/stash"]), id) }
	for id := range h.reach(ours.tips()...) {
		if !has[id] && !strings.Contains(said, h.commits[id].subject) && !(strings.Contains(said, "stash") && !slices.ContainsFunc(ours.stash, newStash)) {
			fail("LOST: the commit %s of ours", h.commits[id].subject)
		}
	}
	come := *theirs
	if theirs.refs["refs/stash"] == ours.refs["refs/stash"] { // a stash below may be one that ours has dropped
		come.stash = nil
	}
	for id := range h.reach(come.branches()...) {
		if !has[id] && !hadTheirs[id] && !strings.Contains(said, h.commits[id].subject) && !(strings.Contains(said, "stash") && slices.Contains(theirs.stash, id)) {
			fail("LOST: the commit %q of theirs", h.commits[id].subject)
		}
	}
	for name, in := range now.nested {
		if b, o, t := base.nested[name], ours.nested[name], theirs.nested[name]; b != nil && o != nil && t != nil {
			if strings.Contains(said, "the working tree "+name+" stays") {
				continue
			}
			for _, w := range h.check(filepath.Join(dir, name), said, b, o, t, in, prefer) {
				fail("%s: %s", name, w)
			}
		}
	}
	h.below = strings.TrimPrefix(strings.TrimPrefix(dir, h.rig.dir), h.rig.run)
	defer func() { h.below = "" }()
	h.checkRefs(fail, base, ours, theirs, now, prefer)
	followed := h.gitMerged(base, ours, theirs)
	h.checkIndex(fail, base, ours, theirs, now, followed, prefer)
	h.checkFiles(fail, base, ours, theirs, now, followed, prefer)
	return wrong
}

func (h *histories) checkRefs(fail func(string, ...any), base, ours, theirs, now *side, prefer bool) {
	busy := len(ours.wip) > 0 // nothing moves HEAD then
	all := maps.Clone(base.refs)
	maps.Copy(all, ours.refs)
	maps.Copy(all, theirs.refs)
	for name := range all {
		b, o, t, n := base.refs[name], ours.refs[name], theirs.refs[name], now.refs[name]
		ok := true
		switch {
		case name == "refs/stash" || strings.HasPrefix(name, "refs/bisect/"):
		case strings.HasPrefix(name, "refs/heads/amberfs"):
			ok = n == o || n == t || h.contains(n, o)
		case t == b || t == o:
			ok = n == o
		case n == o && ours.head == name && busy:
		case h.join && strings.HasPrefix(name, "refs/heads/") && h.contains(n, o) && h.contains(n, t):
		case o == b && t == "":
			ok = n == "" || h.checkedOut(name) || n == o && ours.head == name
		case o == b && strings.HasPrefix(name, "refs/tags/") && o != "":
			ok = n == o || n == t // a tag that was moved
		case o == b:
			ok = n == t || h.checkedOut(name) || o != "" && n == o && (!h.contains(t, o) || ours.head == name && theirs.head != name)
		case strings.HasPrefix(name, "refs/tags/") && o != "":
			ok = n == o
		case o == "" || t == "":
			ok = n == o
		case h.contains(o, t):
			ok = n == o
		case h.contains(t, o):
			ok = n == t || h.checkedOut(name) || n == o && ours.head == name && (!h.contains(o, b) || theirs.head != name)
		case prefer && !h.join && strings.HasPrefix(name, "refs/heads/"):
			ok = n == t || h.checkedOut(name) || n == o && ours.head == name
		default:
			ok = n == o
		}
		if !ok {
			fail("REF %s is %.7s: base %.7s ours %.7s theirs %.7s", name, n, b, o, t)
		}
	}
	for name, n := range now.refs {
		if _, known := all[name]; !known && !strings.HasPrefix(name, "refs/heads/amberfs") && !strings.HasPrefix(name, "refs/notes/amberfs/") {
			fail("REF %s is new", name)
		}
		if n == "" {
			fail("REF %s is empty", name)
		}
	}
	h.checkHead(fail, base, ours, theirs, now)
}

// checkFiles compares the working tree with a merge of the three.
func (h *histories) checkFiles(fail func(string, ...any), base, ours, theirs, now *side, followed map[string]string, prefer bool) {
	parted := now.commit != theirs.commit
	merged := h.join && parted && now.commit != ours.commit
	if to := h.mergeTree(ours, theirs); merged && !prefer && to != "" && h.contains(now.commit, theirs.refs[ours.head]) {
		if is := h.ofBoth("rev-parse " + now.commit + "^{tree}"); is != to {
			fail("TREE %s, want %s", is, to)
		}
	}
	all := maps.Clone(base.files)
	maps.Copy(all, ours.files)
	maps.Copy(all, theirs.files)
	maps.Copy(all, now.files)
	dropped := slices.ContainsFunc(slices.Collect(maps.Keys(base.dirty)), func(at string) bool {
		by := func(s, o *side) bool { return !s.dirty[at] && s.files[at] != base.files[at] && o.commit != base.commit }
		return by(theirs, ours) || by(ours, theirs) && !parted // a change that one side took back, and the other side may have committed
	})
	for _, at := range slices.Sorted(maps.Keys(all)) {
		b, o, t, n := base.files[at], ours.files[at], theirs.files[at], now.files[at]
		want := o
		first, rest, _ := strings.Cut(at, "/")
		if in := base.nested[first]; in != nil { // both sides may have removed that working tree
			b = in.files[rest]
		}
		switch {
		case merged && !ours.dirty[at] && !theirs.dirty[at]:
			continue // it is clean, see checkIndex, and the tree is git's
		case slices.Contains(nestedNames, first) && (ours.nested[first] == nil) != (theirs.nested[first] == nil):
			want = n // a working tree that one side has removed
		case t == "" && !theirs.dirty[at] && n == o && h.sparse:
		case !parted && now.commit != ours.commit && o == "" && base.dirty[at] && base.index[at] == "" && t == b: // it was not tracked
			if n == t {
				want = t
			}
		case !parted && now.commit != ours.commit && !ours.dirty[at] && (!h.sparse || n == t && !now.dirty[at]) && base.nested[first] == nil && !slices.Contains(nestedNames, first) && !(t == b && theirs.dirty[at]): // HEAD becomes theirs, and the file follows
			want = t
		case t == b || t == o:
		case parted && !theirs.dirty[at] && n == o: // as the commit has it that does not come
		case o == b:
			want = t
		default:
			merged, ok := h.mergeFile(b, o, t)
			if want = merged; !ok && prefer {
				want = t
			} else if !ok {
				want = n
				if n != o && n != t && followed[at] != n && (followed != nil || !h.isMoved(n, base, ours, theirs, at)) {
					fail("FILE %s: a conflict became %q", at, n)
				}
			}
		}
		if as, ok := followed[at]; ok && (n == as || !(dropped && (n == o || n == t)) && (!parted || theirs.commit == base.commit) && len(h.excused) == 0) {
			want = as
		}
		if n != want && !h.excused[first] && (len(h.excused) == 0 && followed != nil || !h.isMoved(n, base, ours, theirs, at) && !h.isMovedAway(at, base, ours, theirs, now)) {
			fail("FILE %s: %q, want %q (base %q ours %q theirs %q)", at, n, want, b, o, t)
		}
	}
}
