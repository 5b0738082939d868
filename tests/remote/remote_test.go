// Package remote_test mounts workspaces on both sides of real remotes: an S3
// service, a registry and a directory, with a proxy between that disturbs.
package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

func write(t testing.TB, name, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.OK(t, os.WriteFile(name, []byte(text), 0o644))
}

// fill makes files of every sort.
func fill(t testing.TB, dir string) {
	t.Helper()
	for i := range 300 {
		write(t, filepath.Join(dir, fmt.Sprintf("d%d/f%d", i%17, i)), fmt.Sprint("content ", i))
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "large"), remotetest.Bytes(1, 3<<20), 0o600))
	must.OK(t, os.Symlink("large", filepath.Join(dir, "link")))
	must.OK(t, os.Link(filepath.Join(dir, "large"), filepath.Join(dir, "hard")))
	must.OK(t, unix.Setxattr(filepath.Join(dir, "large"), "user.note", []byte("kept"), 0))
	must.OK(t, os.WriteFile(filepath.Join(dir, "sparse"), nil, 0o644))
	must.OK(t, os.Truncate(filepath.Join(dir, "sparse"), 10<<20))
}

// ownCache gives the daemons that are started next a cache of their own, as those of
// another machine have.
func ownCache(t testing.TB) { t.Setenv("XDG_CACHE_HOME", t.TempDir()) }

func everywhere(t *testing.T, fn func(t *testing.T, url string)) {
	t.Run("directory", func(t *testing.T) { fn(t, "file://"+t.TempDir()) })
	t.Run("s3", func(t *testing.T) { fn(t, remotetest.S3Prefix(s3(t), "team/x")) })
	t.Run("registry", func(t *testing.T) {
		if !remotetest.Required() {
			t.Skip("make test-remote runs it")
		}
		fn(t, "oci://"+remotetest.Registry(t)+"/team/x")
	})
}

func s3(t *testing.T) (endpoint string) {
	if !remotetest.Required() {
		t.Skip("make test-remote runs it")
	}
	return remotetest.S3(t)
}

// What is pushed here is the same there, goes on there, and comes back.
func TestThereAndBack(t *testing.T) {
	everywhere(t, func(t *testing.T, url string) {
		ownCache(t)
		a := harness.New(t)
		fill(t, a.Dir)
		a.Amberfs("snapshot", "v1")
		a.Amberfs("remote", "add", "origin", url)
		a.Amberfs("push", "origin", "v1")
		want := harness.ReadTree(t, a.Dir)

		ownCache(t)
		b := harness.New(t, "--from", url+"@v1")
		harness.CheckSameTree(t, "mounted elsewhere", want, harness.ReadTree(t, b.Dir))
		write(t, b.Path("d3/f3"), "changed there")
		must.OK(t, os.RemoveAll(b.Path("d5")))
		b.Amberfs("snapshot", "v2")
		b.Amberfs("push", url, "v2")
		b.Amberfs("gc")
		changed := harness.ReadTree(t, b.Dir)
		b.Kill()
		b.Start()
		harness.CheckSameTree(t, "after a kill", changed, harness.ReadTree(t, b.Dir))

		a.Amberfs("pull", "origin", "v2")
		harness.CheckSameTree(t, "pulled", changed, harness.ReadTree(t, a.Path(".snapshots", "v2")))
		a.Amberfs("restore", "v2")
		harness.CheckSameTree(t, "restored", changed, harness.ReadTree(t, a.Dir))
		a.Amberfs("remote", "verify", "origin", "--deep")
		a.Amberfs("verify")
		b.Amberfs("verify")
	})
}

// kill -9 at any moment of a push: never a snapshot on the remote that lacks
// something, and the next try goes on.
func TestKilledPush(t *testing.T) {
	p := remotetest.NewProxy(t, s3(t))
	p.SetDelay(10 * time.Millisecond)
	ownCache(t)
	m := harness.New(t)
	url := remotetest.S3Prefix(p.URL, "killed")
	m.Amberfs("remote", "add", "origin", url)
	for round := range harness.Count(t, "ROUNDS", 4, 200) {
		name := fmt.Sprint("v", round)
		must.OK(t, os.WriteFile(m.Path(fmt.Sprint("f", round)), remotetest.Bytes(uint64(round+1), 5<<20+rand.IntN(35<<20)), 0o644))
		m.Amberfs("snapshot", name)
		done := make(chan string, 1)
		go func() {
			out, _ := m.TryAmberfs("push", "origin", name)
			done <- out
		}()
		time.Sleep(rand.N(600 * time.Millisecond))
		m.Kill()
		out := <-done
		m.Start()
		m.Amberfs("remote", "verify", "origin", "--deep")
		t.Logf("round %d: %q", round, strings.TrimSpace(out))
		m.Amberfs("push", "origin", name)
		list := m.Amberfs("remote", "snapshots", "origin")
		if !strings.Contains(list, name+" ") {
			t.Fatalf("%s is not there:\n%s", name, list)
		}
		must.OK(t, os.Remove(m.Path(fmt.Sprint("f", round))))
		if round > 0 { // else each round would read what all before have sent
			m.Amberfs("remote", "rm", "origin", fmt.Sprint("v", round-1))
		}
	}
	m.Amberfs("remote", "verify", "origin", "--deep")
}

