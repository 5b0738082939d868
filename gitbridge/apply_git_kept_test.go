package gitbridge

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/tests/must"
)

// TestApplyGitKept: git's files other than refs and the index are taken as a whole, or left as they are and reported.
func TestApplyGitKept(t *testing.T) {
	isolate(t)

	for name, c := range map[string]gitCase{
		"reftable": {
			make: mk + `git config core.repositoryformatversion 1; git config extensions.refStorage reftable; mkdir .git/reftable; echo 1 >.git/reftable/tables.list`,
			run:  `echo 2 >.git/reftable/tables.list; echo n >n`, meanwhile: `echo 3 >.git/reftable/tables.list`,
			check: `cat .git/reftable/tables.list n`, want: "3\nn", said: "its refs are in a reftable",
		},
		"reftable in the run": {
			make: mk, run: `git config core.repositoryformatversion 1; git config extensions.refStorage reftable; mkdir .git/reftable; echo 1 >.git/reftable/tables.list`,
			check: `git config extensions.refStorage || git log --format=%s`, want: "1", said: "its refs are in a reftable",
		},
		"reftable, a hook": {
			make: mk + `git config core.repositoryformatversion 1; git config extensions.refStorage reftable`,
			run:  `mkdir -p .git/hooks; echo x >.git/hooks/post-commit`, check: `cat .git/hooks/post-commit`, want: "x",
		},
		"a common directory elsewhere": {
			make:  mk + `cp -a . ../other; echo ../../other/.git >.git/commondir`,
			run:   `rm .git/commondir; git checkout -qb evil; git commit -q --allow-empty -m evil`,
			check: `git -C ../other for-each-ref --format='%(refname)'`, want: "refs/heads/main", said: "its commondir names another one",
		},
		"refs elsewhere": {
			make:  mk + `cp -a . ../other; rm -r .git/refs/heads; ln -s ../../../other/.git/refs/heads .git/refs/heads`,
			run:   `rm .git/refs/heads; mkdir .git/refs/heads; git checkout -qb evil; git commit -q --allow-empty -m evil`,
			check: `git -C ../other for-each-ref --format='%(refname)'`, want: "refs/heads/main", said: "its refs/heads is a link; `git worktree add` or a clone in its place works",
		},
		"objects of Git LFS": {
			make:  mk + `mkdir -p .git/lfs/objects/aa; echo 1 >.git/lfs/objects/aa/aa1`,
			run:   `rm -r .git/lfs/objects/aa; mkdir .git/lfs/objects/bb; echo 2 >.git/lfs/objects/bb/bb1; echo n >n`,
			check: `cat .git/lfs/objects/*/* n`, want: "1\n2\nn",
		},
		"the last commands": {
			make: mk, run: `echo x >a; git commit -qam run; git reset -q --hard HEAD~1; echo y >a; git commit -qam again`,
			check: `git log --format=%s ORIG_HEAD -1; cat .git/COMMIT_EDITMSG; git fsck --strict --no-dangling`, want: "run\nagain",
		},
		"the last commands of both": {
			make: mk + `git branch base`, run: `echo x >a; git commit -qam run; git reset -q --hard base; git tag v1`, meanwhile: `git commit -q --allow-empty -m mine; git reset -q --hard base`,
			check: `git log --format=%s ORIG_HEAD -1; git tag`, want: "mine\nv1",
		},
		"notes": {
			make: mk, run: `git notes add -m theirs`, meanwhile: `git notes add -m ours`,
			check: `git notes show; git notes --ref amberfs/r/commits show`, want: "ours\ntheirs", said: "refs/notes/amberfs/r/commits",
		},
		"stashes whose log the base has lost": {
			make: mk + `echo 1 >a; git stash -q; echo 2 >a; git stash -q; cp .git/logs/refs/stash ../log; git reflog expire --expire=now --all`, run: `echo 3 >a; git stash -q`, meanwhile: `cp ../log .git/logs/refs/stash`,
			check: `git stash list | wc -l; git show amberfs/r/stash:a`, want: "2\n3", said: "the stash stays as it is: both sides have changed it",
		},
		"a tree that is gone": {
			make: mk, run: `echo x >x; git add x; git commit -qm run; rm .git/objects/$(git rev-parse HEAD^{tree} | sed 's|..|&/|')`,
			check: `git log --format=%s; git status -s`, want: "1\n?? x", said: "commits that it needs are gone",
		},
		"rerere": {
			make: mk, run: `mkdir -p .git/rr-cache/1; echo p >.git/rr-cache/1/preimage`, check: `cat .git/rr-cache/1/preimage`, want: "p", said: "what rerere has recorded",
		},
		"rerere of both": {
			make: mk, run: `mkdir -p .git/rr-cache/1; echo p >.git/rr-cache/1/preimage`, meanwhile: `mkdir -p .git/rr-cache/2; echo p >.git/rr-cache/2/preimage`,
			check: `ls .git/rr-cache`, want: "2", said: "what rerere has recorded is left there",
		},
		"a submodule in a linked working tree": {
			dir: "wt", make: `cd ..; mkdir up; cd up; ` + mk + `cd ..; mkdir m; cd m; ` + mk + `git submodule --quiet add ../up sub; git commit -qm sub; rmdir ../wt; git worktree add -q ../wt -b feat`,
			run: `git submodule --quiet update --init; echo n >n`, check: `git status -s; ls sub; git submodule --quiet update --init; ls sub`, want: "?? n\na\nb\nc",
			said: "stays in the workspace, with sub",
		},
		"the index of a working tree elsewhere": {
			make: mk + `git worktree add -q ../wt -b feat`, run: `cp -a .git/index .git/worktrees/wt/index; rm .git/worktrees/wt/ORIG_HEAD; echo n >n; git add n; git commit -qm n`,
			meanwhile: `cd ../wt; echo w >w; git add w`, check: `git log --format=%s; git -C ../wt status -s`, want: "n\n1\nA  w",
		},
		"a separate git directory, and a split index": {
			make: `cd ..; rmdir dir; git init -q --separate-git-dir=far.git dir; cd dir; ` + mk + `git update-index --split-index`,
			run:  `git commit -q --allow-empty -m run`, check: `git log --format=%s; git status -s`, want: "run\n1",
		},
		"packs of git maintenance": {
			make: mk, run: `git commit -q --allow-empty -m run; for i in 1 2; do git maintenance run --quiet --task=loose-objects; git prune-packed; done; ls .git/objects/pack | grep -q ^loose`,
			check: `git log --format=%s; git fsck --strict`, want: "run\n1",
		},
		"the branch that is checked out here is removed there, and another one moved here": {
			make: mk + `git checkout -q -b other`, run: `git checkout -q main; echo r >r; git add r; git commit -qm run; git branch -D other`,
			meanwhile: `git update-ref refs/heads/main $(git commit-tree -p HEAD -m mine HEAD^{tree})`,
			check:     `git branch --show-current; git status -s; git log -1 --format=%s`, want: "other\n1", said: "other stays: it is checked out",
		},
		"a branch is gone there, and a bisect has its commits": {
			make: mk + `for i in 2 3 4; do echo $i >a; git commit -qam $i; done; git branch first HEAD~3`,
			run:  `git bisect start; git bisect bad; git bisect good first; git update-ref -d refs/heads/main`, check: `git for-each-ref --format='%(refname)' refs/heads`, want: "refs/heads/first",
			said: "the branch main is gone; takes 3 commits off main: 2, 3, 4",
		},
		"files that both made, and that are empty on one side": {
			make: mk, run: `echo 1 >x; git add -N x; git restore .; echo 2 >y`, meanwhile: `echo 3 >x; : >y`, check: `cat x y`, want: "3\n2",
		},
		"stashes of both": {
			make: mk + `echo 0 >a; git stash -q`, run: `for i in 1 2; do echo r$i >a; git stash -q; done; git branch new`, meanwhile: `echo d >a; git stash -q`,
			check: `git for-each-ref --format='%(refname:short)'; git stash list | wc -l; git show amberfs/r/stash:a amberfs/r/stash-2:a`, want: "amberfs/r/stash\namberfs/r/stash-2\nmain\nnew\nstash\n2\nr2\nr1",
		},
		"a new working tree": {
			make: mk, run: `git worktree add -q inner -b inner`, check: `git worktree list | wc -l; git status -s`, want: "2\n?? inner/",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.rig(t)
			if said := r.applied(); !strings.Contains(said, c.said) {
				t.Errorf("it said: %s\nwant: %s", said, c.said)
			}
			r.want(c.check, c.want)
		})
	}
}

