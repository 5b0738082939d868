package gitbridge

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

// TestApplyDiverged: a branch that both sides moved is kept, merged or taken, and no commit is lost.
func TestApplyDiverged(t *testing.T) {
	isolate(t)
	const graph = `git log --format=%s --all | sort; git status -s; git for-each-ref --format='%(refname:short)'`
	both := [2]string{`echo r >a; echo r >r; git add .; git commit -qm run`, `echo d >a; git commit -qam mine`}
	apart := [2]string{`echo r >r; git add .; git commit -qm run; echo u >u`, `echo d >a; git commit -qam mine`}
	for name, c := range map[string]struct {
		did           [2]string // by the run, and in the directory
		o             hostdir.ApplyOptions
		choices       map[string]hostdir.Choice
		said          string
		conflicts     []string
		fails         string
		want          string
		after, wanted string // the commands of a person after the apply, and their output
	}{
		"kept apart": {did: apart, said: "1 commit on amberfs/r/main; main moved on both sides: it stays, and amberfs/r/main has the other commits",
			want: "1\nmine\nrun\n?? u\namberfs/r/main\nmain", after: `git merge -q amberfs/r/main; cat a r u`, wanted: "d\nr\nu"},
		"merged": {did: apart, o: hostdir.ApplyOptions{Merge: true}, said: "2 commits on main; main moved on both sides, and is merged",
			want: "1\nMerge branch 'amberfs/r/main'\nmine\nrun\n?? u\nmain", after: `cat a r u`, wanted: "d\nr\nu"},
		"merged by choice": {did: apart, choices: map[string]hostdir.Choice{".git": {Merge: true}}, want: "1\nMerge branch 'amberfs/r/main'\nmine\nrun\n?? u\nmain"},
		"a conflict":       {did: both, o: hostdir.ApplyOptions{Merge: true}, fails: hostdir.ErrConflict.Error(), conflicts: []string{"a"}, want: "1\nmine\nmain"},
		"a conflict, theirs": {did: both, o: hostdir.ApplyOptions{Merge: true, ConflictRule: threeway.TakeTheirs},
			want: "1\nMerge branch 'amberfs/r/main'\nmine\nrun\nmain", after: `cat a r`, wanted: "r\nr"},
		"a conflict, ours": {did: both, o: hostdir.ApplyOptions{Merge: true, ConflictRule: threeway.KeepOurs},
			want: "1\nMerge branch 'amberfs/r/main'\nmine\nrun\nmain", after: `cat a r`, wanted: "d\nr"},
		"a conflict with markers": {did: both, choices: map[string]hostdir.Choice{".git": {Merge: true}, "a": {Markers: true}},
			want: "1\nmine\nrun\nUU a\nA  r\namberfs/r/main\nmain", after: `grep -c '^[<=>]' a; git commit -qam merged; git log --format=%p -1 | wc -w`, wanted: "3\n2"},
		"deleted there": {did: [2]string{`git rm -q a; git commit -qm run`, both[1]}, choices: map[string]hostdir.Choice{".git": {Merge: true}, "a": {ConflictRule: threeway.TakeTheirs}},
			want: "1\nMerge branch 'amberfs/r/main'\nmine\nrun\nmain", after: `ls`, wanted: "b\nc"},
		"changed here": {did: [2]string{both[0], `echo d >d; git add d; git commit -qm mine; echo mine >a`}, o: hostdir.ApplyOptions{Merge: true},
			fails: "main is not merged: a has changes that are not committed; nothing was changed", want: "1\nmine\n M a\nmain"},
		"changed there": {did: [2]string{both[0] + `; echo more >>r`, both[1]}, o: hostdir.ApplyOptions{Merge: true},
			fails: "main is not merged: r has changes there that are not committed; nothing was changed", want: "1\nmine\nmain"},
		"a directory there": {did: [2]string{`git rm -q a; mkdir a; echo i >a/i; git add a; git commit -qm run`, both[1]}, o: hostdir.ApplyOptions{Merge: true, ConflictRule: threeway.KeepOurs},
			fails: "main is not merged: a is a file on one side, and a directory on the other; nothing was changed", want: "1\nmine\nmain"},
		"staged here": {did: [2]string{apart[0], apart[1] + `; echo b >>b; git add b`}, o: hostdir.ApplyOptions{Merge: true},
			fails: "main is not merged: b is staged; nothing was changed", want: "1\nmine\nM  b\nmain"},
		"theirs": {did: both, o: hostdir.ApplyOptions{ConflictRule: threeway.TakeTheirs}, said: "takes 1 commit off main: mine",
			want: "1\nmine\nrun\namberfs/r/main\nmain", after: `cat a; git log --format=%s amberfs/r/main -1`, wanted: "r\nmine"},
		"theirs by choice": {did: [2]string{both[0], `mkdir d; echo d >d/d; git add .; git commit -qm mine; echo d >a; git commit -qam mine2; echo x >c`}, choices: map[string]hostdir.Choice{".git/refs/heads/main": {ConflictRule: threeway.TakeTheirs}},
			want: "1\nmine\nmine2\nrun\n M c\namberfs/r/main\nmain", after: `cat a c; ls d 2>/dev/null || true`, wanted: "r\nx"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "dir", mk+`git config user.name a; git config user.email a@a`)
			r.shell(r.run, c.did[0])
			r.shell(r.dir, c.did[1])
			if c.choices != nil {
				c.o.Choose = func(at string) hostdir.Choice {
					if choice, ok := c.choices[at]; ok {
						return choice
					}
					return hostdir.Choice{}
				}
			}
			res, err := r.apply(c.o)
			if err != nil && err.Error() != c.fails || err == nil && c.fails != "" {
				t.Fatalf("%v, want %s", err, c.fails)
			}
			if res != nil && !slices.Equal(res.Conflicts, c.conflicts) && c.fails != "" {
				t.Errorf("conflicts %q, want %q", res.Conflicts, c.conflicts)
			}
			if res != nil && len(res.Git) > 0 && !strings.Contains(strings.Join(res.Git[0].Lines, "; "), c.said) {
				t.Errorf("it said %q, want %s", res.Git[0].Lines, c.said)
			}
			r.want(graph, c.want)
			if c.after != "" {
				r.want(c.after, c.wanted)
			}
			r.shell(r.dir, "git fsck --strict")
		})
	}
}

