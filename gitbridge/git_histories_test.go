package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// A histories is one random history of two sides: a directory and a run of it, or a workspace and a fork of it.
type histories struct {
	t         *testing.T
	rig       *rig
	k         repoKind
	rnd       *rand.Rand
	n         int
	did       []string
	commits   map[string]aCommit
	worktrees string          // the HEADs of all that were seen
	excused   map[string]bool // paths of conflicts
	base      *side           // what both sides had
	why       map[string]bool // why something was refused
	sparse    bool            // a side may have a sparse checkout
	to        string          // the directory that receives
	below     string          // the repository that is checked, in the directory; "" for the outer one
	join      bool            // a branch that both sides moved is merged
}

// TestGitHistories runs random git commands on two sides, which change files of their own and shared files. Then it
// merges the sides by an apply, by a refresh, or by the merge of a fork. Some of these are killed and repeated.
// AMBERFS_TEST_LONG sets the number of histories to 5,000, ROUNDS sets another number, and SEED selects one history.
func TestGitHistories(t *testing.T) {
	isolate(t)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("HISTORIES", got(filepath.EvalSymlinks(t.TempDir())))
	clear(made)
	n, first := 6, uint64(700_017) // a sample that is the same each time
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		n, first = 5000, uint64(time.Now().UnixNano())
	}
	if s := os.Getenv("ROUNDS"); s != "" {
		n = got(strconv.Atoi(s))
	}
	if s := os.Getenv("SEED"); s != "" {
		first, n = got(strconv.ParseUint(s, 10, 64)), max(1, got(strconv.Atoi("0"+os.Getenv("ROUNDS"))))
	}
	seeds := []uint64{
		9_300_010,  // a change of mode that is not committed
		9_900_070,  // a linked working tree that git removed on one side, with an untracked file on the other
		12_200_171, // an untracked file renamed on one side, and first commits on both
		12_300_428, // a branch that both sides moved, and that is checked out there alone
		14_000_047, // a file renamed there, and changed here beside one of the new name
		14_000_257, // an untracked file renamed here, and committed there
		17_000_105, // a file that was removed gets its name back here
		12_300_359, // a file renamed there, with conflict markers here, and two applies
		16_000_325, // a branch that is checked out on both sides, and not in the base
		21_000_112, // a separate git directory whose index has no entries
		50_000_942, // a separate git directory whose index has no times after an apply that was interrupted
		51_001_171, // a file renamed there, changed here, and here beside an equal file of the new name
		93_003_184, // a linked working tree that the run removed and the directory changed, and two refreshes
		70_002_836, // a linked working tree whose commit of the base is pruned, and a refresh between two applies
	}
	for i := range n {
		seeds = append(seeds, first+uint64(i))
	}

	counts := make(map[string]int)
	for _, seed := range seeds {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := &histories{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), commits: make(map[string]aCommit), why: make(map[string]bool)}
			h.history(counts, seed >= 12_000_000 && seed%2 == 1)
		})
		if !ok {
			counts["wrong"]++
		}
	}
	t.Log(counts)
}

func (h *histories) history(counts map[string]int, moves bool) {
	names := slices.Sorted(maps.Keys(repoKinds))
	name := names[h.rnd.IntN(len(names))]
	if h.k = repoKinds[name]; moves {
		h.k.more = slices.Concat(h.k.more, renames)
	}
	h.did = append(h.did, "kind "+name)
	h.rig, h.sparse = newHistoryRig(h.t, name, h.k), name == "sparse"
	h.base = h.capture(h.rig.dir, "")
	fork := h.k.own && h.rnd.IntN(3) == 0
	refused := false
	for range 1 + h.rnd.IntN(3) {
		ours := h.do(h.rig.dir, "d", 4)
		theirs := h.do(h.rig.run, "r", 4)
		var ok bool
		switch {
		case fork:
			ok = h.bring("merge", h.rig.dir, ours, theirs)
		case h.rnd.IntN(3) == 0:
			ok = h.bring("refresh", h.rig.run, theirs, ours)
		default:
			ok = h.bring("apply", h.rig.dir, ours, theirs)
			if !h.t.Failed() && h.rnd.IntN(4) != 0 {
				ours, theirs = h.capture(h.rig.dir, ""), h.capture(h.rig.run, "")
				ok = h.bring("refresh", h.rig.run, theirs, ours) && ok
			}
		}
		refused = refused || !ok
		if h.t.Failed() {
			return
		}
	}
	for why := range h.why {
		counts["refused: "+why]++
		if !strings.HasPrefix(why, "as git") {
			h.t.Logf("refused: %s\n%s", why, strings.Join(h.did, "\n"))
		}
	}
	if refused {
		counts["refused"]++
	} else {
		counts["right"]++
	}
}

