package gitbridge

import (
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

// TestGoneWorktree: a linked working tree that one side has removed is kept or removed as a whole on the other side, and
// its commits have refs.
func TestGoneWorktree(t *testing.T) {
	isolate(t)
	t.Setenv("HISTORIES", t.TempDir())
	const commit, remove = `cd inner; echo new >new; echo x >>a; git add .; git commit -qm work; echo u >u`, `git worktree remove --force inner`
	for name, c := range map[string]struct{ run, dir, said, check, want string }{
		"removed here, changes that are not committed there": {run: `echo u >inner/u; echo x >>inner/a`, dir: remove, said: "the working tree is gone here", check: `ls`, want: "a\nb\nc"},
		"removed here, commits there": {run: commit, dir: remove, said: "the working tree is gone here: what changed in it stays in the workspace",
			check: `ls; git worktree list | wc -l; git log -1 --format=%s inner; git status -s`, want: "a\nb\nc\n1\nwork"},
		"removed here, detached commits there": {run: `git -C inner checkout -q --detach; ` + commit, dir: remove, said: "amberfs/r/inner has the commits of the working tree inner",
			check: `ls; git log -1 --format=%s amberfs/r/inner; git status -s`, want: "a\nb\nc\nwork"},
		"removed here, a submodule there": {run: `git add -f inner; git commit -qm link`, dir: remove, said: "1 commit on main", check: `ls; git status -s`, want: "a\nb\nc\n D inner"},
		"removed there, commits here": {run: remove, dir: commit, said: "the working tree is gone in the workspace: this one stays, as it changed",
			check: `ls inner; git worktree list | wc -l; git -C inner status -s; git log -1 --format=%s inner --`, want: "a\nb\nc\nnew\nu\n2\n?? u\nwork"},
		"removed there, a new file here": {run: remove, dir: `echo u >inner/u`, said: "the working tree is gone in the workspace: this one stays, as it changed",
			check: `ls inner; git worktree list | wc -l; git -C inner status -s`, want: "a\nb\nc\nu\n2\n?? u"},
		"removed there": {run: remove, dir: `echo x >x`, check: `ls; git worktree list | wc -l`, want: "a\nb\nc\nx\n1"},
		"detached commits on both sides": {run: `git -C inner checkout -q --detach; ` + commit, dir: `cd inner; git commit -q --allow-empty -m mine`, said: "amberfs/r/inner has the commits of the working tree inner",
			check: `git log -1 --format=%s amberfs/r/inner; git -C inner log -1 --format=%s`, want: "work\nmine"},
		"its branch stays here": {run: `cd inner; echo r >r; git add r; git commit -q --amend -m run; rm ../.git/logs/refs/heads/inner`, said: "the working tree inner stays as it is here",
			check: `git -C inner status -s; git log -1 --format=%s amberfs/r/inner`, want: "?? r\nrun"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "dir", mk+`mkdir .git/info; echo inner >.git/info/exclude; git worktree add -q inner -b inner; git -C inner status -s`)
			r.mounts = true
			r.in(r.run, c.run)
			r.shell(r.dir, c.dir)
			if said := r.applied(); !strings.Contains(said, c.said) {
				t.Errorf("it said: %s\nwant: %s", said, c.said)
			}
			r.want(c.check, c.want)
			r.shell(r.dir, "git fsck --strict")
		})
	}
}