// lazily mounts a snapshot of some files behind a proxy, of which little was read.
func lazily(t *testing.T, args ...string) (*remotetest.Proxy, *harness.Mount, *harness.Mount) {
	p := remotetest.NewProxy(t, s3(t))
	url := remotetest.S3Prefix(p.URL, "lazy")
	ownCache(t)
	a := harness.New(t)
	for i := range 8 {
		must.OK(t, os.WriteFile(a.Path(fmt.Sprint("big", i)), remotetest.Bytes(uint64(i+1), 12<<20), 0o644))
	}
	a.Amberfs("snapshot", "v1")
	a.Amberfs("remote", "add", "origin", url)
	a.Amberfs("push", "origin", "v1")
	ownCache(t)
	return p, a, harness.New(t, append(args, "--from", url+"@v1")...)
}

// While the network is away, everything that is here works, what is not fails and
// can be killed; when it is back, so is everything.
func TestNetworkAway(t *testing.T) {
	p, a, b := lazily(t, "-o", "timeout=10s")
	read, err := os.ReadFile(b.Path("big0"))
	must.OK(t, err)
	p.SetAway(true)
	if again, err := os.ReadFile(b.Path("big0")); err != nil || string(again) != string(read) {
		t.Errorf("what was read: %v", err)
	}
	// Once it has been away for the ten seconds, a read fails at once.
	cat := exec.Command("cat", b.Path("big6"))
	must.OK(t, cat.Start())
	harness.Eventually(t, "cat has opened the file", func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cat.Process.Pid))
		return slices.ContainsFunc(fds, func(fd string) bool {
			to, _ := os.Readlink(fd)
			return to == b.Path("big6")
		})
	})
	must.OK(t, cat.Process.Kill())
	ended := make(chan error, 1)
	go func() { ended <- cat.Wait() }()
	await.Receive(t, "the end of a reader that was killed", ended)
	if _, err := os.ReadFile(b.Path("big5")); !errors.Is(err, syscall.EIO) {
		t.Errorf("what was not: %v", err)
	}
	write(t, b.Path("mine"), "written while it is away")
	b.Amberfs("snapshot", "mine")
	b.Stop()
	b.Start()
	if text, err := os.ReadFile(b.Path("mine")); err != nil || string(text) != "written while it is away" {
		t.Errorf("after mounting again: %q, %v", text, err)
	}
	harness.Eventually(t, "status tells", func() bool {
		_, _ = os.ReadFile(b.Path("big7"))
		return strings.Contains(b.Amberfs("status", "--json"), `"away"`)
	})
	p.SetAway(false)
	harness.Eventually(t, "it is back", func() bool {
		_, err := os.ReadFile(b.Path("big5"))
		return err == nil
	})
	must.OK(t, os.Remove(b.Path("mine")))
	harness.CheckSameTree(t, "all of it", harness.ReadTree(t, a.Dir), harness.ReadTree(t, b.Dir))
}

// With -o hard a read waits for the network, and for nothing else: it can be killed,
// no other process waits for it, and it goes on when the network is back.
func TestHard(t *testing.T) {
	t.Run("refused", func(t *testing.T) { hard(t, (*remotetest.Proxy).SetAway) })
	t.Run("silent", func(t *testing.T) { hard(t, (*remotetest.Proxy).SetSilent) })
}