// do runs random commands on a side.
func (h *histories) do(dir, name string, most int) *side {
	all := script(h.rnd, h.k, name, most, &h.n)
	for _, c := range all {
		h.did = append(h.did, name+": "+c)
	}
	text := ""
	for _, c := range all {
		text += "(" + c + ") >/dev/null 2>&1 </dev/null\n"
	}
	return h.capture(dir, text)
}

// made has the directories of the kinds of repositories that were made already.
var made = make(map[string]string)

// newHistoryRig makes a rig, always at the same path: repositories have absolute paths. Each kind
// is made once, and copied.
func newHistoryRig(t *testing.T, name string, k repoKind) *rig {
	t.Helper()
	top := filepath.Join(os.Getenv("HISTORIES"), "h")
	r := &rig{t: t, m: trees.NewMemory(), top: top, dir: filepath.Join(top, "dir"), run: filepath.Join(top, "run")}
	must.OK(t, os.RemoveAll(top))
	if made[name] == "" {
		must.OK(t, os.MkdirAll(r.dir, 0o755))
		r.shell(top, "true") // the configuration
		r.in(r.dir, `(`+k.make+`) >/dev/null 2>&1`)
		made[name] = filepath.Join(os.Getenv("HISTORIES"), name)
		must.OK(t, exec.Command("cp", "-a", top, made[name]).Run())
		must.OK(t, os.RemoveAll(top))
	}
	must.OK(t, exec.Command("cp", "-a", made[name], top).Run())
	r.in(r.dir, "git status") // it has other inodes
	r.mounts = name == "inner"
	r.begin()
	return r
}

// in runs a script in a directory. The script of a run sees the run's files at the path of the directory, as the
// programs of a run do.
func (r *rig) in(dir, script string) string {
	r.t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if r.mounts = r.mounts || strings.Contains(script, "worktree"); dir == r.run && r.mounts {
		cmd = exec.Command("sh", "-c", "mount --bind ../run . && cd . && cd $TOP/dir\n"+script)
		cmd.Dir = r.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
		}
	}
	cmd.Env = append(os.Environ(), "TOP="+r.top, "HOME="+r.top, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a")
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 && !errors.As(err, new(*exec.ExitError)) {
		r.t.Fatal(err)
	}
	return string(out)
}

// bring merges theirs into ours, which is in a directory. ok is false if the first attempt was refused.
func (h *histories) bring(how, dir string, ours, theirs *side) (ok bool) {
	h.t.Helper()
	h.excused, h.to = make(map[string]bool), dir
	if l := linkOutside(h.rig.dir, h.rig.dir); l != nil && !l.Trusted { // see TestUntrustedRepository
		h.trust()
	}
	prefer := false
	asked := ""
	h.join = h.rnd.IntN(3) == 0
	if how == "apply" && h.rnd.IntN(3) == 0 {
		asked = h.asked()
		h.interrupt(1+h.rnd.IntN(30), h.rnd.IntN(2) == 0)
	}
	by := func(rule threeway.Rule) (string, []string, error) {
		if how == "apply" {
			return h.apply(rule)
		}
		return h.merge(how, rule)
	}
	said, conflicts, err := by(threeway.RefuseConflicts)
	if err != nil && strings.Contains(err.Error(), "is not merged: ") {
		h.did, h.join = append(h.did, err.Error()), false
		said, conflicts, err = by(threeway.RefuseConflicts)
	}
	if err == nil && strings.Contains(said, "config core.worktree DIR") { // an apply that was interrupted wrote an index without times
		h.did = append(h.did, said)
		h.trust()
		said, conflicts, err = by(threeway.RefuseConflicts)
	}
	if err != nil && len(conflicts) > 0 {
		h.did = append(h.did, fmt.Sprintf("%s refused: %q", how, conflicts))
		if why := h.refused(conflicts, ours, theirs); why == "" {
			h.t.Errorf("REFUSED: git's merge has no conflict, and %s has %q", how, conflicts)
			h.wrong(ours, theirs, nil)
			return false
		} else {
			h.why[why] = true
		}
		rule := []threeway.Rule{threeway.KeepOurs, threeway.TakeTheirs}[h.rnd.IntN(2)]
		prefer = rule == threeway.TakeTheirs
		for _, at := range conflicts {
			h.excused[at] = true
		}
		said, conflicts, err = by(rule)
		if err != nil && strings.Contains(err.Error(), "is not merged: ") {
			h.did, h.join = append(h.did, err.Error()), false
			said, conflicts, err = by(rule)
		}
		h.did = append(h.did, string(rule))
		ok = false
	} else {
		ok = true
	}
	switch {
	case !h.k.own && strings.Contains(said+fmt.Sprint(err), "commits that it needs are gone"):
		h.why["as git clone --shared of one with pruned objects"] = true
		if how == "refresh" && err == nil { // only the files are those of the directory
			left := *h.base
			left.files, left.dirty = theirs.files, maps.Clone(left.dirty)
			maps.Copy(left.dirty, theirs.dirty)
			h.base = &left
		}
		return false
	case err != nil && strings.Contains(err.Error(), "would delete files that exist only there"):
		h.why["as git checkout over files that are not tracked"] = true
		return false
	}
	h.did = append(h.did, fmt.Sprintf("%s, join %v: %s", how, h.join, said))
	said += asked
	if err != nil {
		h.t.Errorf("%s: %v %q", how, err, conflicts)
		h.wrong(ours, theirs, nil)
		return ok
	}
	now := h.capture(dir, "")
	if wrong := h.check(dir, said, h.base, ours, theirs, now, prefer); len(wrong) > 0 {
		h.t.Errorf("%s", strings.Join(wrong, "\n"))
		h.wrong(ours, theirs, now)
		return ok
	}
	if how == "refresh" {
		h.base = theirs
	}
	return ok
}