// TestApplyGitCalls: in an apply of a commit, git does not read the files that the apply does not change. The new index
// has the times and sizes of the files that it changes.
func TestApplyGitCalls(t *testing.T) {
	isolate(t)
	r := newRig(t, "dir", mk)
	r.shell(r.run, `echo x >x; echo y >a; git add .; git commit -qm run`)

	const most = 16
	var calls []string
	_, err := r.apply(hostdir.ApplyOptions{Git: HostGit{func(ctx context.Context, dir string, env []string, stdin io.Reader, args ...string) ([]byte, error) {
		calls = append(calls, strings.Join(args, " "))
		return runGit(ctx, dir, env, stdin, args...)
	}}})
	must.OK(t, err)

	for _, all := range []string{"status", "update-index -q --refresh"} {
		if slices.ContainsFunc(calls, func(c string) bool { return strings.Contains(c, all) }) {
			t.Errorf("git looks at all files: %s", all)
		}
	}
	if len(calls) > most {
		t.Errorf("%d calls of git:\n%s", len(calls), strings.Join(calls, "\n"))
	}
	r.want(`git diff-files --name-only; git status -s`, "")
}

// A gitCase has the script that makes a directory, the commands of a run and of a person in the directory, the expected
// state of the directory after an apply, and the expected report of the apply.
type gitCase struct {
	dir                               string // "" for dir
	make, run, meanwhile, check, want string
	said                              string
}

// rig makes the directory, and runs the commands of both sides.
func (c gitCase) rig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, cmp.Or(c.dir, "dir"), c.make)
	r.shell(r.run, c.run)

	if c.meanwhile != "" {
		r.shell(r.dir, c.meanwhile)
	}
	return r
}
