package gitbridge

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

const linked = `cd ..; mkdir m; cd m; ` + mk + `git branch other; git branch gone; rmdir ../wt; git worktree add -q ../wt -b feat`

// TestApplyGitAsInGit has cases in which an apply does, or refuses to do, what git does or refuses between two
// repositories.
func TestApplyGitAsInGit(t *testing.T) {
	isolate(t)
	for name, c := range map[string]gitCase{
		"moved away in a linked working tree": {
			dir: "wt", make: linked, run: `mv .git .git.bak`,
			check: `git -C ../m for-each-ref --format='%(refname:short)'; git status -s`, want: "feat\ngone\nmain\nother\n?? .git.bak/",
		},
		"a commit that was dropped gets a branch, and gc there": {
			make: mk + `git gc -q; echo p >p; git add p; git commit -qm wip; git reset -q --hard HEAD~1; git reflog expire --expire=now --expire-unreachable=now --all; rm -f .git/ORIG_HEAD`,
			run:  `git gc -q --prune=now`, meanwhile: `git branch rescue $(git fsck --unreachable --no-reflogs 2>/dev/null | sed -n 's/^unreachable commit //p')`,
			check: `git log --format=%s rescue -1; git fsck --strict`, want: "wip",
		},
		"the commit that the run began with is pruned": {
			dir: "wt", make: linked + `; cd ../wt; echo x >x; git add x; git commit -qm X`, run: `echo r >r; git add r; git commit -qm R`,
			meanwhile: `git reset -q --hard HEAD~1; git reflog expire --expire=now --all; rm -f ../m/.git/worktrees/wt/ORIG_HEAD; git gc -q --prune=now`,
			check:     `git log --format=%s -1; git fsck --strict`, want: "1", said: "what git did stays in the workspace: a git directory of a kind that amberfs does not bring together: commits that it needs are gone",
		},
		"a branch that another working tree has is removed": {
			dir: "wt", make: linked + `; git worktree add -q ../wt2 other`, run: `git branch -D other gone`,
			check: `git -C ../wt2 status -s; git -C ../m for-each-ref --format='%(refname:short)'`, want: "feat\nmain\nother", said: "the branch gone is gone; other stays: another working tree has it checked out",
		},
		"a new working tree in that of a linked one": {
			dir: "wt", make: linked, run: `git worktree add -q ./inner -b inner`,
			check: `git for-each-ref --format='%(refname:short)'; git fsck --strict; git worktree list | wc -l`, want: "feat\ngone\ninner\nmain\nother\n2",
		},
		"a submodule is made in a linked working tree": {
			dir: "wt", make: `cd ..; mkdir up; cd up; ` + mk + `cd ..; mkdir m; cd m; git init -q; git submodule --quiet add ../up sub; git commit -qm 1; rmdir ../wt; git worktree add -q ../wt -b feat`,
			run: `git submodule --quiet update --init; echo n >n; git add n; git commit -qm n`, check: `git log --format=%s; git status -s; git submodule --quiet update --init; ls sub`, want: "n\n1\na\nb\nc",
		},
		"fetch on both sides, and the upstream moved between": {
			make: `cd ..; mkdir up; cd up; ` + mk + `cd ..; rmdir dir; git clone -q up dir`,
			run:  `git -C ../up commit -q --allow-empty -m 2; git fetch -q`, meanwhile: `git -C ../up commit -q --allow-empty -m 3; git fetch -q`,
			check: `git log --format=%s origin/main -1; git status -s`, want: "3",
		},
		"an index of several packs there, and gc here": {
			make: mk + `git gc -q; echo 2 >a; git commit -qam 2; git repack -q`, run: `git multi-pack-index write`, meanwhile: `git gc -q`,
			check: `git log --format=%s; git fsck --strict`, want: "2\n1",
		},
		"a merge in progress here, and a commit there": {
			make: mk + `git branch other; echo 2 >b; git commit -qam 2; git checkout -q other; echo o >o; git add o; git commit -qm o; git checkout -q main`, run: `echo x >c; git commit -qam run`,
			meanwhile: `git merge -q --no-commit other`, check: `git status -s; git log --format=%s -1; git log --format=%s -1 amberfs/r/main; git commit -qm merged; git log --format=%s --name-only -1 HEAD^..HEAD`, want: "A  o\n2\nrun\nmerged",
			said: "1 commit on amberfs/r/main; main stays: a merge is in progress",
		},
		"refs are packed here": {
			make: mk, run: `echo g >g; git add g; git commit -qm run`, meanwhile: `git pack-refs --all`, check: `git log --format=%s; git status -s`, want: "run\n1", said: "1 commit on main",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.rig(t)
			if said := r.applied(); c.said != "" && said != c.said {
				t.Errorf("it said: %s\nwant: %s", said, c.said)
			}
			r.want(c.check, c.want)
		})
	}
}