// trust does what an apply says about a separate git directory whose index proves nothing.
func (h *histories) trust() {
	h.did = append(h.did, h.rig.in(h.rig.dir, `git config core.worktree "$PWD"; echo core.worktree is set`))
}

// asGit is the reason for a conflict that git has, too.
const asGit = "as git merge"

// refused returns the reason why conflicts are correct, "" if there is no reason.
func (h *histories) refused(conflicts []string, ours, theirs *side) string {
	has := func(s string) bool { return strings.TrimSpace(s) != "" }
	switch {
	case has(h.gitConflicts(h.base, ours, theirs)):
		return asGit
	case h.join && h.mergeTree(ours, theirs) == "":
		return asGit
	case has(h.gitConflicts(h.committed(theirs), ours, theirs)):
		return "as git stash pop"
	case slices.ContainsFunc(conflicts, func(at string) bool { return slices.Contains(h.dropped(h.base, ours, theirs), at) }):
		return "git merge drops a change"
	case theirs.commit != h.base.commit && !slices.ContainsFunc(conflicts, func(at string) bool { return !ours.dirty[at] }):
		return "as git merge over changes that are not committed"
	case slices.ContainsFunc(conflicts, func(at string) bool { return strings.HasPrefix(at, "inner/") }) && theirs.nested["inner"] == nil && len(ours.nested["inner"].dirty) > 0:
		return "as git worktree remove of one with changes"
	case !slices.ContainsFunc(conflicts, func(at string) bool { return !h.isUncommitted(at, ours, theirs) }):
		return "a file that no commit has, changed by one side and removed by the other"
	}
	return ""
}

// isUncommitted reports whether the base has a file that is in the HEAD of neither side, and that both sides changed.
func (h *histories) isUncommitted(at string, ours, theirs *side) bool {
	_, inBase := h.base.files[at]
	_, inOurs := h.committed(ours).files[at]
	_, inTheirs := h.committed(theirs).files[at]
	return inBase && !inOurs && !inTheirs && h.base.files[at] != ours.files[at] && h.base.files[at] != theirs.files[at]
}

func (h *histories) wrong(ours, theirs, now *side) {
	h.t.Logf("%s\nBASE%s\nOURS%s\nTHEIRS%s", strings.Join(h.did, "\n"), h.base.log, ours.log, theirs.log)
	if now != nil {
		h.t.Logf("NOW%s", now.log)
	}
}

// asked returns the description of a dry run, because an apply that is interrupted returns none.
func (h *histories) asked() string {
	said, _, _ := h.applied(hostdir.ApplyOptions{DryRun: true}) // or it is refused
	return said
}

// apply applies the run to the directory.
func (h *histories) apply(rule threeway.Rule) (said string, conflicts []string, err error) {
	return h.applied(hostdir.ApplyOptions{ConflictRule: rule, Merge: h.join})
}

func (h *histories) applied(o hostdir.ApplyOptions) (said string, conflicts []string, err error) {
	res, err := h.rig.apply(o)
	if res != nil {
		var text []string
		for _, g := range res.Git {
			text = slices.Concat(text, g.Lines, g.Commits, g.DroppedCommits)
		}
		said, conflicts = strings.Join(text, "; "), res.Conflicts
	}
	return said, conflicts, err
}