// TestApplyMergeSubmodule: a submodule in which both sides have commits is merged, and keeps uncommitted changes of both
// sides. The repository around the submodule is merged, too, whichever commit of the submodule it names.
func TestApplyMergeSubmodule(t *testing.T) {
	isolate(t)
	const (
		make = `cd ..; git init -q up; cd up; echo l >l; seq 9 >n; git add .; git commit -qm lib; cd ../dir; ` + mk + `git submodule --quiet add ../up lib; git commit -qm sub
git config user.name a; git config user.email a@a; git -C lib config user.name a; git -C lib config user.email a@a`
		run    = `cd lib; echo r >r; git add r; git commit -qm run; echo w >>l; echo u >ru; cd ..; `
		dir    = `cd lib; echo d >d; git add d; git commit -qm mine; sed -i 1d n; echo u >du; cd ..; `
		check  = `git -C lib log --format=%s -1; git -C lib status -s; git log --format=%s -1; git status -s; cat lib/l lib/r | tail -n 2; head -n 1 lib/n`
		merged = "Merge branch 'amberfs/r/main'\n M l\n M n\n?? du\n?? ru\n"
	)
	for name, c := range map[string]struct{ run, dir, want string }{
		"changed there":             {run + `echo x >>lib/r`, dir, "main of lib is not merged: r has changes there that are not committed; nothing was changed"},
		"commits in it":             {run, dir, merged + "sub\n M lib\nw\nr\n2"},
		"committed there":           {run + `git commit -qam bump`, dir, merged + "bump\n M lib\nw\nr\n2"},
		"committed there, merged":   {run + `git commit -qam bump`, dir + `echo d >a; git commit -qm mine a`, merged + "Merge branch 'amberfs/r/main'\n M lib\nw\nr\n2"},
		"committed here, and there": {run + `git commit -qam bump`, dir + `git commit -qam mine`, merged + "Merge branch 'amberfs/r/main'\n M lib\nw\nr\n2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "dir", make)
			r.shell(r.run, c.run)
			r.shell(r.dir, c.dir)

			o := hostdir.ApplyOptions{Merge: true}
			res, err := r.apply(o)
			if errors.Is(err, hostdir.ErrConflict) && slices.Equal(res.Conflicts, []string{"lib"}) && name == "committed here, and there" {
				o.ConflictRule = threeway.TakeTheirs // as for git, a person decides
				_, err = r.apply(o)
			}
			if err != nil && err.Error() == c.want {
				return
			}
			must.OK(t, err)
			r.want(check, c.want)
			r.shell(r.dir, "git fsck --strict; git -C lib fsck --strict")
		})
	}
}

