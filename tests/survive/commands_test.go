package survive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUpgradeBreaksNoCommand: an upgrade waits for commands that run, those that begin meanwhile wait
// for it, and who follows the log goes on.
func TestUpgradeBreaksNoCommand(t *testing.T) {
	m := newMount(t)
	must.OK(t, os.WriteFile(m.Path("f"), bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o644))
	m.Amberfs("snapshot", "first")

	followed := filepath.Join(t.TempDir(), "followed")
	shown, err := os.Create(followed)
	must.OK(t, err)
	defer shown.Close()
	follow := exec.Command(harness.Binary(t), "-C", m.Dir, "log", "-f")
	follow.Stdout, follow.Stderr = shown, shown
	must.OK(t, follow.Start())

	// Nobody reads the pipe yet, so the export runs until then.
	export := exec.Command(harness.Binary(t), "-C", m.Dir, "export", "first", "--tar", "-")
	var said bytes.Buffer
	export.Stderr = &said
	tar, err := export.StdoutPipe()
	must.OK(t, err)
	must.OK(t, export.Start())
	first := make([]byte, 512)
	_, err = tar.Read(first)
	must.OK(t, err)

	before := m.Pid()
	upgraded := make(chan error, 1)
	go func() {
		out, err := m.TryAmberfs("upgrade", harness.Binary(t))
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		upgraded <- err
	}()
	// Commands that begin while the upgrade waits are carried out, too.
	var commands []chan error
	for i := range 20 {
		done := make(chan error, 1)
		commands = append(commands, done)
		go func() {
			out, err := m.TryAmberfs("snapshot", fmt.Sprint("during", i))
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			done <- err
		}()
	}
	n := len(first)
	for b := make([]byte, 1<<20); err == nil; {
		var read int
		read, err = tar.Read(b)
		n += read
	}
	if err := export.Wait(); err != nil || n < 16<<18 {
		t.Errorf("the export: %v, %d bytes: %s", err, n, &said)
	}
	if err := <-upgraded; err != nil || m.Pid() == before {
		t.Errorf("the upgrade: %v", err)
	}
	for i, done := range commands {
		if err := <-done; err != nil {
			t.Errorf("command %d: %v", i, err)
		}
	}
	list := m.Amberfs("list")
	for i := range commands {
		if !strings.Contains(list, fmt.Sprint("during", i)) {
			t.Errorf("snapshot during%d is not there", i)
		}
	}

	shows := func(name string) {
		harness.Eventually(t, "log -f shows "+name, func() bool {
			b, err := os.ReadFile(followed)
			return err == nil && bytes.Contains(b, []byte(name+"  "))
		})
	}
	for i := range commands {
		shows(fmt.Sprint("during", i)) // before the crash, which may lose the last events
	}
	m.Crash()
	m.Amberfs("snapshot", "last")
	shows("last")
	must.OK(t, follow.Process.Signal(syscall.SIGINT))
	_ = follow.Wait()
}

// TestThawAfterDeath: the end of a daemon ends its freeze, and who thaws learns of it.
func TestThawAfterDeath(t *testing.T) {
	m := newMount(t)
	for name, end := range map[string]func(){
		"a crash":    func() { m.Crash(); m.Crash() },
		"an upgrade": func() { m.Amberfs("upgrade", harness.Binary(t)) },
	} {
		m.Amberfs("freeze", "--for", "10m")
		end()
		must.OK(t, os.WriteFile(m.Path("f"), nil, 0o644))
		out, err := m.TryAmberfs("thaw")
		if err == nil || !strings.Contains(out, "the freeze ended at") {
			t.Errorf("thaw after %s: %v, %s", name, err, out)
		}
		if out := m.Amberfs("thaw"); !strings.Contains(out, "not frozen") {
			t.Errorf("a second thaw after %s: %s", name, out)
		}
	}
	m.Amberfs("freeze")
	if out := m.Amberfs("thaw"); !strings.Contains(out, "thawed") {
		t.Errorf("thaw: %s", out)
	}
}

// TestUpgradeKeepsEvents: the events of a command that an upgrade has waited for are in the log.
func TestUpgradeKeepsEvents(t *testing.T) {
	m := newMount(t)
	imported := exec.Command(harness.Binary(t), "-C", m.Dir, "import", "--tar", "-", "sub")
	var said bytes.Buffer
	imported.Stdout, imported.Stderr = &said, &said
	in, err := imported.StdinPipe()
	must.OK(t, err)
	must.OK(t, imported.Start())
	archive := tar.NewWriter(in)
	must.OK(t, archive.WriteHeader(&tar.Header{Name: "f", Mode: 0o644, Size: 1 << 20}))
	_, err = archive.Write(make([]byte, 1<<20))
	must.OK(t, err)

	upgraded := make(chan error, 1)
	go func() {
		_, err := m.TryAmberfs("upgrade", harness.Binary(t))
		upgraded <- err
	}()
	harness.Eventually(t, "other commands wait", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return exec.CommandContext(ctx, harness.Binary(t), "-C", m.Dir, "list").Run() != nil
	})
	must.OK(t, archive.Close())
	must.OK(t, in.Close())
	if err := imported.Wait(); err != nil {
		t.Fatalf("the import: %v: %s", err, &said)
	}
	must.OK(t, <-upgraded)
	if log := m.Amberfs("log"); !strings.Contains(log, "sub/f") {
		t.Errorf("the log does not say what was imported:\n%s", log)
	}
}
