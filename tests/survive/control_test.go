package survive_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestOpenControlFiles: a generated file that is open in .snapshots is outdated after a crash, and
// a command that is written to one is not carried out. Opened again, they work.
func TestOpenControlFiles(t *testing.T) {
	m := newMount(t)
	m.Amberfs("snapshot", "empty")
	must.OK(t, os.WriteFile(m.Path("text"), bytes.Repeat([]byte("a line of text\n"), 100_000), 0o644))
	for _, name := range []string{"diff@empty", "status", "log"} {
		f, err := os.Open(m.Path(".snapshots", name))
		must.OK(t, err)
		_, err = io.ReadFull(f, make([]byte, 10))
		must.OK(t, err)
		m.Crash()
		if _, err = f.ReadAt(make([]byte, 1), 1<<20); !errors.Is(err, syscall.ESTALE) {
			t.Errorf("%s after a crash: %v", name, err)
		}
		must.OK(t, f.Close())
		if b, err := os.ReadFile(m.Path(".snapshots", name)); err != nil || len(b) == 0 {
			t.Errorf("%s opened again: %d bytes, %v", name, len(b), err)
		}
	}

	create, err := os.OpenFile(m.Path(".snapshots/create"), os.O_WRONLY|os.O_TRUNC, 0)
	must.OK(t, err)
	call, err := os.Create(m.Path(".snapshots/call.mine"))
	must.OK(t, err)
	m.Crash()
	for _, f := range []*os.File{create, call} {
		if _, err := f.WriteString(`{"op":"snapshot","name":"late"}`); !errors.Is(err, syscall.ESTALE) {
			t.Errorf("a command after a crash: %v", err)
		}
		must.OK(t, f.Close())
	}
	if list := m.Amberfs("list"); strings.Contains(list, "late") {
		t.Errorf("it was carried out: %s", list)
	}
	must.OK(t, os.WriteFile(m.Path(".snapshots/create"), []byte("late\n"), 0))
}

// TestLostResults: a result that is read only after a crash is lost: the read fails until the next command.
// What no daemon before has served is empty, as ever.
func TestLostResults(t *testing.T) {
	m := newMount(t)
	if b, err := os.ReadFile(m.Path(".snapshots/create")); err != nil || len(b) > 0 {
		t.Errorf("before the first command: %q, %v", b, err)
	}
	must.OK(t, os.WriteFile(m.Path(".snapshots/create"), []byte("a\n"), 0))
	m.Crash()
	for range 2 {
		if b, err := os.ReadFile(m.Path(".snapshots/create")); !errors.Is(err, syscall.EIO) {
			t.Errorf("a result that is lost: %q, %v", b, err)
		}
	}

	for _, name := range []string{"b", "c"} {
		must.OK(t, os.WriteFile(m.Path(".snapshots/create"), []byte(name+"\n"), 0))
		if b, err := os.ReadFile(m.Path(".snapshots/create")); err != nil || !bytes.Contains(b, []byte(name)) {
			t.Errorf("the result of the next command: %q, %v", b, err)
		}
	}
	must.OK(t, os.Mkdir(m.Path(".forks/f"), 0o755))
	if b, err := os.ReadFile(m.Path(".forks/f/.snapshots/create")); err != nil || len(b) > 0 {
		t.Errorf("in a new fork: %q, %v", b, err)
	}
}

// killOnRecord kills the daemon once the journal of the store has the record of a request. What
// the daemon answers takes longer meanwhile.
func killOnRecord(t *testing.T, m *harness.Mount, do func() error) error {
	t.Helper()
	pid, stop := m.Pid(), slowDevice(t, m, 300_000)
	// Records of the requests of control files are JSON, and begin like this.
	journaled := func() (records int) {
		files, err := filepath.Glob(filepath.Join(m.Store, "journal", "*"))
		must.OK(t, err)
		for _, file := range files {
			b, _ := os.ReadFile(file)
			records += bytes.Count(b, []byte(`{"request":`))
		}
		return records
	}
	before, done := journaled(), make(chan error, 1)
	go func() { done <- do() }()
	for journaled() <= before && len(done) == 0 { // it takes less than a poll
	}
	if len(done) > 0 {
		t.Error("answered before the daemon was killed")
	}
	must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
	stop()
	return <-done
}

