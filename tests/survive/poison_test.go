package survive_test

import (
	"errors"
	"os"
	"path/filepath"
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

// TestPoison: a request that three daemons have died of fails with EIO, and nothing else does. It is the
// rendering of a diff.
func TestPoison(t *testing.T) {
	m := newPointed(t)
	must.OK(t, os.WriteFile(m.Path("f"), []byte("then"), 0o644))
	m.Amberfs("snapshot", "poison")
	must.OK(t, os.WriteFile(m.Path("f"), []byte("now"), 0o644))

	poison := make(chan error, 1)
	go func() {
		_, err := os.Stat(m.Path(".snapshots/diff@poison"))
		poison <- err
	}()
	for death := range 3 {
		harness.Eventually(t, "the log has all restarts", func() bool {
			return strings.Count(m.Amberfs("log", "--action", "restarted"), "a panic or fatal error") == death
		})
		m.arm(t, "poison", "")
		harness.Eventually(t, "the daemon dies", func() bool { return !m.armed("poison") })
	}
	if err := <-poison; !errors.Is(err, syscall.EIO) {
		t.Errorf("the request: %v", err)
	}
	if b, err := os.ReadFile(m.Path("f")); string(b) != "now" {
		t.Errorf("a file: %q, %v", b, err)
	}
	must.OK(t, os.WriteFile(m.Path("f"), []byte("later"), 0o644))
	m.Amberfs("snapshot", "v2")
	if out := m.Amberfs("status"); !strings.Contains(out, "3, the last (a panic or fatal error") {
		t.Errorf("status does not count the restarts:\n%s", out)
	}
	harness.Eventually(t, "the log has the last restart", func() bool {
		return strings.Count(m.Amberfs("log", "--action", "restarted"), "a panic or fatal error") == 3
	})
}
