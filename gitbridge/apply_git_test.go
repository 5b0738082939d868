package gitbridge

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// A rig is a directory, and a run of it: a copy with the git directory that a run gets.
type rig struct {
	t        *testing.T
	m        *trees.Memory
	top      string // of all
	dir, run string
	base     *tree.State
	written  *tree.State       // the state of the run that an apply wrote after base, or nil
	inos     map[string]uint64 // of the base, by path
	copies   map[string]uint64 // inodes of the run's directories when it began
	mounts   bool              // programs of the run see it at the path of the directory
}

// newRig makes a directory by a script, in dir below a new directory, and a run of it.
func newRig(t *testing.T, dir, script string) *rig {
	t.Helper()
	top := got(filepath.EvalSymlinks(t.TempDir()))
	r := &rig{t: t, m: trees.NewMemory(), top: top, dir: filepath.Join(top, dir), run: filepath.Join(top, "run")}
	must.OK(t, os.MkdirAll(r.dir, 0o755))
	r.shell(top, "cd "+dir+"\n"+script)
	r.begin()
	return r
}

// begin begins the run.
func (r *rig) begin() {
	r.t.Helper()
	entries := r.read(r.dir)
	r.inos, r.copies = make(map[string]uint64), make(map[string]uint64)
	r.base = r.state(entries, func(string) uint64 { return 0 })
	must.OK(r.t, os.RemoveAll(r.run))
	must.OK(r.t, os.Mkdir(r.run, 0o755))
	for _, e := range entries {
		at := filepath.Join(r.run, e.Path)
		switch e.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			must.OK(r.t, os.MkdirAll(at, 0o700))
			must.OK(r.t, os.Chmod(at, fs.FileMode(e.Mode&0o777)))
		case unix.S_IFLNK:
			must.OK(r.t, os.Symlink(e.Target, at))
		case unix.S_IFREG:
			b, err := io.ReadAll(e.Data)
			must.OK(r.t, err)
			got(e.Data.(io.Seeker).Seek(0, io.SeekStart))
			must.OK(r.t, os.WriteFile(at, b, fs.FileMode(e.Mode&0o777)))
			must.OK(r.t, os.Chtimes(at, time.Time{}, time.Unix(0, e.Mtime)))
		}
	}
	r.eachInRun(func(rel string, st *unix.Stat_t) { r.copies[rel] = st.Ino })
}

func (r *rig) eachInRun(fn func(rel string, st *unix.Stat_t)) {
	must.OK(r.t, filepath.WalkDir(r.run, func(p string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(p, &st) == nil {
			fn(got(filepath.Rel(r.run, p)), &st)
		}
		return err
	}))
}

// read reads a directory as a run does, without the paths in kept.
func (r *rig) read(dir string, kept ...string) (out []stream.Entry) {
	must.OK(r.t, hostdir.Read(context.Background(), dir, func(e stream.Entry) error {
		if e.Mode&unix.S_IFMT == unix.S_IFREG {
			b, err := io.ReadAll(e.Data)
			if err != nil {
				return err
			}
			e.Data, e.Sparse = strings.NewReader(string(b)), false
			e.Size = int64(len(b))
		}
		out = append(out, e)
		return nil
	}, hostdir.ReadOptions{Kept: kept, Git: HostGit{}, ReadDenied: true, Options: stream.Options{Skip: func(string, error) {}}}))
	if b, err := os.ReadFile(filepath.Join(dir, "inner/.git")); dir == r.run && err == nil { // its paths are those of the directory
		var st unix.Stat_t
		must.OK(r.t, unix.Lstat(filepath.Join(dir, "inner/.git"), &st))
		out = append(out, stream.Entry{Path: "inner/.git", Meta: stream.Meta{Mode: st.Mode, UID: st.Uid, GID: st.Gid, Mtime: st.Mtim.Nano()}, Size: int64(len(b)), Data: strings.NewReader(string(b))})
	}
	return out
}

