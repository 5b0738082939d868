package gitbridge

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

// TestApplyWhole has the commands of a run and of a person below .hg. An apply takes the directory .hg as a whole: no
// file in it is applied or kept alone.
func TestApplyWhole(t *testing.T) {
	const (
		mk    = `mkdir -p .hg/store/data; echo 1 >.hg/a; echo 1 >.hg/b; echo 1 >.hg/store/data/x; echo w >w`
		list  = `find .hg -type f 2>/dev/null | sort | xargs -r grep .`
		run   = `echo run >.hg/a; rm .hg/b; echo new >.hg/store/new; echo run >w`
		outs  = `echo dir >.hg/store/data/x; mkdir .hg/mine; echo mine >.hg/mine/m`
		other = ".hg/a:run\n.hg/store/data/x:1\n.hg/store/new:new"
		same  = ".hg/a:1\n.hg/b:1\n.hg/mine/m:mine\n.hg/store/data/x:dir"
	)
	for name, c := range map[string]struct {
		run, outside, want string
		rule               threeway.Rule
		refused            bool
	}{
		"the run alone":             {run: run, want: other},
		"the directory alone":       {run: `echo run >w`, outside: outs, want: same},
		"times alone in the run":    {run: `touch .hg/a; echo run >w`, outside: outs, want: same},
		"times alone outside":       {run: run, outside: `touch .hg/a .hg`, want: other},
		"gone in the run":           {run: `rm -r .hg`, want: ""},
		"both, refused":             {run: run, outside: outs, want: same, refused: true},
		"both, the directory's":     {run: run, outside: outs, want: same, rule: threeway.KeepOurs},
		"both, the run's":           {run: run, outside: outs, want: other, rule: threeway.TakeTheirs},
		"both, gone in the run":     {run: `rm -r .hg`, outside: outs, want: same, refused: true},
		"both, none of the run":     {run: `rm -r .hg`, outside: outs, want: "", rule: threeway.TakeTheirs},
		"both, gone outside":        {run: run, outside: `rm -r .hg`, want: "", refused: true},
		"both, back from the run":   {run: run, outside: `rm -r .hg`, want: other, rule: threeway.TakeTheirs},
		"both, another kind":        {run: run, outside: `rm -r .hg/store; echo f >.hg/store`, want: other, rule: threeway.TakeTheirs},
		"both alike":                {run: run, outside: run, want: other},
		"applied in part":           {run: run, outside: `echo run >.hg/a; echo new >.hg/store/new`, want: other},
		"removed outside by itself": {run: run, outside: `rm .hg/store/data/x`, want: ".hg/a:1\n.hg/b:1", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "dir", mk)
			r.shell(r.run, c.run)
			r.shell(r.dir, c.outside)
			before := r.shell(r.dir, "cat w; find .")
			res, err := r.apply(hostdir.ApplyOptions{ConflictRule: c.rule})
			if refused := errors.Is(err, hostdir.ErrConflict); refused != c.refused || err != nil && !refused {
				t.Fatal(err)
			}
			r.want(list, c.want)
			if c.refused {
				r.want("cat w; find .", before)
				if strings.Join(res.Conflicts, " ") != ".hg" || !strings.Contains(hintOf(err, res), "hg pull") {
					t.Errorf("conflicts %q, %v", res.Conflicts, hintOf(err, res))
				}
				return
			}
			if c.rule != threeway.KeepOurs { // then nothing is left
				if res, err = r.apply(hostdir.ApplyOptions{}); err != nil || len(res.Paths) > 0 {
					t.Errorf("again: %v, %v", res.Paths, err)
				}
			}
		})
	}
}

// TestApplyWholeChoices: if the user leaves a file below such a directory, the whole directory is left. A git
// repository inside the directory of jj is a part of that directory.
func TestApplyWholeChoices(t *testing.T) {
	isolate(t)
	r := newRig(t, "dir", `mkdir -p .jj/repo/store; git init -q --bare .jj/repo/store/git; echo 1 >.jj/a`)
	r.shell(r.run, `echo 2 >.jj/a; git -C .jj/repo/store/git config x.y z; git -C .jj/repo/store/git symbolic-ref HEAD refs/heads/run`)
	leave := func(name string) hostdir.Choice { return hostdir.Choice{Leave: name == ".jj/a"} }
	got(r.apply(hostdir.ApplyOptions{Choose: leave}))
	r.want(`cat .jj/a; cat .jj/repo/store/git/HEAD`, "1\nref: refs/heads/main")
	r.applied()
	r.want(`cat .jj/a; cat .jj/repo/store/git/HEAD`, "2\nref: refs/heads/run")

	r.begin()
	r.shell(r.run, `git -C .jj/repo/store/git symbolic-ref HEAD refs/heads/other`)
	must.OK(t, os.WriteFile(filepath.Join(r.dir, ".jj/repo/store/git/refs/heads/mine"), []byte("x\n"), 0o600))
	if res, err := r.apply(hostdir.ApplyOptions{}); !errors.Is(err, hostdir.ErrConflict) || !strings.Contains(hintOf(err, res), "jj git import") {
		t.Errorf("%v", err)
	}
}

func hintOf(err error, res *hostdir.ApplyResult) string {
	return errs.ErrorOf(hostdir.Explain(err, res)).Hint
}

// TestApplyGitRacy: a file that changed after its commit is applied, although it has the time and size in the index.
func TestApplyGitRacy(t *testing.T) {
	isolate(t)
	const commit = `echo 1 >c; touch -d 2020-01-01 c; git commit -qam run; echo 2 >c; touch -d 2020-01-01 c .git/index`
	for name, c := range map[string]struct{ run, want string }{
		"changed in the second of the index": {commit, "2\nc"},
		"emptied, and git cleared the size":  {commit + `; echo y >y; git add y; git ls-files --debug c | grep -q 'size: 0'; : >c; touch -d 2020-01-01 c`, "0\nc"},
	} {
		t.Run(name, func(t *testing.T) {
			r := gitCase{make: mk + `git config core.trustctime false`, run: c.run, meanwhile: `git commit -q --allow-empty -m mine`}.rig(t)
			if said := r.applied(); !strings.Contains(said, "amberfs/r/main has the other commits") {
				t.Errorf("it said: %s", said)
			}
			r.want(`wc -c <c; git diff --name-only`, c.want)
		})
	}
}
