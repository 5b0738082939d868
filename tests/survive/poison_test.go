package survive_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestBystander: of two requests that daemons die of, only the one fails that they die of each time. The
// other one is carried out, once.
func TestBystander(t *testing.T) {
	p := newPointed(t)
	must.OK(t, os.Mkdir(p.Path("dir"), 0o755)) // the kernel changes one name of a directory at a time
	must.OK(t, os.WriteFile(p.Path("f"), []byte("then"), 0o644))
	p.Amberfs("snapshot", "deadly")
	must.OK(t, os.WriteFile(p.Path("f"), []byte("now"), 0o644))

	for name, deadly := range map[string]func() error{
		"a mkdir":   func() error { return os.Mkdir(p.Path("dir/deadly"), 0o755) },
		"a restore": func() error { return os.Rename(p.Path(".snapshots/restore"), p.Path(".snapshots/restore@deadly")) },
	} {
		must.OK(t, os.RemoveAll(filepath.Join(p.points, "bystander")))
		before, failed, made := p.Pid(), make(chan error, 1), make(chan error, 1)
		go func() { failed <- deadly() }()
		go func() { made <- os.Mkdir(p.Path("d-bystander"), 0o755) }()
		if err := <-made; err != nil {
			t.Errorf("beside %s: %v", name, err)
		}
		if err := <-failed; !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", name, err)
		}
		if p.Pid() == before {
			t.Errorf("%s: no daemon died", name)
		}
		must.OK(t, os.Remove(p.Path("d-bystander")))
		if b, err := os.ReadFile(p.Path("f")); string(b) != "now" {
			t.Errorf("after %s, the file has %q (%v)", name, b, err)
		}
	}
	p.Amberfs("snapshot", "after")
}

// waiting counts the threads of this process that wait for answers of a mount.
func waiting(t *testing.T) (n int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	must.OK(t, err)
	for _, task := range tasks {
		if b, err := os.ReadFile("/proc/self/task/" + task.Name() + "/wchan"); err == nil && strings.HasPrefix(string(b), "request_wait") {
			n++
		}
	}
	return n
}

// TestPoison: a request that three daemons have died of fails with EIO, and nothing else does.
// It is the rendering of a diff that takes seconds.
func TestPoison(t *testing.T) {
	m := newMount(t)
	lines := func(seed uint64) []byte {
		r, b := rand.New(rand.NewPCG(seed, 0)), []byte(nil)
		for range 2_500_000 {
			b = strconv.AppendUint(b, r.Uint64N(300_000), 10)
			b = append(b, '\n')
		}
		return b
	}
	must.OK(t, os.WriteFile(m.Path("large"), lines(1), 0o644))
	m.Amberfs("snapshot", "v1")
	must.OK(t, os.WriteFile(m.Path("large"), lines(2), 0o644))
	must.OK(t, os.WriteFile(m.Path("f"), []byte("0"), 0o644))

	deadly := make(chan error, 1)
	go func() {
		_, err := os.Stat(m.Path(".snapshots/diff@v1"))
		deadly <- err
	}()
	harness.Eventually(t, "the diff is rendered", func() bool { return waiting(t) > 0 || len(deadly) > 0 })
	for death := range 3 {
		if len(deadly) > 0 {
			t.Fatalf("it ended after %d deaths: %v", death, <-deadly)
		}
		pid := m.Pid()
		m.Signal(syscall.SIGABRT)
		harness.Eventually(t, "another daemon runs", func() bool { return m.Pid() != pid })
		if b, err := os.ReadFile(m.Path("f")); string(b) != fmt.Sprint(death) {
			t.Errorf("a file: %q, %v", b, err)
		}
		must.OK(t, os.WriteFile(m.Path("f"), []byte(fmt.Sprint(death+1)), 0o644))
	}
	if err := <-deadly; !errors.Is(err, syscall.EIO) {
		t.Errorf("the request: %v", err)
	}
	m.Amberfs("snapshot", "v2")
	if out := m.Amberfs("status"); !strings.Contains(out, "3, the last (a panic or fatal error") {
		t.Errorf("status does not count the restarts:\n%s", out)
	}
	if out := m.Amberfs("log", "--action", "restarted"); strings.Count(out, "a panic or fatal error") != 3 {
		t.Errorf("the log has not all restarts:\n%s", out)
	}
}