// got returns v. It panics if err is not nil.
func got[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (r *rig) state(entries []stream.Entry, ino func(rel string) uint64) *tree.State {
	st := tree.New(r.m.Epoch, &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR | 0o755, Nlink: 2, Mtime: trees.SomeTime})
	at := map[string]uint64{".": tree.RootIno}
	for _, e := range entries {
		if e.Path == "." {
			continue
		}
		n := ino(e.Path)
		if n == 0 {
			r.m.Ino++
			n = r.m.Ino
		}
		if at[e.Path] = n; r.base == nil {
			r.inos[e.Path] = n
		}
		parent := at[path.Dir(e.Path)]
		in := &tree.Inode{Ino: n, Mode: e.Mode, UID: e.UID, GID: e.GID, Nlink: 1, Links: []tree.Link{{Parent: parent, Name: path.Base(e.Path)}}, Mtime: e.Mtime, Target: e.Target}
		if in.IsRegular() {
			in.Content = r.m.Content(r.t, string(got(io.ReadAll(e.Data))))
			got(e.Data.(io.Seeker).Seek(0, io.SeekStart))
		}
		must.OK(r.t, st.Put(r.m.Src, r.m.Epoch, in))
		r.m.Enter(r.t, st, parent, path.Base(e.Path), in)
	}
	return r.m.Seal(r.t, st)
}

// now returns the state of the run.
func (r *rig) now() *tree.State {
	present := make(map[string]uint64)
	r.eachInRun(func(rel string, st *unix.Stat_t) { present[rel] = st.Ino })
	return r.state(r.read(r.run), func(rel string) uint64 {
		if present[rel] == r.copies[rel] || rel != ".git" && !strings.HasSuffix(rel, "/.git") {
			return r.inos[rel]
		}
		return 0
	})
}

func (r *rig) apply(o hostdir.ApplyOptions) (*hostdir.ApplyResult, error) {
	o.Source, o.Base, o.Now, o.WorkspaceName, o.MergeLines = r.m.Src, r.base, r.now(), "r", MergeConfigs(trees.MergeByGit)
	if o.Git == nil {
		o.Git = HostGit{}
	}
	res, err := hostdir.Apply(context.Background(), r.dir, o)
	if err == nil && !o.DryRun {
		r.written = o.Now
	}
	return res, err
}

// applied calls apply, and fails the test if apply fails. It returns the description of the changes in git's words.
func (r *rig) applied() string {
	r.t.Helper()
	res, err := r.apply(hostdir.ApplyOptions{})
	if err != nil {
		if res != nil {
			r.t.Logf("conflicts: %q", res.Conflicts)
		}
		r.t.Fatal(err)
	}
	var text []string
	for _, g := range res.Git {
		text = append(text, g.Lines...)
	}
	return wasAt.ReplaceAllString(strings.Join(text, "; "), "")
}