// TestAnswersOfTheDaemonBefore: a command that a daemon carried out, and did not answer, has its
// own answer from the next one, and waits for what it asked to wait for.
func TestAnswersOfTheDaemonBefore(t *testing.T) {
	harness.SkipWithout(t, "strace")
	m := newMount(t)
	answer := func(name string) (a struct {
		OK                         bool
		Snapshot, Undo, Name, Path string
		Changed                    int
	}) {
		t.Helper()
		b, err := os.ReadFile(m.Path(".snapshots", name))
		must.OK(t, err)
		if err := json.Unmarshal(b, &a); err != nil {
			t.Errorf("%s has %q: %v", name, b, err)
		}
		return a
	}
	for _, state := range []string{"first", "second"} {
		must.OK(t, os.WriteFile(m.Path("v"), []byte(state), 0o644))
		must.OK(t, os.Mkdir(m.Path(".snapshots", state), 0o755))
	}

	for _, state := range []string{"first", "second"} {
		must.OK(t, killOnRecord(t, m, func() error {
			return os.Rename(m.Path(".snapshots/restore"), m.Path(".snapshots/restore@"+state))
		}))
		undo, err := os.Readlink(m.Path(".snapshots/undo"))
		must.OK(t, err)
		if a := answer("restore"); !a.OK || a.Snapshot != state || a.Undo != undo || a.Changed != 1 {
			t.Errorf("the answer to a restore of %s, undone by %s, is %+v", state, undo, a)
		}
		if b, err := os.ReadFile(m.Path("v")); err != nil || string(b) != state {
			t.Errorf("v has %q after a restore of %s (%v)", b, state, err)
		}
	}

	must.OK(t, killOnRecord(t, m, func() error { return os.WriteFile(m.Path(".snapshots/create"), []byte("third\n"), 0) }))
	if a := answer("create"); !a.OK || a.Name != "third" {
		t.Errorf("the answer to a snapshot is %+v", a)
	}
	must.OK(t, os.WriteFile(m.Path("v"), []byte("changed"), 0o644))
	must.OK(t, killOnRecord(t, m, func() error { return os.WriteFile(m.Path(".snapshots/restore"), []byte("third v\n"), 0) }))
	if a := answer("restore"); !a.OK || a.Snapshot != "third" {
		t.Errorf("the answer to a restore of a path is %+v", a)
	}
	must.OK(t, killOnRecord(t, m, func() error { return os.WriteFile(m.Path(".snapshots/fork"), []byte("third f\n"), 0) }))
	if a := answer("fork"); !a.OK || a.Path != ".forks/f" {
		t.Errorf("the answer to a fork is %+v", a)
	}
	must.OK(t, killOnRecord(t, m, func() error { return os.Mkdir(m.Path(".forks/g"), 0o755) }))

	call, err := os.OpenFile(m.Path(".snapshots/call.x"), os.O_RDWR|os.O_CREATE, 0o600)
	must.OK(t, err)
	defer call.Close()
	if err := killOnRecord(t, m, func() error {
		_, err := call.WriteString(`{"op":"snapshot","name":"stored","wait":true}`)
		return err
	}); err != nil {
		t.Error(err)
	}
	text, err := io.ReadAll(call)
	if err != nil || !bytes.Contains(text, []byte(`"name":"stored"`)) || !bytes.Contains(text, []byte(`"stored":true`)) {
		t.Errorf("the answer to a snapshot that waits is %q (%v)", text, err)
	}
	must.OK(t, call.Close())
	err = killOnRecord(t, m, func() error {
		return os.WriteFile(m.Path(".snapshots/call"), []byte(`{"op":"claim","label":"l"}`), 0)
	})
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("what cannot be answered: %v", err)
	}
}

// TestPrivateFilesThroughCrashes: what is done with private files is done once.
func TestPrivateFilesThroughCrashes(t *testing.T) {
	harness.SkipWithout(t, "strace")
	m := newMount(t)
	path := m.Path(".snapshots/call.x")
	for name, do := range map[string]func() error{
		"create": func() error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err == nil {
				f.Close()
			}
			return err
		},
		"unlink": func() error { return syscall.Unlink(path) },
		"rename": func() error { return os.Rename(m.Path(".snapshots/create.tmp.1"), m.Path(".snapshots/create.tmp.2")) },
	} {
		for _, after := range []time.Duration{350, 500, 800} { // ms: there is a lookup before
			_ = os.Remove(path)
			if name == "unlink" {
				must.OK(t, os.WriteFile(path, []byte(`{"op":"status"}`), 0o600))
			}
			must.OK(t, os.WriteFile(m.Path(".snapshots/create.tmp.1"), []byte("x"), 0o600))
			pid, stop := m.Pid(), slowDevice(t, m, 300_000)
			done := make(chan error, 1)
			go func() { done <- do() }()
			time.Sleep(after * time.Millisecond)
			must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
			stop()
			// A lookup after the crash does not find what died with the daemon.
			if err := <-done; err != nil && !(name != "create" && errors.Is(err, syscall.ENOENT)) {
				t.Errorf("%s, killed after %d ms: %v", name, after, err)
			}
		}
	}
}