// TestApplyMergeKilled: an apply that merges, and is killed at any call of git, loses no commit, and the
// next one completes it.
func TestApplyMergeKilled(t *testing.T) {
	isolate(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	killed := true
	for n := 2; killed; n += 2 {
		r := newRig(t, "dir", mk+`git config user.name a; git config user.email a@a`)
		r.shell(r.run, `seq 9 >b; echo r >r; mkdir d; echo d >d/d; git add .; git commit -qm run`)
		r.shell(r.dir, `git mv c moved; echo d >a; git add .; git commit -qm mine; echo u >u`)
		h := &histories{t: t, rig: r, join: true}
		h.interrupt(n, true)
		killed = !strings.Contains(h.did[0], `""`)

		r.shell(r.dir, "git fsck --strict")
		if _, err := r.apply(hostdir.ApplyOptions{Merge: true}); err != nil {
			t.Fatalf("after a kill at call %d of git (%s): %v", n, h.did, err)
		}
		r.want(`git log --format=%s | sort; git status -s; git for-each-ref --format='%(refname:short)'; cat a b r d/d moved | tail -n 4; git fsck --strict --no-dangling`, "1\nMerge branch 'amberfs/r/main'\nmine\nrun\n?? u\nmain\n9\nr\nd\nc")
	}
}

// TestApplyHeadKilled: an apply moves HEAD away from a branch, moves or removes this branch too, and takes work in
// progress. If it fails or is killed at any call of git, the next apply completes it.
func TestApplyHeadKilled(t *testing.T) {
	isolate(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, c := range []struct{ run, check, want string }{
		{`echo r >a; git commit -qam run; git checkout -q --detach; echo d >d; git add d; git commit -qm detached; git bisect start; git bisect bad; git bisect good HEAD~1`,
			`git log -1 --format=%s; git log -1 --format=%s main; git bisect log | grep -c ^git`, "detached\nrun\n3"},
		{`git checkout -q -b next HEAD~1; git branch -q -D main`, `git log -1 --format=%s; git branch`, "1\n* next"},
	} {
		for _, kill := range []bool{false, true} {
			ended := true
			for n := 3; ended; n += 2 {
				r := newRig(t, "dir", mk+`git rm -q c; echo 2 >2; git add 2; git commit -qm 2`)
				r.shell(r.run, c.run)
				h := &histories{t: t, rig: r}
				h.interrupt(n, kill)
				ended = !strings.Contains(h.did[0], `""`)

				if _, err := r.apply(hostdir.ApplyOptions{}); err != nil {
					t.Fatalf("after call %d of git (%s): %v", n, h.did, err)
				}
				r.want(`git status -s; `+c.check+`; git fsck --strict --no-dangling`, c.want)
			}
		}
	}
}

// TestApplyGitFails: if git fails at any call of an apply, and at all later calls, the apply does not take the failure
// for an answer of git: it changes no file that it would not have changed.
func TestApplyGitFails(t *testing.T) {
	isolate(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	failed := true
	for n := 2; failed; n += 2 {
		r := newRig(t, "dir", mk+`git config user.name a; git config user.email a@a`)
		r.shell(r.run, `echo r >b; git commit -qam run; echo u >u`)
		r.shell(r.dir, `git update-index --split-index; echo d >a; git commit -qam mine`)
		h := &histories{t: t, rig: r}
		h.interrupt(n, false)
		failed = !strings.Contains(h.did[0], `""`)

		if is := r.shell(r.dir, `git status -s; cat b; git log --format=%s -1`); is != "b\nmine" && is != "?? u\nb\nmine" {
			t.Fatalf("after git failed at call %d (%s): %s", n, h.did, is)
		}
		r.applied()
		r.want(`git status -s; git log --format=%s amberfs/r/main; git fsck --strict --no-dangling`, "?? u\nrun\n1")
	}
}

// TestApplyAhead: both sides left the HEAD of the base for the same branch, or for a detached HEAD. If the commit of the
// workspace is only newer, the directory moves forward to it.
func TestApplyAhead(t *testing.T) {
	isolate(t)
	for name, checkout := range map[string]string{"a branch": "git checkout -q other", "a new branch": "git checkout -q -b new other", "a detached HEAD": "git checkout -q --detach other"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "dir", mk+`git branch other; echo 2 >>a; git commit -qam 2`)
			same := checkout + `; echo x >x; git add x; GIT_AUTHOR_DATE='@1 +0000' GIT_COMMITTER_DATE='@1 +0000' git commit -qm same`
			r.shell(r.run, same+`; echo r >r; git add r; git commit -qm run`)
			r.shell(r.dir, same)
			if said := r.applied(); strings.Contains(said, "both sides") {
				t.Errorf("it said: %s", said)
			}
			r.want(`git log --format=%s; git status -s; git for-each-ref 'refs/heads/amberfs'; cat a`, "run\nsame\n1\na")
		})
	}
}