// TestMergeGit: after a refresh or a merge of a fork, the next commit in the repository has the staged changes, and no
// others.
func TestMergeGit(t *testing.T) {
	isolate(t)
	const commit = `git status -s; git commit -qm next; git show --stat --format=%s | sed 's/ *|.*//;/changed/d;/^$/d'`
	for name, c := range map[string]struct {
		how       string
		make      string
		run, dir  string
		join      bool
		rule      threeway.Rule
		conflicts string
		check     string
		want      string
	}{
		"resume after git status":            {how: "refresh", run: `git status -s; echo x >x; git add x`, dir: `echo b2 >>b; git commit -qam outside`, check: commit, want: "A  x\nnext\n x"},
		"resume with a new file":             {how: "refresh", run: `echo agent >>a; git status -s; git add a`, dir: `echo h >h; git add h; git commit -qm human`, check: commit, want: "M  a\nnext\n a"},
		"a fork commits, and staged here":    {how: "merge", run: `echo b2 >>b; git commit -qam fork`, dir: `echo x >x; git add x`, check: commit, want: "A  x\nnext\n x"},
		"a fork commits, and looked at here": {how: "merge", run: `echo y >y; git add y; git commit -qm fork`, dir: `touch a; git status -s`, check: `git status -s; git log --format=%s -1`, want: "fork"},
		"reset there, and changed here":      {how: "refresh", make: `echo 2 >a; git commit -qam 2; echo dirty >a`, run: `git checkout -q a`, dir: `git reset -q HEAD~1`, check: `git status -s; cat a; git log --format=%s -1`, want: "M a\n2\n1"},
		"merged, by attributes": {how: "merge", join: true, run: `echo "l merge=union" >.gitattributes; echo r >l; git add .; git commit -qm fork`, dir: `echo "l merge=union" >.gitattributes; echo d >l; git add .; git commit -qm mine`,
			check: `git status -s; cat l; git log -1 --format=%s; git fsck --strict`, want: "d\nr\nMerge branch 'amberfs/r/main'"},
		"merged, renamed here": {how: "refresh", join: true, run: `git mv a moved; git commit -qm run; echo u >u`, dir: `echo a2 >>a; git commit -qam mine`,
			check: `git status -s; cat moved; git log -1 --format=%an`, want: "?? u\na\na2\na"},
		"merged, a conflict":         {how: "merge", join: true, run: `echo r >a; git commit -qam fork`, dir: `echo d >a; git commit -qam mine`, conflicts: "a", check: `git status -s; git log --format=%s`, want: "mine\n1"},
		"merged, a conflict decided": {how: "merge", join: true, rule: threeway.TakeTheirs, run: `echo r >a; git commit -qam fork`, dir: `echo d >a; git commit -qam mine`, check: `git status -s; cat a; git log -1 --format=%s`, want: "r\nMerge branch 'amberfs/r/main'"},
		"theirs, links that they did not change": {how: "merge", rule: threeway.TakeTheirs, make: `ln -s a l; ln -s a m; git add .; git commit -qm links`,
			run: `echo r >a; git commit -qam fork`, dir: `rm l m; echo m >m; ln -sf a c; git commit -qam mine`, check: `git status -s; readlink l m; cat c`, want: "a\na\nc"},
		"a directory there of what is not committed, and a file here": {how: "merge", run: `git rm -q a; git commit -qm fork; mkdir a; echo in >a/in`, dir: `git bisect start`,
			conflicts: "a a/in", check: `git status -s; cat a`, want: "a"},
		"such a directory, theirs": {how: "merge", rule: threeway.TakeTheirs, run: `git rm -q a; git commit -qm fork; mkdir a; echo in >a/in`, dir: `git bisect start`,
			check: `cat a/in; git status -s`, want: "in\n D a"},
		"amended there, taken back here, and HEAD is elsewhere": {how: "merge", rule: threeway.TakeTheirs, make: `echo 2 >>a; git commit -qam 2`,
			run: `git commit -q --amend -m fork; git checkout -q --detach; git commit -q --allow-empty -m detached`, dir: `git reset -q --hard HEAD~1`,
			check: `git log -1 --format=%s main; git for-each-ref --format='%(contents:subject)' | sort`, want: "1\n1\ndetached\nfork"},
		"unstaged there, and a merge in progress here": {how: "refresh", make: `git checkout -q -b side; echo side >a; git commit -qam side; git checkout -q main; echo main >a; git commit -qam main; echo s >s; git add s`,
			run: `git reset -q s; git merge -q side || true; git add s`, dir: `git reset -q s`, check: `git status -s`, want: "UU a\nA  s"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &histories{t: t, rig: newRig(t, "dir", mk+`git config user.name a; git config user.email a@a; `+c.make), join: c.join}
			h.rig.shell(h.rig.run, c.run)
			h.rig.shell(h.rig.dir, c.dir)
			_, conflicts, err := h.merge(c.how, c.rule)
			if strings.Join(conflicts, " ") != c.conflicts || (err != nil) != (c.conflicts != "") {
				t.Fatalf("%q %v, want %q", conflicts, err, c.conflicts)
			}
			to := map[string]string{"merge": h.rig.dir, "refresh": h.rig.run}[c.how]
			if is := h.rig.shell(to, c.check); is != c.want {
				t.Errorf("%s:\n%s\nwant:\n%s", c.check, is, c.want)
			}
		})
	}
}