// TestRemovedRepository: a directory with a git directory of its own that the workspace has removed stays here
// as a whole if somebody changed it here, and is removed if nobody did.
func TestRemovedRepository(t *testing.T) {
	isolate(t)
	t.Setenv("HISTORIES", t.TempDir())
	for kind, make := range map[string]string{
		"linked":    mk + `git worktree add -q in/ner -b inner`,
		"nested":    mk + `mkdir -p in/ner; cd in/ner; ` + mk,
		"submodule": `cd ..; mkdir up; cd up; ` + mk + `cd ../dir; git init -q; git submodule --quiet add ../up in/ner; git commit -qm sub`,
	} {
		for did, c := range map[string]struct{ dir, want string }{
			"a new file":         {`echo u >in/ner/u`, ".git\na\nb\nc\nu\n?? u"},
			"a changed file":     {`echo x >>in/ner/a`, ".git\na\nb\nc\nM a"},
			"a removed file":     {`rm in/ner/a`, ".git\nb\nc\nD a"},
			"staged":             {`cd in/ner; echo s >s; git add s`, ".git\na\nb\nc\ns\nA  s"},
			"a detached commit":  {`cd in/ner; git checkout -q --detach; git commit -q --allow-empty -m mine; git log -1 --format=%s`, ".git\na\nb\nc"},
			"git status, a time": {`cd in/ner; git status -s; touch .`, ""},
		} {
			for _, how := range []string{"apply", "merge"} {
				t.Run(kind+", "+did+", "+how, func(t *testing.T) {
					r := newRig(t, "dir", make)
					h := &histories{t: t, rig: r}
					r.shell(r.run, `rm -rf in`)
					r.shell(r.dir, c.dir)

					said := ""
					if how == "apply" {
						said = r.applied()
					} else {
						said, _, _ = h.merge(how, threeway.RefuseConflicts)
					}
					if want := "the working tree is gone in the "; c.want != "" && !strings.Contains(said, want) || c.want == "" && said != "" {
						t.Errorf("it said: %s", said)
					}
					r.want(`test ! -e in || ls -A in/ner; test ! -e in || git -C in/ner status -s | sed 's/^ //'`, c.want)
				})
			}
		}
	}
}

// TestUntrustedRepository: a separate git directory whose index has no entries does not name the directory. It is
// not changed, until the user has set core.worktree.
func TestUntrustedRepository(t *testing.T) {
	isolate(t)
	r := newRig(t, "dir", `cd ..; rmdir dir; git init -q --separate-git-dir=far.git dir; cd dir; `+mk)
	r.shell(r.run, `echo n >n; git add n; git commit -qm run`)
	r.shell(r.dir, `git rm -q -r --cached .`)

	if said := r.applied(); !strings.Contains(said, "far.git, which does not name it back") || !strings.Contains(said, "config core.worktree DIR") {
		t.Errorf("it said: %s", said)
	}
	r.want(`git log --format=%s; ls`, "1\na\nb\nc\nn")

	r.shell(r.dir, `git --git-dir=../far.git config core.worktree $PWD`)
	r.applied()
	r.want(`git log --format=%s; git ls-files; ls`, "run\n1\nn\na\nb\nc\nn")
}

// TestRepositoryStaysTrusted: an apply gives other times to all files of the index that proves where a separate git
// directory belongs.
func TestRepositoryStaysTrusted(t *testing.T) {
	isolate(t)
	r := newRig(t, "dir", `cd ..; rmdir dir; git init -q --separate-git-dir=far.git dir; cd dir; `+mk)
	r.shell(r.run, `touch -d 2020-01-01 *`)
	r.applied()
	if l := linkOutside(r.dir, r.dir); !l.Trusted {
		t.Error("the apply made the repository untrusted")
	}
}

// TestMergeRefs: the file of a branch is replaced by a directory with the file of another branch, and a directory by a file.
func TestMergeRefs(t *testing.T) {
	isolate(t)
	for from, to := range map[string]string{"x": "x/y", "x/y": "x"} {
		r := newRig(t, "dir", mk+`git branch `+from)
		r.shell(r.run, `git branch -m `+from+` `+to)
		r.shell(r.dir, `git tag mine`)
		h := &histories{t: t, rig: r}
		_, _, err := h.merge("merge", threeway.RefuseConflicts)
		must.OK(t, err)
		r.want(`git for-each-ref --format='%(refname)'`, "refs/heads/main\nrefs/heads/"+to+"\nrefs/tags/mine")
	}
}

// wasAt matches the old value of a ref in a description.
var wasAt = regexp.MustCompile(` \((it )?was [0-9a-f]{7}\)`)
