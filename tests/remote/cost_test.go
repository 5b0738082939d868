package remote_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

// A mount of a large tree through a slow network costs a few requests, and so does a
// push of few changes.
func TestCost(t *testing.T) {
	files := harness.Count(t, "FILES", 3000, 100_000)
	p := remotetest.NewProxy(t, s3(t))
	url := remotetest.S3Prefix(p.URL, "cost")
	ownCache(t)
	a := harness.New(t)
	for i := range files {
		dir := a.Path(fmt.Sprintf("d%d/d%d", i/1000, i/10%100))
		if i%10 == 0 {
			must.OK(t, os.MkdirAll(dir, 0o755))
		}
		must.OK(t, os.WriteFile(fmt.Sprintf("%s/f%d", dir, i), remotetest.Bytes(uint64(i), 200+i%4000), 0o644))
	}
	a.Amberfs("snapshot", "v1")
	a.Amberfs("remote", "add", "origin", url)
	p.SetDelay(100 * time.Millisecond)
	measure := func(what string, most int64, fn func()) (chain int) {
		t.Helper()
		n, up, down, start := p.Requests.Load(), p.BytesUp.Load(), p.BytesDown.Load(), time.Now()
		fn()
		n = p.Requests.Load() - n
		served := p.Served(start)
		chain = remotetest.InSequence(served)
		t.Logf("%-24s %4d requests, %d in sequence, %9d bytes up, %9d down", what, n, chain, p.BytesUp.Load()-up, p.BytesDown.Load()-down)
		if os.Getenv("TRACE") != "" {
			for _, s := range served {
				t.Logf("    %4d-%4d ms %s %s %s %d", s.Began.Sub(start).Milliseconds(), s.Ended.Sub(start).Milliseconds(), s.Method, s.Path, s.Range, s.Down)
			}
		}
		if n > most {
			t.Errorf("%s took %d requests, more than %d", what, n, most)
		}
		return chain
	}
	// Requests that are sent at once may come one after the other where the daemon has
	// to wait for a processor. What can be done again need not do so each time.
	cost := func(what string, most int64, sequence, tries int, fn func()) {
		t.Helper()
		chain := 0
		for range tries {
			if chain = measure(what, most, fn); chain <= sequence {
				return
			}
		}
		t.Errorf("%s took %d requests one after the other, more than %d", what, chain, sequence)
	}
	cost("first push", 20+int64(files)/1000, 20+files/1000, 1, func() { a.Amberfs("push", "origin", "v1") })
	name := "v1"
	cost("push of ten files", 4, 3, 3, func() {
		for i := range 10 {
			write(t, a.Path(fmt.Sprintf("d0/d%d/f%d", i, i*10)), fmt.Sprint("changed ", i, " after ", name))
		}
		name += "1"
		a.Amberfs("snapshot", name)
		a.Amberfs("push", "origin", name)
	})
	cost("push of nothing", 1, 1, 1, func() { a.Amberfs("push", "origin", name) })
	var b *harness.Mount
	cost("mount and ls", 10, 3, 3, func() {
		ownCache(t)
		b = harness.New(t, "-o", "prefetch=none", "--from", url+"@"+name)
		_, err := os.ReadDir(b.Dir)
		must.OK(t, err)
	})
	cost("one file", 8, 8, 1, func() {
		_, err := os.ReadFile(b.Path("d0/d0/f0"))
		must.OK(t, err)
	})
	cost("find", 10+int64(files)/5000, 10+files/5000, 1, func() {
		out, err := exec.Command("find", b.Dir, "-type", "f", "-size", "-1").Output()
		must.OK(t, err)
		_ = out
	})
	cost("reading all", 20+int64(files)/1000, 20+files/1000, 1, func() {
		harness.CheckSameTree(t, "all of it", harness.ReadTree(t, a.Dir), harness.ReadTree(t, b.Dir))
	})
}

// Many claims on one machine cost the network what one costs, and little memory.
func TestClaims(t *testing.T) {
	p := remotetest.NewProxy(t, s3(t))
	url := remotetest.S3Prefix(p.URL, "claims")
	ownCache(t)
	a := harness.New(t)
	for i := range harness.Count(t, "FILES", 2000, 100_000) {
		write(t, a.Path(fmt.Sprintf("d%d/d%d/f%d", i/1000, i/10%100, i)), fmt.Sprint("content ", i))
	}
	a.Amberfs("snapshot", "start")
	a.Amberfs("remote", "add", "origin", url)
	a.Amberfs("push", "origin", "start")
	a.Stop()
	ownCache(t)
	b := harness.New(t)
	b.Amberfs("remote", "add", "origin", url)
	p.SetDelay(30 * time.Millisecond)
	claim := func(n int) {
		t.Helper()
		call := b.Path(".snapshots", "call.test")
		must.OK(t, os.WriteFile(call, fmt.Appendf(nil, `{"op":"claim","label":"box-%d","from":"origin@start"}`, n), 0o600))
		fork := b.Path(".forks", fmt.Sprint("box-", n))
		text, err := os.ReadFile(filepath.Join(fork, "d0/d0/f7"))
		if err != nil || string(text) != "content 7" {
			t.Fatalf("claim %d: %q, %v", n, text, err)
		}
		write(t, filepath.Join(fork, "mine"), fmt.Sprint(n))
		_, err = os.ReadDir(fork)
		must.OK(t, err)
	}
	claim(0)
	memory := resident(t, b.Pid())
	const n = 1000
	for i := range n {
		claim(i + 1)
	}
	requests, grown := p.Requests.Load(), resident(t, b.Pid())-memory
	t.Logf("%d requests and %d bytes for %d claims; %d bytes of memory each", requests, p.BytesDown.Load(), n+1, grown/n)
	if requests > n/20 { // those that fetch the tree, and the name once a minute
		t.Errorf("%d claims took %d requests", n+1, requests)
	}
	if grown/n > 100<<10 {
		t.Errorf("%d bytes of memory a claim", grown/n)
	}
}

// resident is the memory of a process, in bytes.
func resident(t *testing.T, pid int) (n int64) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must.OK(t, err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, err := fmt.Sscanf(rest, "%d kB", &n)
			must.OK(t, err)
		}
	}
	return n << 10
}

// TestManySnapshots: a list of all snapshots and a collection cost requests by the thousand of
// snapshots, not by the snapshot.
func TestManySnapshots(t *testing.T) {
	p := remotetest.NewProxy(t, s3(t))
	url := remotetest.S3Prefix(p.URL, "many")
	ownCache(t)
	a := harness.New(t)
	a.Amberfs("remote", "add", "origin", url)
	const n = 300
	push := []string{"push", "origin"}
	for i := range n {
		name := fmt.Sprint("s", i)
		write(t, a.Path("f"), name)
		must.OK(t, os.Mkdir(a.Path(".snapshots", name), 0o755))
		push = append(push, name)
	}
	a.Amberfs(push...)

	ownCache(t)
	b := harness.New(t)
	b.Amberfs("remote", "add", "origin", url)
	for _, command := range []string{"snapshots", "gc"} {
		before := p.Requests.Load()
		out := b.Amberfs("remote", command, "origin")
		requests := p.Requests.Load() - before
		t.Logf("remote %s: %d requests", command, requests)
		if requests > 10 {
			t.Errorf("remote %s of %d snapshots took %d requests", command, n, requests)
		}
		if got := strings.Count(out, "\ns") + strings.Count(out[:1], "s"); command == "snapshots" && got != n {
			t.Errorf("the list has %d snapshots, want %d:\n%s", got, n, out)
		}
	}
}
