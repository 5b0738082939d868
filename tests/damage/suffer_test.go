package damage_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A report is what `amberfs verify --json` prints.
type report struct {
	Damage   []struct{ What string }
	Affected []affected
}

type affected struct{ Workspace, Snapshot, Path string }

// verify returns the exit status and the report.
func verify(t *testing.T, args ...string) (int, report, string) {
	t.Helper()
	out, err := harness.RunAmberfs(append([]string{"verify", "--json"}, args...)...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"panic", "goroutine ", "SIGSEGV", "SIGBUS"} {
		if strings.Contains(out, bad) {
			t.Errorf("verify %v: %s", args, out)
		}
	}
	var r report
	full := out
	out = out[:min(len(out), 1500)]
	if i := strings.Index(full, "{"); i >= 0 {
		_ = json.NewDecoder(strings.NewReader(full[i:])).Decode(&r) // a store that does not open has none
	}
	return code, r, out
}

// names reports whether the report has a path, or a directory above it.
func (r report) names(v view, path string) bool {
	for _, a := range r.Affected {
		if a.Workspace == v.workspace && a.Snapshot == v.snapshot &&
			(a.Path == path || a.Path == "" || strings.HasPrefix(path, a.Path+"/")) {
			return true
		}
	}
	return false
}

// forgets reports whether a workspace goes on from an earlier state.
func (r report) forgets() bool {
	for _, a := range r.Affected {
		if a.Snapshot == "" && a.Path == "" {
			return true
		}
	}
	return false
}

// A finding is what a look at a mounted store finds other than it was.
type finding struct {
	at, path string
	err      error // nil: it is not there
}

// inspect compares all views of a mount with the original. A file that exists must be
// what was there; what is not or gives an error is returned. forgetting allows
// the workspaces to be as they were before their last changes.
func (o *original) inspect(t *testing.T, m *harness.Mount, forgetting bool) []finding {
	t.Helper()
	var out []finding
	for at, v := range o.views {
		files, bad := look(m.Path(at))
		for path, err := range bad {
			if !errors.Is(err, unix.EIO) && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %q: %v, want EIO", at, path, err)
			}
			out = append(out, finding{at, path, err})
		}
		if _, ok := bad[""]; ok {
			continue
		}
		for path, got := range files {
			want, ok := v.files[path]
			if got == want && ok || forgetting && v.snapshot == "" && o.everHad(path, got) {
				continue
			}
			t.Errorf("%s: %q has %d bytes that were never written there (%d are right, known: %v)", at, path, len(got), len(want), ok)
		}
		for path := range v.files {
			if _, ok := files[path]; !ok && bad[path] == nil && !under(bad, path) {
				out = append(out, finding{at, path, nil})
			}
		}
	}
	return out
}

// everHad reports whether a path once had this content: the one at its last
// change, or what a write(2) in the middle of one left.
func (o *original) everHad(path, content string) bool {
	for full := range o.written[path] {
		if full == content || len(content)%4096 == 0 && strings.HasPrefix(full, content) {
			return true
		}
	}
	for _, v := range o.views {
		if c, ok := v.files[path]; ok && c == content {
			return true
		}
	}
	return false
}

func under(bad map[string]error, path string) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if bad[dir] != nil {
			return true
		}
	}
	return false
}

// suffer damages copies of the store and looks what it does to them.
func (o *original) suffer(t *testing.T, d injury) {
	hurt := func() *harness.Mount {
		store := o.copyStore(t)
		d.do(t, store, rand.New(rand.NewPCG(uint64(d.off), 3)))
		return harness.NewUnmounted(t, store)
	}
	// A record at the end of a journal that no process closed may as well not have
	// been written: no later one reports it.
	forgetting := o.killed && d.part() == "journal"

	m := hurt()
	code, r, out := verify(t, m.Store)
	if code != 0 && code != 7 {
		t.Fatalf("verify ended with status %d:\n%s", code, out)
	}

	// As it is.
	m = hurt()
	err := m.TryStart()
	if d.part() == "index" { // it may have to be opened once to be found damaged, and rebuilt then
		if err == nil {
			o.inspect(t, m, forgetting)
			m.Stop()
		}
		m.Start()
	}
	if err == nil || d.part() == "index" {
		for _, f := range o.inspect(t, m, forgetting) {
			if f.err == nil && forgetting {
				continue
			}
			if code == 0 {
				t.Errorf("verify found nothing, but %s/%s: %v", f.at, f.path, f.err)
			} else if v := o.views[f.at]; len(r.Affected) > 0 && !r.names(v, f.path) {
				t.Fatalf("verify does not name %s/%s: %v\n%s", f.at, f.path, f.err, out)
			}
		}
		m.Stop()
	} else if code == 0 {
		t.Errorf("verify found nothing, but: %v", err)
	} else if log := m.Log(); strings.Contains(log, "goroutine ") {
		t.Errorf("mount: %s", log)
	}

	// Repaired.
	m = hurt()
	code, r, out = verify(t, "--repair", m.Store)
	if code != 0 && code != 7 {
		t.Fatalf("verify --repair ended with status %d:\n%s", code, out)
	}
	if err := m.TryStart(); err != nil {
		t.Fatalf("mounting what was repaired: %v\n%s", err, m.Log())
	}
	lost := o.inspect(t, m, forgetting || r.forgets())
	if d.part() == "index" || strings.HasPrefix(d.part(), "manifest") {
		for _, f := range lost {
			t.Errorf("%s was damaged, but %s/%s: %v", d.part(), f.at, f.path, f.err)
		}
	}
	for _, f := range lost {
		if d.part() == "packs" && !r.names(o.views[f.at], f.path) {
			t.Fatalf("repair does not name %s/%s: %v\n%s", f.at, f.path, f.err, out)
		}
	}
	o.worksOn(t, m)
	m.Stop()
	if code, r, out := verify(t, m.Store); code == 7 && len(r.Affected) == 0 || code != 7 && code != 0 {
		t.Errorf("verify after a repair ended with status %d:\n%s", code, out)
	}
}

// worksOn uses a store: writes, a capture, a restore, gc.
func (o *original) worksOn(t *testing.T, m *harness.Mount) {
	t.Helper()
	must.OK(t, os.WriteFile(m.Path("after"), []byte("after"), 0o644))
	m.Amberfs("snapshot", "after")
	must.OK(t, os.WriteFile(m.Path("after"), []byte("later"), 0o644))
	m.Amberfs("restore", "after")
	if b, err := os.ReadFile(m.Path("after")); err != nil || string(b) != "after" {
		t.Errorf("restored: %q, %v", b, err)
	}
	m.Amberfs("gc")
	if b, err := os.ReadFile(m.Path(".snapshots/after/after")); err != nil || string(b) != "after" {
		t.Errorf("after gc: %q, %v", b, err)
	}
}