func (r *rig) shell(dir, script string) string {
	r.t.Helper()
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+r.top, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a")
	must.OK(r.t, os.WriteFile(filepath.Join(r.top, ".gitconfig"), []byte("[init]\n\tdefaultBranch = main\n\ttemplateDir =\n[protocol \"file\"]\n\tallow = always\n[core]\n\teditor = true\n\tfsync = none\n[maintenance]\n\tauto = false\n"), 0o600))
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// want compares the output of a script in the directory with the wanted output.
func (r *rig) want(script, want string) {
	r.t.Helper()
	if got := r.shell(r.dir, script); got != want {
		r.t.Errorf("%s:\n%s\nwant:\n%s", script, got, want)
	}
}

const mk = `git init -q .; echo a >a; echo b >b; echo c >c; git add .; git commit -qm 1
`

// TestApplyGit has the commands of a run and of a person in a repository, and the state of the repository after an
// apply.
func TestApplyGit(t *testing.T) {
	isolate(t)
	for name, c := range map[string]gitCase{
		"commit": {
			make: mk, run: `echo x >x; git add x; git commit -qm run`,
			check: `git log --format=%s; git status -s`, want: "run\n1", said: "1 commit on main",
		},
		"packed refs": {
			make: mk + `git gc -q`, run: `echo x >x; git add x; git commit -qm run`, meanwhile: `echo y >y; git add y; git commit -qm mine; git gc -q`,
			check: `git log --format=%s main; git log --format=%s amberfs/r/main; git status -s`, want: "mine\n1\nrun\n1",
			said: "1 commit on amberfs/r/main; main moved on both sides: it stays, and amberfs/r/main has the other commits (`git merge amberfs/r/main`)",
		},
		"removed in a linked working tree": {
			dir: "wt", make: `cd ..; mkdir m; cd m; ` + mk + `git branch other; rmdir ../wt; git worktree add -q ../wt -b feat`, run: `rm -rf .git`,
			check: `git -C ../m for-each-ref --format='%(refname)'; git status -s`, want: "refs/heads/feat\nrefs/heads/main\nrefs/heads/other",
			said: "the git directory is gone in the workspace: this one stays as it is",
		},
		"made anew in a linked working tree": {
			dir: "wt", make: `cd ..; mkdir m; cd m; ` + mk + `rmdir ../wt; git worktree add -q ../wt -b feat`, run: `rm -rf .git; git init -q; git add .; git commit -qm anew`,
			check: `git -C ../m for-each-ref --format='%(refname) %(subject)'; git status -s`,
			want:  "refs/heads/amberfs/r/main anew\nrefs/heads/feat 1\nrefs/heads/main 1",
		},
		"removed": {
			make: mk, run: `rm -rf .git`, check: `git log --format=%s; git status -s`, want: "1",
		},
		"commit in a linked working tree": {
			dir: "wt", make: `cd ..; mkdir m; cd m; ` + mk + `rmdir ../wt; git worktree add -q ../wt -b feat`, run: `echo x >x; git add x; git commit -qm run; git config core.fsmonitor true; mkdir .git/hooks; echo >.git/hooks/post-commit`,
			check: `git log --format=%s; git status -s; git -C ../m status -s; git config core.fsmonitor || ls ../m/.git/hooks/post-commit 2>&1 | grep -o "No such"`, want: "run\n1\nNo such", said: "1 commit on feat",
		},
		"the index of a fetch": {
			make: `cd ..; mkdir up; cd up; ` + mk + `cd ..; rmdir dir; git clone -q up dir; cd up; echo n >n; git add n; git commit -qm new`,
			run:  `git fetch -q; git status -s; echo w >w`, meanwhile: `echo b2 >>b; git commit -qam outside; git status -s`,
			check: `git status -s; git log --format=%s -1; git log --format=%s -1 origin/main`, want: "?? w\noutside\nnew", said: "origin/main moved",
		},
		// The change has the time and the size of the file that is in the index.
		"changed in the second of the index": {
			make: mk + `git config core.trustctime false; echo 1 >c; touch -d 2020-01-01 c; git add c; git commit -qm c; touch -d 2020-01-01 .git/index`,
			run:  `echo x >x; git add x; git commit -qm run`, meanwhile: `echo 2 >c; touch -d 2020-01-01 c .git/index`,
			check: `git log --format=%s -1; git status -s; git diff --numstat`, want: "run\n M c\n1\t1\tc",
		},
		"another branch outside": {
			make: mk + `git branch other`, run: `echo a2 >>a; git commit -qam run`, meanwhile: `git checkout -q other`,
			check: `git status -s; git log --format=%s main -1; git branch --show-current`, want: "run\nother",
		},
		"gc in the run": {
			make: mk + `git gc -q; echo p >p; git add p; git commit -qm wip; git reset -q --hard HEAD~1
git reflog expire --expire=now --expire-unreachable=now --all; rm -f .git/ORIG_HEAD; git gc -q; find .git/objects -type f -exec touch -d '40 days ago' {} +`,
			run: `git gc -q --prune=now`, meanwhile: `echo p >p; git add p; git commit -qm again`,
			check: `git fsck --strict >fsck || cat fsck; rm fsck; git log --format=%s`, want: "again\n1",
		},
		"a bare repository beside": {
			dir: "wt1", make: `cd ..; mkdir src; cd src; ` + mk + `cd ..; rmdir wt1; git clone -q --bare src p.git; git -C p.git worktree add -q ../wt1 -b f1`,
			run: `echo n >n; git add n; git commit -qm n`, check: `git log --format=%s; git status -s`, want: "n\n1", said: "1 commit on f1",
		},
		"separate": {
			make: `cd ..; rmdir dir; git init -q --separate-git-dir=far.git dir; cd dir; ` + mk[len("git init -q .; "):], run: `echo n >n; git add n; git commit -qm n; git gc -q`,
			check: `git log --format=%s; git status -s`, want: "n\n1",
		},
		"sparse checkouts of two working trees": {
			dir: "wt", make: `cd ..; mkdir m; cd m; git init -q .; mkdir a b c; echo a >a/a; echo b >b/b; echo c >c/c; git add .; git commit -qm 1; rmdir ../wt; git worktree add -q ../wt -b feat
git sparse-checkout set b; git -C ../wt sparse-checkout set a`,
			run:   `git sparse-checkout list >list; git status -s; git sparse-checkout set c`,
			check: `cat list; git sparse-checkout list; git -C ../m sparse-checkout list; git status -s; ls`, want: "a\nc\nb\n?? list\nc\nlist",
		},
		"bisect in a linked working tree": {
			dir: "wt", make: `cd ..; mkdir m; cd m; ` + mk + `for i in 2 3 4 5; do echo $i >a; git commit -qam $i; done; rmdir ../wt; git worktree add -q ../wt -b feat
cd ../wt; git bisect start; git bisect bad; git bisect good HEAD~4`,
			run:   `git bisect good | grep Bisecting`,
			check: `git bisect log | grep -c '^git bisect'; git -C ../m for-each-ref refs/bisect; git log -1 --format=%s; git status -s`, want: "4\n4",
		},
		"a branch that another working tree has": {
			dir: "wt", make: `cd ..; mkdir m; cd m; ` + mk + `rmdir ../wt; git worktree add -q ../wt -b feat`,
			run:   `git checkout -q main; echo q >q; git add q; git commit -qm q`,
			check: `git branch --show-current; git status -s; git -C ../m status -s; git -C ../m log --format=%s`, want: "amberfs/r/main\n1",
		},
		"gc and new refs on both sides": {
			make: mk, run: `echo q >q; git add q; git commit -qm run; git gc -q`, meanwhile: `git branch other; git tag keep; git gc -q`,
			check: `git for-each-ref --format='%(refname) %(subject)'; git status -s`, want: "refs/heads/main run\nrefs/heads/other 1\nrefs/tags/keep 1",
		},
		"only gc in the run": {
			make: mk, run: `git gc -q`, meanwhile: `echo y >y; git add y; git commit -qm mine`, check: `git log --format=%s; git status -s; git fsck`, want: "mine\n1",
		},
		"pull on both sides": {
			make:      `cd ..; mkdir up; cd up; ` + mk + `cd ..; rmdir dir; git clone -q up dir; cd up; echo n >n; git add n; git commit -qm new`,
			run:       `git pull -q; echo q >q; git add q; git commit -qm run`,
			meanwhile: `git pull -q`, check: `git log --format=%s; git status -s`, want: "run\nnew\n1", said: "1 commit on main",
		},
		"reset in the run": {
			make: mk + `echo 2 >a; git commit -qam 2`, run: `git reset -q --hard HEAD~1`, check: `git log --format=%s; git status -s; cat a`, want: "1\na",
			said: "takes 1 commit off main: 2",
		},
		"staged on both sides": {
			make: mk, run: `echo x >x; git add x; echo a2 >a; git add a`, meanwhile: `echo y >y; git add y; echo b2 >b`,
			check: `git status -s`, want: "M  a\n M b\nA  x\nA  y",
		},
		"staged outside, and a commit in the run": {
			make: mk, run: `echo x >x; git add x; echo a2 >a; git commit -qam run`, meanwhile: `echo y >y; git add y`,
			check: `git status -s; git commit -qm next; git show --stat --format=%s | sed 's/ *|.*//;/changed/d;/^$/d'`, want: "A  y\nnext\n y",
		},
		"stash": {
			make: mk, run: `echo s >a; git stash -q; echo t >b; git stash -q`, check: `git stash list | wc -l; git stash show -p stash@{1} | grep '^+s'; git status -s`, want: "2\n+s",
		},
		"merge in progress": {
			make: mk + `git checkout -q -b side; echo side >a; git commit -qam side; git checkout -q main; echo main >a; git commit -qam main`,
			run:  `git merge -q side || true`, check: `git status -s; test -f .git/MERGE_HEAD; git commit -qam merged; git log --format=%s -1`, want: "UU a\nmerged",
		},
		"rename of a branch": {
			make: mk, run: `git branch -m work; git tag v1`, check: `git for-each-ref --format='%(refname)'; git branch --show-current; git status -s`, want: "refs/heads/work\nrefs/tags/v1\nwork",
		},
		"submodule": {
			make: `cd ..; mkdir up; cd up; ` + mk + `cd ../dir; git init -q; git submodule --quiet add ../up sub; git commit -qm sub`,
			run:  `cd sub; echo n >n; git add n; git commit -qm insub; cd ..; git commit -qam bump`, check: `git log --format=%s; git -C sub log --format=%s; git status -s; git -C sub status -s`, want: "bump\nsub\ninsub\n1",
		},
		"sha256": {
			make: strings.Replace(mk, "init -q", "init -q --object-format=sha256", 1), run: `echo x >x; git add x; git commit -qm run`, meanwhile: `echo y >y; git add y`,
			check: `git log --format=%s; git status -s`, want: "run\n1\nA  y",
		},
		"split index": {
			make: mk + `git config core.splitIndex true; git update-index --split-index`, run: `echo x >x; git add x; git commit -qm run`, meanwhile: `echo y >y; git add y`,
			check: `git log --format=%s; git status -s`, want: "run\n1\nA  y",
		},
		"clone in the run": {
			make: `echo f >f`, run: mk, check: `git log --format=%s; git status -s`, want: "1",
		},
		"git add -N": {
			make: mk, run: `echo x >x; git add -N x; echo a2 >a; git commit -qm run a`, meanwhile: `echo y >y; git add y; git commit -qm mine`,
			check: `git diff --cached --name-only; git log --format=%s -1`, want: "mine",
		},
		"a branch is checked out there, and HEAD's moved here": {
			make: mk, run: `git checkout -q -b other; echo x >x; git add x; git commit -qm run`, meanwhile: `echo y >y; git add y; git commit -qm mine`,
			check: `git branch --show-current; git status -s; git log --format=%s -1; git log --format=%s -1 other`, want: "main\nmine\nrun",
		},
		"a reset here, and a commit there": {
			make: mk + `echo 2 >>a; git commit -qam 2`, run: `echo x >x; git add x; git commit -qm run`, meanwhile: `git reset -q --hard HEAD~1`,
			check: `git log --format=%s -1; git status -s; git log --format=%s -1 amberfs/r/main`, want: "1\nrun",
		},
		"a branch is removed there, and checked out here": {
			make: mk + `git branch other`, run: `git branch -D other`, meanwhile: `git checkout -q other`,
			check: `git log --format=%s -1; git status -s`, want: "1",
		},
		"a branch is checked out there, and renamed here": {
			make: mk + `git branch other`, run: `git checkout -q other`, meanwhile: `git branch -m other another`,
			check: `git branch --show-current; git status -s`, want: "main",
		},
		"a change is dropped there, and committed here": {
			make: mk + `echo dirty >>a`, run: `git checkout -q a; git branch new`, meanwhile: `git commit -qam mine`,
			check: `git status -s; cat a`, want: "a\ndirty",
		},
		"a merge in progress there, and staged here": {
			make: mk + `git checkout -q -b side; echo side >a; git commit -qam side; git checkout -q main; echo main >a; git commit -qam main`,
			run:  `git merge -q side || true`, meanwhile: `echo y >y; git add y`,
			check: `git status -s; test ! -e .git/MERGE_HEAD`, want: "M a\nA  y",
		},
		"a linked working tree in it": {
			make: mk + `echo inner >.gitignore; git add .; git commit -qm 2; git worktree add -q inner -b inner; git -C inner status -s`,
			run:  `git --git-dir=.git/worktrees/inner --work-tree=inner commit -q --allow-empty -m run`, meanwhile: `git -C inner status -s; touch inner/a; git -C inner status -s`,
			check: `git -C inner log --format=%s -1; git -C inner status -s; git status -s`, want: "run",
		},
		"changed in the second of the index of a linked working tree": {
			make: mk + `git config core.checkStat minimal; git config core.trustctime false; echo inner >.gitignore; git add .; git commit -qm 2; git worktree add -q inner -b inner
cd inner; echo 1 >c; touch -d 2020-01-01 c; git add c; git commit -qm c`,
			run:   `git --git-dir=.git/worktrees/inner --work-tree=inner commit -q --allow-empty -m run; echo 2 >inner/c; touch -d 2020-01-01 inner/c .git/worktrees/inner/index`,
			check: `git -C inner log --format=%s -1; git -C inner status -s; git fsck --strict; git status -s`, want: "run\n M c",
		},
		"a sparse checkout here, and another one there": {
			make: `git init -q .; mkdir d e; echo 1 >d/f; echo 2 >e/f; git add .; git commit -qm 1; git sparse-checkout set d`, run: `git sparse-checkout set e`, meanwhile: `git sparse-checkout disable`,
			check: `git status -s; ls`, want: "d\ne",
		},
		"shallow, and more of it there": {
			make: `cd ..; git init -q up; cd up; for i in 1 2 3; do echo $i >f; git add f; git commit -qm $i; done; cd ..; rmdir dir; git clone -q --depth 1 file://$PWD/up dir; cd dir`,
			run:  `git fetch -q --deepen=1; echo x >f; git stash -q`, check: `git stash list | wc -l; git log --format=%s; git status -s`, want: "1\n3",
		},
		"the first commit made anew": {
			make: mk, run: `echo x >a; git commit -q --amend -am again; echo n >n; git add n; git commit -qm run`,
			check: `git log --format=%s; git status -s; cat a`, want: "run\nagain\nx",
		},
		"staged in both, and committed there": {
			make: mk + `echo s >s; git add s`, run: `git commit -qm run`, meanwhile: `echo x >a; git commit -qm mine a`,
			check: `git log --format=%s; git status -s`, want: "mine\n1\nA  s",
		},
		"committed there, taken back here": {
			make: mk + `echo x >a; rm c; mkdir d; echo e >d/e`, run: `git add -A; git commit -qm run`, meanwhile: `git checkout -q .; rm -r d`,
			check: `git status -s; cat a d/e; ls`, want: "x\ne\na\nb\nd",
		},
		"changed and committed there, taken back here": {
			make: mk + `echo x >a`, run: `echo y >a; git commit -qam run`, meanwhile: `git checkout -q .`,
			check: `git status -s; cat a`, want: "y",
		},
		"unborn": {
			make: `git init -q`, run: `echo x >x; git add x; git commit -qm run`, check: `git log --format=%s; git status -s`, want: "run",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.rig(t)
			said := r.applied()
			if c.said != "" && said != c.said {
				t.Errorf("it said: %s\nwant: %s", said, c.said)
			}
			r.want(c.check, c.want)
			r.shell(r.dir, "git fsck --strict")
			before := r.shell(r.dir, "git for-each-ref; git status -s")
			if again := r.applied(); r.shell(r.dir, "git for-each-ref; git status -s") != before {
				t.Errorf("a second apply changed something: %s", again)
			}
		})
	}
}

// TestApplyGitLocked: while git has locked the repository, an apply does not change the directory.
func TestApplyGitLocked(t *testing.T) {
	isolate(t)
	r := newRig(t, "dir", mk)
	r.shell(r.run, `echo x >x; git add x; git commit -qm run`)
	r.shell(r.dir, `touch .git/index.lock`)
	if _, err := r.apply(hostdir.ApplyOptions{}); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Error("it was applied: ", err)
	}
	r.shell(r.dir, `rm .git/index.lock`)
	r.want(`git log --format=%s`, "1")
	r.applied()
	r.want(`git log --format=%s; git status -s`, "run\n1")
}
