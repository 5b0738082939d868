package gitbridge

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// refresh brings what the directory did into the run, as the daemon does: git directories by
// Merger.Repositories, and files that the run has not changed as they are.
func (r *rig) refresh() string {
	r.t.Helper()
	ctx := context.Background()
	ours, theirs := r.now(), r.stateOfDir()
	var changes []tree.Change
	must.OK(r.t, tree.Diff(ctx, r.m.src, theirs, r.base, tree.DiffOptions{}, func(c tree.Change) error {
		changes = append(changes, c)
		return nil
	}))
	out, err := Merger{}.Repositories(ctx, threeway.Sides{Source: r.m.src, Base: r.base, Ours: ours, Theirs: theirs, Changes: changes,
		Rule: func(string) threeway.Rule { return threeway.RefuseConflicts }, Name: "dir", FromDirectory: true})
	must.OK(r.t, err)
	defer out.Close()
	for _, c := range out.Changes {
		at := filepath.Join(r.run, c.Path.String())
		switch {
		case c.A == nil:
			must.OK(r.t, os.RemoveAll(at))
		case c.A.IsDir():
			must.OK(r.t, os.MkdirAll(at, 0o755))
		case c.A.IsRegular():
			b := got(io.ReadAll(c.A.Content.Reader(r.m.src.Files)))
			must.OK(r.t, os.WriteFile(at, b, 0o644))
			must.OK(r.t, os.Chtimes(at, time.Time{}, time.Unix(0, c.A.Mtime)))
		}
	}
	for _, e := range out.Edits {
		at := filepath.Join(r.run, e.Path)
		must.OK(r.t, os.RemoveAll(at))
		if e.Open != nil {
			must.OK(r.t, os.MkdirAll(filepath.Dir(at), 0o755))
			in := got(e.Open())
			must.OK(r.t, os.WriteFile(at, got(io.ReadAll(in)), 0o644))
			in.Close()
		}
	}
	r.base = theirs
	var text []string
	for _, g := range out.Said {
		text = append(text, g.Lines...)
	}
	return strings.Join(text, "; ")
}

// stateOfDir is what the directory has now. Its files keep the inodes of the base.
func (r *rig) stateOfDir() *tree.State {
	st := r.state(r.read(r.dir), func(rel string) uint64 { return r.inos[rel] })
	var add func(n *tree.Inode, at string)
	add = func(n *tree.Inode, at string) {
		must.OK(r.t, n.Dir.List(r.m.src, 0, func(e tree.Dirent, _ uint64) bool {
			rel := strings.TrimPrefix(at+"/"+e.Name, "/")
			r.inos[rel] = e.Ino
			if e.Type == unix.S_IFDIR {
				add(got(st.Get(r.m.src, e.Ino)), rel)
			}
			return true
		}))
	}
	add(got(st.Get(r.m.src, tree.RootIno)), "")
	return st
}

// gitCommands are what a side of a history does. $S is its name, $N a number; each side has files of
// its own.
var gitCommands = []string{
	`echo $N >$S$N; git add $S$N; git commit -qm $S$N`,
	`echo $N >$S; git add $S; git commit -qm "$S changes $N"`,
	`echo $N >>$S; git add $S; git commit -q --amend --no-edit`,
	`git reset -q --soft HEAD~1 || true`,
	`git reset -q --hard HEAD~1 || true`,
	`git reset -q HEAD~1 || true`,
	`git branch $S-$N`, `git tag $S-$N`, `git checkout -q -b $S$N-work`, `git checkout -q main || true`,
	`git gc -q`, `git gc -q --prune=now`, `git pack-refs --all`, `git repack -adq`, `git reflog expire --expire=now --all`,
	`git status -s`, `echo staged$N >$S-staged; git add $S-staged`, `echo un$N >$S-un`, `echo $N >>$S`,
	`git stash -q || true`, `git stash -q && git stash pop -q || true`,
	`git mv $S $S-moved || true`, `git rm -q --cached $S || true`, `git rm -q -f $S || true`,
	`git checkout -q -b $S-$N-side; echo $N >$S-$N; git add $S-$N; git commit -qm "side $N"; git checkout -q -; git merge -q --no-edit --no-ff $S-$N-side || git merge --abort || true`,
	`git checkout -q -b $S-$N-pick; echo $N >$S-p$N; git add $S-p$N; git commit -qm "pick $N"; git checkout -q - && git cherry-pick $S-$N-pick >/dev/null || git cherry-pick --abort || true`,
	`git commit -q --allow-empty -m "empty $S$N"; git rebase -q HEAD~1 || git rebase --abort || true`,
	`git branch -D $S-$N || true`, `git update-index --refresh >/dev/null || true`,
	`git fetch -q up`, `(cd ../up; echo $S$N >$S$N; git add .; git commit -qm up$N); git fetch -q up`,
}