// TestRefreshLeavesOut: after a refresh that could not bring what git did in the directory, the next apply takes nothing
// off the directory: the base has the git directory as it was before.
func TestRefreshLeavesOut(t *testing.T) {
	isolate(t)
	const more = `
		git branch mine $(git commit-tree -p HEAD -m mine HEAD^{tree}); git tag v1 mine; git notes add -m note; echo d >a; git stash -q`
	for name, c := range map[string]struct{ at, make, run, dir, path, said string }{
		"commits are pruned": {at: "wt", make: linked + `; cd ../wt; echo x >x; git add x; git commit -qm X`, run: `git checkout -q -b run main; echo r >r; git add r; git commit -qm R`,
			dir:  `git reset -q --hard HEAD~1; git reflog expire --expire=now --all; rm -f ../m/.git/worktrees/wt/ORIG_HEAD; git gc -q --prune=now` + more,
			said: "what git did stays in the directory: a git directory of a kind that amberfs does not bring together: commits that it needs are gone"},
		"git is not installed": {at: "dir", make: mk, run: `git checkout -q -b run; echo r >r; git add r; git commit -qm R`, dir: more, path: "/nowhere",
			said: "git is not installed: refs, commits and the index stay in the directory"},
		"the objects of a branch are elsewhere": {at: "dir", make: `git init -q ../up; cd ../up; ` + mk + `cd ../dir; git clone -q --shared ../up .; git repack -qad; echo ../../../up/.git/objects >.git/objects/info/alternates
			git -C ../up commit -q --allow-empty -m up`, run: `git commit -q --allow-empty -m R; git checkout -q -b run; git branch -f main HEAD~1`, dir: `git branch mine $(git -C ../up rev-parse HEAD)`,
			said: "what git did stays in the directory: a git directory of a kind that amberfs does not bring together: objects of its refs are missing"},
		"a nested repository is gone here": {at: "dir", make: mk + `git init -q sub; cd sub; ` + mk, run: `rm -rf sub`, dir: `cd sub; git branch mine`,
			said: "there is no git directory here: what git did stays in the directory"},
		"a linked working tree is gone here": {at: "dir", make: mk + `git worktree add -q -b in sub`, run: `rm -rf sub`, dir: `echo d >sub/a; echo u >sub/u`,
			said: "the working tree is gone here: what changed in it stays in the directory"},
		"a linked working tree is removed by git here": {at: "dir", make: mk + `git worktree add -q -b in sub`, run: `rm -rf sub .git/worktrees`, dir: `cd sub; echo d >d; git add d; git commit -qm D`,
			said: "the working tree is gone here: what changed in it stays in the directory; 1 commit on in;   D"},
		"the git directory is gone there": {at: "dir", make: mk, run: `git commit -q --allow-empty -m R`, dir: `rm -rf .git; git init -q --separate-git-dir ../sep; rm .git`,
			said: "the git directory is gone in the directory: this one stays as it is"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.at, c.make)
			r.shell(r.run, c.run)
			r.shell(r.dir, c.dir)
			const list = `ls -d .git sub sub/* 2>/dev/null || true; for d in . sub; do test ! -e $d/.git || git -C $d for-each-ref | grep -v heads/run; done`
			before := r.shell(r.dir, list)
			path := os.Getenv("PATH")
			if c.path != "" {
				t.Setenv("PATH", c.path)
			}
			said, _, err := (&histories{t: t, rig: r}).merge("refresh", threeway.RefuseConflicts)
			if err != nil || strings.TrimSuffix(said, "; ") != c.said {
				t.Errorf("the refresh: %v, it said: %s", err, said)
			}
			t.Setenv("PATH", path)
			res, err := r.apply(hostdir.ApplyOptions{})
			t.Logf("%+v %v", res, err)
			after := r.shell(r.dir, list)
			if after != before {
				t.Errorf("before the apply:\n%s\nafter it:\n%s", before, after)
			}
		})
	}
}