func hard(t *testing.T, setAway func(*remotetest.Proxy, bool)) {
	p, a, b := lazily(t, "-o", "hard,prefetch=none")
	read, err := os.ReadFile(b.Path("big0"))
	must.OK(t, err)
	setAway(p, true)
	var readers []*exec.Cmd
	ended := make(chan error, 8)
	for i := range 8 {
		c := exec.Command("cat", b.Path(fmt.Sprint("big", 4+i%4)))
		must.OK(t, c.Start())
		readers = append(readers, c)
		go func() { ended <- c.Wait() }()
	}
	for n := range harness.Count(t, "AWAY_ROUNDS", 20, 500) {
		write(t, b.Path("mine"), fmt.Sprint("written ", n))
		b.Amberfs("snapshot", fmt.Sprint("mine", n), "--no-wait")
		// This comes to an end, though the network is away all the while.
		if again, err := os.ReadFile(b.Path("big0")); err != nil || string(again) != string(read) {
			t.Fatalf("what was read: %v", err)
		}
	}
	// Where nothing answers, that takes three questions of two seconds to know.
	harness.Eventually(t, "status tells", func() bool {
		return strings.Contains(b.Amberfs("status"), "has not answered for")
	})
	select {
	case err := <-ended:
		t.Fatalf("a reader did not wait: %v", err)
	default:
	}
	must.OK(t, readers[0].Process.Kill())
	await.Receive(t, "the end of a reader that was killed", ended)
	setAway(p, false)
	back := time.Now()
	for range readers[1:] {
		must.OK(t, await.Receive(t, "a reader that goes on", ended))
	}
	must.OK(t, os.Remove(b.Path("mine")))
	harness.CheckSameTree(t, "all of it", harness.ReadTree(t, a.Dir), harness.ReadTree(t, b.Dir))
	log, err := os.ReadFile(filepath.Join(b.Store, "amberfs.log"))
	must.OK(t, err)
	// Once for each time that it is away, whatever reads; a busy machine may take a slow
	// answer for another one.
	if n := strings.Count(string(log), "does not answer"); n < 1 || n > 2 {
		t.Errorf("the log tells %d times that it is away:\n%s", n, log)
	}
	harness.Eventually(t, "what it reads from is held", func() bool {
		return slices.ContainsFunc(p.Served(back), func(s remotetest.Served) bool { return strings.Contains(s.Path, "/hold/") })
	})
}

// An automatic backup is on the remote soon, also after a kill.
func TestBackup(t *testing.T) {
	p := remotetest.NewProxy(t, s3(t))
	url := remotetest.S3Prefix(p.URL, "backup")
	ownCache(t)
	a := harness.New(t)
	write(t, a.Path("f"), "one")
	a.Amberfs("remote", "add", "origin", url)
	must.OK(t, os.WriteFile(a.Path(".snapshots", "policy"), []byte(`{"push":{"remote":"origin","interval_seconds":1}}`), 0))
	there := func(n int) {
		t.Helper()
		harness.Eventually(t, fmt.Sprint(n, " snapshots are there"), func() bool {
			return strings.Count(a.Amberfs("remote", "snapshots", "origin"), "cp-") == n
		})
		// The remote has it before the daemon has noted that.
		harness.Eventually(t, "the daemon knows that it is there", func() bool {
			var s struct{ Push struct{ Snapshot string } }
			must.OK(t, json.Unmarshal([]byte(a.Amberfs("status", "--json")), &s))
			newest, _, _ := strings.Cut(a.Amberfs("list"), "\t")
			return s.Push.Snapshot == newest && !strings.Contains(a.Amberfs("status"), "the last attempt failed")
		})
	}
	there(1)
	must.OK(t, os.Mkdir(a.Path("two"), 0o755)) // one change: between two there may be a backup
	there(2)
	p.SetAway(true)
	must.OK(t, os.Mkdir(a.Path("three"), 0o755))
	harness.Eventually(t, "status tells that it fails", func() bool {
		return strings.Contains(a.Amberfs("status"), "the last attempt failed")
	})
	p.SetAway(false)
	there(3)
	a.Kill()
	a.Start()
	must.OK(t, os.Mkdir(a.Path("four"), 0o755))
	there(4)
}

// A remote that is away, with nothing of it in the cache, stands before nothing that
// another one has.
func TestOneOfTwoAway(t *testing.T) {
	p := remotetest.NewProxy(t, s3(t))
	far, near := remotetest.S3Prefix(p.URL, "two"), "file://"+t.TempDir()
	ownCache(t)
	a := harness.New(t, "-o", "timeout=10s")
	for name, url := range map[string]string{"far": far, "near": near} {
		b := harness.New(t)
		write(t, b.Path("d/"+name), "in "+name)
		b.Amberfs("snapshot", name)
		b.Amberfs("remote", "add", name, url)
		b.Amberfs("push", name, name)
		b.Stop()
		a.Amberfs("fork", url+"@"+name, name)
	}
	a.Stop()
	ownCache(t)
	p.SetAway(true)
	a.Start()
	if text, err := os.ReadFile(a.Path(".forks/near/d/near")); err != nil || string(text) != "in near" {
		t.Errorf("what is on the other remote: %q, %v", text, err)
	}
	write(t, a.Path("mine"), "written")
	if _, err := os.ReadFile(a.Path(".forks/far/d/far")); !errors.Is(err, syscall.EIO) {
		t.Errorf("what is on the one that is away: %v", err)
	}
	p.SetAway(false)
	harness.Eventually(t, "it is back", func() bool {
		text, err := os.ReadFile(a.Path(".forks/far/d/far"))
		return err == nil && string(text) == "in far"
	})
}