// interrupt begins an apply, and interrupts it at its nth call of git. If kill is set, the apply does not continue, as
// after a kill. Otherwise this call of git and all later calls fail.
func (h *histories) interrupt(n int, kill bool) {
	killed, ended := make(chan bool), make(chan bool)
	at := ""
	go func() {
		defer close(ended)
		_, _ = h.rig.apply(hostdir.ApplyOptions{Merge: h.join, Git: HostGit{func(ctx context.Context, dir string, env []string, stdin io.Reader, args ...string) ([]byte, error) {
			if n--; n > 0 {
				return runGit(ctx, dir, env, stdin, args...)
			}
			if at += strings.Join(args[:min(2, len(args))], " "); kill {
				close(killed)
				select {}
			}
			return nil, errors.New("it fails")
		}}})
	}()
	select {
	case <-ended:
	case <-killed: // what it has open is closed, and its locks end
		for _, e := range got(os.ReadDir("/proc/self/fd")) {
			if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(name, h.rig.top) {
				_ = unix.Close(got(strconv.Atoi(e.Name())))
			}
		}
		must.OK(h.t, os.RemoveAll(filepath.Join(os.Getenv("XDG_STATE_HOME"), "amberfs", "applies.lock")))
	}
	h.did = append(h.did, fmt.Sprintf("an apply ends at %q, killed: %v", at, kill))
}

// merge merges the directory into the run, as the daemon does for a refresh, or the run, as a fork, into the directory,
// as its workspace. A refresh is done again without the git directories that cannot be merged, as a client does it.
func (h *histories) merge(how string, rule threeway.Rule, leftOut ...string) (said string, conflicts []string, err error) {
	ctx, r := context.Background(), h.rig
	ours, theirs, to := r.now(), r.stateOfDir(leftOut...), r.run
	if how == "merge" {
		ours, theirs, to = theirs, ours, r.dir
	}
	p := &threeway.Plan{
		Source: r.m.Src, StoreText: r.m.Text, Ours: ours, View: 1, Now: time.Now().UnixNano(), ByPath: true, Merge: MergeConfigs(trees.MergeByGit),
		Rule: func(string) threeway.Rule { return rule }, Git: Merger{}.Repositories,
		GitOptions: threeway.GitOptions{TheirName: map[string]string{"merge": "r", "refresh": "dir"}[how], FromDirectory: how == "refresh", MergeBranch: h.join},
	}
	var text []string
	interval := threeway.Interval{Base: r.base, Theirs: theirs, View: 2}
	if how == "refresh" {
		interval.Applied = r.written
	}
	steps, _, err := p.TakeAll(ctx, interval)
	if refused := new(errs.Error); how == "refresh" && errors.As(err, &refused) && refused.Result != nil && leftOut == nil {
		for _, g := range refused.Result.(map[string]any)["git"].([]threeway.Repository) {
			leftOut, text = append(leftOut, g.Dir), slices.Concat(text, g.Lines)
		}
		said, conflicts, err = h.merge(how, rule, leftOut...)
		return strings.Join(append(text, said), "; "), conflicts, err
	}
	if err != nil {
		return "", nil, err
	}
	for _, g := range p.Repositories {
		text = slices.Concat(text, g.Lines, g.Commits)
	}
	if err := p.ConflictError(); err != nil {
		return "", p.Conflicts, err
	}
	r.make(to, theirs, steps)
	if how == "refresh" {
		r.base, r.written = theirs, nil
		r.eachInRun(func(rel string, st *unix.Stat_t) {
			if _, known := r.copies[rel]; !known {
				r.copies[rel] = st.Ino
			}
		})
	}
	return strings.Join(text, "; "), nil, nil
}

// make carries out steps in a directory.
func (r *rig) make(to string, theirs *tree.State, steps []graft.Step) {
	for _, s := range slices.Backward(steps) {
		if at := filepath.Join(to, s.Path.String()); s.Before != 0 && (s.After == 0 || s.WasDir != s.IsDir) && s.ReplacementNode == nil || s.ReplacementNode != nil && s.Before != 0 && s.ReplacementNode.IsDir() != s.WasDir {
			must.OK(r.t, but(os.Remove(at), fs.ErrNotExist))
		}
	}
	for _, s := range steps {
		at, n := filepath.Join(to, s.Path.String()), s.ReplacementNode
		if n == nil && s.After == 0 {
			continue
		}
		if n == nil {
			n = got(theirs.Get(r.m.Src, s.After))
		}
		switch {
		case n.IsDir():
			must.OK(r.t, os.MkdirAll(at, 0o755))
		case n.IsSymlink():
			must.OK(r.t, but(os.Remove(at), fs.ErrNotExist))
			must.OK(r.t, os.Symlink(n.Target, at))
		case n.IsRegular():
			must.OK(r.t, but(os.Remove(at), fs.ErrNotExist))
			b := got(io.ReadAll(n.Content.Reader(r.m.Src.Files)))
			must.OK(r.t, os.WriteFile(at, b, fs.FileMode(n.Mode&0o777)))
			must.OK(r.t, os.Chtimes(at, time.Time{}, time.Unix(0, n.Mtime)))
		}
	}
}

func but(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}