// TestApplyNestedBranch: the run renames the branch of HEAD to its directory, or to a name below it.
func TestApplyNestedBranch(t *testing.T) {
	isolate(t)
	for old, renamed := range map[string]string{"x/y": "x", "x": "x/y"} {
		r := newRig(t, "dir", mk+`git checkout -q -b `+old+`; git branch -D -q main`)
		r.shell(r.run, `git branch -m `+old+` `+renamed)
		r.applied()
		r.want(`git for-each-ref --format='%(refname:short)' refs/heads; git symbolic-ref --short HEAD; git status -s`, renamed+"\n"+renamed)
	}
}

// TestDirectoryAfterReset: a person resets the commit that replaced a file by a directory, and gets the commit again by
// a merge.
func TestDirectoryAfterReset(t *testing.T) {
	isolate(t)
	for _, how := range []string{"apply", "merge"} {
		r := newRig(t, "dir", mk+`git rm -q a; mkdir a; echo i >a/i; git add a; git commit -qm directory`)
		r.shell(r.run, `echo r >r; git add r; git commit -qm run`)
		r.shell(r.dir, `git reset -q --hard HEAD~1`)

		var err error
		if how == "apply" {
			_, err = r.apply(hostdir.ApplyOptions{Merge: true})
		} else {
			_, _, err = (&histories{t: t, rig: r, join: true}).merge(how, threeway.RefuseConflicts)
		}
		must.OK(t, err)
		r.want(`git log --format=%s; git status -s; cat a/i`, "run\ndirectory\n1\ni")
	}
}
