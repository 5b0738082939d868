// Package soak_test lets real programs work on a mount for a long time, with
// captures every second and forks of them restored and ended, and looks what
// has become of the daemon: memory and file descriptors level, the store
// sound, unmounted in a moment.
//
//	LENGTH=1h go test ./tests/soak -timeout 0 -v     (make soak)
//
// Without LENGTH it runs for some seconds. A kind of work whose program is not
// there (npm, stress-ng) is left out and named. FSX names a binary of the
// file system exerciser fsx, to run beside.
package soak_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// A job is work that is done again and again in a directory of its own, by a
// shell script; $1 is the number of the round, $2 the root of this repository.
type job struct {
	name   string
	needs  []string
	script string
}

var jobs = []job{
	{"git", []string{"git"}, `
		export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
		if [ ! -d repo ]; then mkdir repo; cd repo; git init -q; cp -r "$2/snapshot" "$2/cas" .; git add -A; git commit -qm begin; cd ..; fi
		cd repo
		git checkout -q -B "b$(($1 % 7))"
		for i in 1 2 3 4 5; do echo "$1 $i" >> "file$(($1 % 11))_$i"; done
		git add -A; git commit -qm "round $1"
		git status --porcelain | grep . && exit 1
		[ $(($1 % 10)) = 0 ] && git gc -q --prune=now
		[ $(($1 % 5)) = 0 ] && { rm -rf ../clone; git clone -q . ../clone; }
		git fsck --no-dangling --no-progress`},
	{"go", []string{"go"}, `
		[ -d src ] || { mkdir src; cp -r "$2/go.mod" "$2/go.sum" "$2/internal" "$2/cas" "$2/snapshot" src/; }
		cd src; echo "// $1" >> internal/vfs/doc.go
		GOCACHE=$PWD/../cache GOFLAGS=-mod=mod go build ./internal/vfs ./snapshot/internal/...
		[ $(($1 % 10)) = 0 ] && rm -rf ../cache; true`},
	{"sqlite", []string{"sqlite3"}, `
		sqlite3 db "create table if not exists t(a integer primary key, b blob);
			begin; with recursive n(i) as (select 1 union all select i+1 from n where i<200)
			insert into t(b) select randomblob(500) from n; commit;
			delete from t where a % 3 = $1 % 3 and a < (select max(a) from t) - 2000;"
		[ $(($1 % 5)) = 0 ] && sqlite3 db 'vacuum'
		[ "$(sqlite3 db 'pragma integrity_check')" = ok ]`},
	{"npm", []string{"npm"}, `
		mkdir -p dep app; echo '{"name":"dep","version":"1.0.0"}' > dep/package.json; echo "module.exports=$1" > dep/index.js
		[ -f app/package.json ] || echo '{"name":"app","version":"1.0.0"}' > app/package.json
		cd app; rm -rf node_modules; npm install --offline --no-audit --no-fund --cache ../cache --install-links ../dep >/dev/null
		[ "$(node -p 'require("dep")')" = "$1" ]`},
	{"tree", []string{"tar"}, `
		rm -rf copy; cp -r "$2/snapshot" copy; tar cf a.tar copy; rm -rf copy2; mkdir copy2; tar xf a.tar -C copy2
		diff -r copy copy2/copy; find . -type f -exec cat {} + | cksum >/dev/null`},
	{"stress-ng", []string{"stress-ng"}, `
		set -- access chattr chmod chown copy-file dentry dir dirdeep fallocate fcntl filename flock fpunch fstat getdent hdd io iomix lease link locka lockf lockofd mknod open rename seek symlink sync-file touch utime verity xattr aio mmap msync readahead revio sendfile splice
		shift $((RANDOM % $#))
		stress-ng --temp-path . --"$1" 2 --timeout 3 --verify -q`},
}

// run does one round. Its output is returned with an error only.
func (j job) run(ctx context.Context, dir string, round int, root string) error {
	cmd := exec.CommandContext(ctx, "bash", "-euc", j.script, j.name, strconv.Itoa(round), root)
	cmd.Dir = dir
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("round %d: %w\n%s", round, err, out.Bytes()[:min(out.Len(), 4000)])
	}
	return nil
}