// side is what a repository says before it is brought together with another one.
type side struct {
	tips   []string
	staged []string
	work   []string
	log    string
}

func (r *rig) side(dir string) (s side) {
	lines := func(script string) []string {
		return strings.FieldsFunc(r.shell(dir, script), func(c rune) bool { return c == '\n' })
	}
	s.tips = lines(`git for-each-ref --format='%(objectname)' refs/heads; git rev-parse -q --verify HEAD || true`)
	s.staged = lines(`git diff --cached --name-only --no-renames`)
	s.work = lines(`git status --porcelain --no-renames -uall | cut -c4-`)
	s.log = r.shell(dir, `git log --all --oneline --graph; git status -s; git stash list`)
	return s
}

// check checks a repository that has got what two sides did.
func (r *rig) check(dir, said string, before []string, ours, theirs side) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	r.shell(dir, "git fsck --strict 2>&1 >/dev/null")
	all := strings.Fields(r.shell(dir, "git rev-list --all HEAD"))
	for _, id := range slices.Concat(ours.tips, theirs.tips) {
		if !slices.Contains(before, id) && !slices.Contains(all, id) && !strings.Contains(said, " off ") && !strings.Contains(said, "is gone") {
			fail("the commit %s is in no ref, and was not named", id)
		}
	}
	for _, id := range theirs.tips {
		if !slices.Contains(before, id) && !slices.Contains(all, id) {
			fail("the commit %s of theirs did not come", id)
		}
	}
	now := r.side(dir)
	for _, at := range now.staged {
		if !slices.Contains(ours.staged, at) && !slices.Contains(theirs.staged, at) {
			fail("%s is staged, which nobody did", at)
		}
	}
	for _, at := range now.work {
		if !slices.Contains(ours.work, at) && !slices.Contains(theirs.work, at) {
			fail("%s is changed, which nobody did", at)
		}
	}
	return wrong
}

// TestGitHistories has two sides do random git commands on files of their own, and brings them
// together: by apply, or by refresh and then apply.
func TestGitHistories(t *testing.T) {
	isolate(t)
	n := 6
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		n = 5000
	}
	first := uint64(time.Now().UnixNano())
	if s := os.Getenv("AMBERFS_TEST_SEED"); s != "" {
		_, err := fmt.Sscan(s, &first)
		must.OK(t, err)
		n = 1
	}
	for i := range n {
		history(t, first+uint64(i))
	}
}

func history(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var did, before []string // commits that are known to both sides
	r := newRig(t, "dir", `cd ..; git init -q up; cd up; echo u >u; git add .; git commit -qm up; cd ../dir
`+mk+`echo r >r; echo d >d; git add .; git commit -qm 2; git remote add up ../up; git fetch -q up`+[]string{"", "; git gc -q"}[rnd.IntN(2)])
	do := func(dir, name string) {
		for range rnd.IntN(4) {
			c := strings.NewReplacer("$S", name, "$N", fmt.Sprint(rnd.IntN(100))).Replace(gitCommands[rnd.IntN(len(gitCommands))])
			did = append(did, name+": "+c)
			r.shell(dir, "("+c+") >/dev/null 2>&1 || true")
		}
	}
	bring := func(dir string, by func() string) {
		ours, theirs := r.side(r.dir), r.side(r.run)
		if dir == r.run {
			ours, theirs = theirs, ours
		}
		said := by()
		defer func() { before = append(before, slices.Concat(ours.tips, theirs.tips)...) }()
		did = append(did, "brought to "+filepath.Base(dir)+": "+said)
		if wrong := r.check(dir, said, before, ours, theirs); len(wrong) > 0 {
			t.Errorf("AMBERFS_TEST_SEED=%d: %s\n%s\nours\n%s\ntheirs\n%s\nnow\n%s", seed, strings.Join(wrong, "\n"), strings.Join(did, "\n"), ours.log, theirs.log, r.side(dir).log)
		}
	}
	before = r.side(r.dir).tips
	do(r.run, "r")
	do(r.dir, "d")
	if rnd.IntN(2) == 0 && !t.Failed() {
		bring(r.run, r.refresh)
		do(r.run, "r")
		do(r.dir, "d")
	}
	if !t.Failed() {
		bring(r.dir, r.applied)
	}
}