// TestApplyPrunedHistory: a person prunes the commit on which a run has built. The run's branch, whose history has a gap
// then, stays in the run, and the files come.
func TestApplyPrunedHistory(t *testing.T) {
	isolate(t)
	r := newRig(t, "wt", linked+`; cd ../wt; git checkout -q -b x; git commit -q --allow-empty -m X; git checkout -q -`)
	r.shell(r.run, `git branch whole; git checkout -q -b run x; git commit -q --allow-empty -m R; git checkout -q -; echo r >r`)
	r.shell(r.dir, `git branch -q -D x; git reflog expire --expire=now --all; git gc -q --prune=now`)
	if said := r.applied(); !strings.Contains(said, "refs/heads/run is left out: its objects are missing") {
		t.Errorf("it said: %s", said)
	}
	r.want(`git fsck --full --strict 2>&1; git branch --list whole --format='%(refname:short)'; cat r`, "whole\nr")
}

// TestRefreshReplacedRepository: a person replaces a repository in which a run has committed by a symbolic link. That is
// a conflict of files, which a rule decides.
func TestRefreshReplacedRepository(t *testing.T) {
	isolate(t)
	r := newRig(t, "dir", mk+`git init -q sub; cd sub; `+mk)
	r.shell(r.run, `cd sub; echo r >r; git add r; git commit -qm R`)
	r.shell(r.dir, `mv sub elsewhere; ln -s elsewhere sub`)
	h := &histories{t: t, rig: r}
	if _, conflicts, err := h.merge("refresh", threeway.RefuseConflicts); err == nil || !slices.Contains(conflicts, "sub") {
		t.Errorf("%v, %v", conflicts, err)
	}
	if _, _, err := h.merge("refresh", threeway.KeepOurs); err != nil {
		t.Error(err)
	}
}

// TestRefreshNoObjects: a run has an empty directory and a link where git has objects. A refresh passes them over.
func TestRefreshNoObjects(t *testing.T) {
	isolate(t)
	r := newRig(t, "dir", mk)
	r.shell(r.run, `git commit -q --allow-empty -m R; mkdir -p .git/objects/ab/$(printf %038d 1); ln -s nowhere .git/objects/ab/$(printf %038d 2)`)
	r.shell(r.dir, `git branch new`)
	if said, _, err := (&histories{t: t, rig: r}).merge("refresh", threeway.RefuseConflicts); err != nil || said != "new branch new" {
		t.Errorf("%v, it said: %s", err, said)
	}
}