func (j job) possible() bool {
	for _, name := range j.needs {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

func TestSoak(t *testing.T) {
	length := 4 * time.Second
	long := false
	if s := os.Getenv("LENGTH"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("LENGTH: %v", err)
		}
		length, long = d, true
	}
	root, err := filepath.Abs("../..")
	must.OK(t, err)
	all := jobs
	if fsx := os.Getenv("FSX"); fsx != "" {
		all = append(all, job{"fsx", []string{fsx}, fsx + ` -q -N 20000 -l 500000 -S "$1" file >/dev/null`})
	}
	m := harness.New(t)
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	var wg sync.WaitGroup
	rounds := make([]atomic.Int64, len(all))
	for i, j := range all {
		if !j.possible() {
			t.Logf("%s: not here", j.name)
			continue
		}
		dir := m.Path(j.name)
		must.OK(t, os.Mkdir(dir, 0o755))
		wg.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				if err := j.run(ctx, dir, n, root); err != nil {
					t.Errorf("%s: %v", j.name, err)
					return
				}
				rounds[i].Store(int64(n))
			}
		})
	}
	wg.Go(func() { history(ctx, t, m) })
	first := watch(ctx, t, m, length)
	wg.Wait()
	for i, j := range all {
		t.Logf("%s: %d rounds", j.name, rounds[i].Load())
	}
	// What is held for work under way goes when there is none.
	harness.Eventually(t, fmt.Sprintf("it holds as much as after half of the time, %v", first), func() bool {
		last := look(t, m.Pid())
		return last.fds <= first.fds+20 && (!long || last.anon <= max(first.anon+first.anon/4, first.anon+32<<10))
	})
	m.Stop()
	if out, err := harness.RunAmberfs("verify", m.Store); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// history captures every second, keeps sixty, and now and then makes a fork of
// one, changes it, restores it to where it began, compares and ends it.
func history(ctx context.Context, t *testing.T, m *harness.Mount) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		name := fmt.Sprintf("s%d", n)
		if err := os.Mkdir(m.Path(".snapshots", name), 0o755); err != nil {
			t.Errorf("capture %s: %v", name, err)
			return
		}
		if n > 60 {
			if err := unix.Rmdir(m.Path(".snapshots", fmt.Sprintf("s%d", n-60))); err != nil {
				t.Errorf("delete: %v", err)
			}
		}
		if n%5 == 0 {
			if err := forked(m, name); err != nil {
				t.Errorf("fork of %s: %v", name, err)
				return
			}
		}
		if n%45 == 0 {
			if out, err := m.TryAmberfs("gc"); err != nil {
				t.Errorf("gc: %v\n%s", err, out)
			}
		}
	}
}

func forked(m *harness.Mount, snapshot string) error {
	fork := m.Path(".forks", "f")
	if err := os.WriteFile(m.Path(".snapshots", "fork"), []byte(snapshot+" f\n"), 0o644); err != nil {
		return err
	}
	for _, change := range []string{"git/repo", "sqlite"} {
		err := os.RemoveAll(filepath.Join(fork, change))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(fork, "new"), []byte("new"), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(fork, ".snapshots", "restore"), []byte("base\n"), 0o644); err != nil {
		return err
	}
	for _, dir := range []string{"sqlite", "tree"} {
		out, err := exec.Command("diff", "-r", m.Path(".snapshots", snapshot, dir), filepath.Join(fork, dir)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("restored, %s differs: %s", dir, out[:min(len(out), 1000)])
		}
	}
	if err := unix.Rmdir(fork); err != nil {
		return err
	}
	return unix.Rmdir(m.Path(".snapshots", "f"))
}

// A load is what the daemon takes.
type load struct {
	anon int64 // KiB
	fds  int
}

func (l load) String() string { return fmt.Sprintf("%d MiB and %d descriptors", l.anon>>10, l.fds) }

func look(t *testing.T, pid int) load {
	t.Helper()
	var l load
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.OK(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			l.anon, _ = strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must.OK(t, err)
	l.fds = len(fds)
	return l
}

// watch returns what the daemon takes at most in the first half, and waits for
// the end.
func watch(ctx context.Context, t *testing.T, m *harness.Mount, length time.Duration) load {
	t.Helper()
	var most load
	half := time.Now().Add(length / 2)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		if l := look(t, m.Pid()); time.Now().Before(half) {
			most.anon, most.fds = max(most.anon, l.anon), max(most.fds, l.fds)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return most
}
