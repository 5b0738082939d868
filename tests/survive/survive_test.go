// Package survive_test kills daemons whose keepers start others, while programs use the
// mounts. No program may see an error.
package survive_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// new mounts a store, on a kernel that sends requests again.
func newMount(t *testing.T, args ...string) *harness.Mount {
	m := harness.New(t, args...)
	if why := m.Amberfs("status"); strings.Contains(why, "a crash:") {
		if !strings.Contains(why, "Linux 6.9") {
			t.Errorf("status says no reason: %s", why)
		}
		m.Stop()
		t.Skip("needs Linux 6.9")
	}
	return m
}

// TestHeld: what programs have open, stand in and have locked is theirs after a crash.
func TestHeld(t *testing.T) {
	m := newMount(t)
	file, err := os.Create(m.Path("unlinked"))
	must.OK(t, err)
	defer file.Close()
	_, err = file.WriteString("before ")
	must.OK(t, err)
	must.OK(t, os.Remove(m.Path("unlinked")))
	must.OK(t, os.Mkdir(m.Path("gone"), 0o700))
	dir, err := os.Open(m.Path("gone"))
	must.OK(t, err)
	defer dir.Close()
	must.OK(t, os.Remove(m.Path("gone")))
	nameless, err := unix.Open(m.Dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	must.OK(t, err)
	defer unix.Close(nameless)
	_, err = unix.Write(nameless, []byte("no name"))
	must.OK(t, err)
	locked, err := os.Create(m.Path("locked"))
	must.OK(t, err)
	defer locked.Close()
	must.OK(t, unix.Flock(int(locked.Fd()), unix.LOCK_EX))

	for range 3 {
		m.Crash()
		_, err = file.WriteString("after ")
		must.OK(t, err)
	}
	b := make([]byte, 100)
	if n, err := file.ReadAt(b, 0); string(b[:n]) != "before after after after " {
		t.Errorf("the unlinked file has %q (%v)", b[:n], err)
	}
	if st, err := dir.Stat(); err != nil || !st.IsDir() {
		t.Errorf("the removed directory: %v", err)
	}
	if n, err := unix.Pread(nameless, b, 0); err != nil || string(b[:n]) != "no name" {
		t.Errorf("the file without a name has %q (%v)", b[:n], err)
	}
	other, err := os.Open(m.Path("locked"))
	must.OK(t, err)
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("the lock is gone: %v", err)
	}
	if out := m.Amberfs("status"); !strings.Contains(out, "3, the last (killed by SIGKILL)") {
		t.Errorf("status does not count the restarts:\n%s", out)
	}
}

// script changes names in every way, and prints what fails. It ends when DIR/stop exists.
const script = `
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
os.chdir(sys.argv[1])
rounds = 0
while not os.path.exists("../stop") or rounds == 0:
    rounds += 1
    os.mkdir("d"); os.rmdir("d")
    open("a", "xb").close(); os.link("a", "b"); os.symlink("x", "l"); os.mknod("n")
    os.setxattr("a", "user.x", b"1", os.XATTR_CREATE); os.removexattr("a", "user.x")
    os.rename("a", "c")
    was = os.stat("c").st_ino, os.stat("n").st_ino
    if libc.renameat2(-100, b"c", -100, b"n", 2):
        raise OSError(ctypes.get_errno(), "exchange")
    if (os.stat("n").st_ino, os.stat("c").st_ino) != was:
        sys.exit("an exchange was undone")
    for name in "b", "c", "l", "n": os.unlink(name)
    blob = os.urandom(2500000)
    with open("big", "wb") as f: f.write(blob)
    with open("big", "rb") as f:
        if f.read() != blob: sys.exit("other bytes")
    os.unlink("big")
    if os.listdir("."): sys.exit("left: %s" % os.listdir("."))
`

// whileWorking calls fn while programs change names and write, and fails for each error that
// one of them sees.
func whileWorking(t *testing.T, m *harness.Mount, fn func()) {
	t.Helper()
	var programs []*exec.Cmd
	var said []*bytes.Buffer
	for i := range 3 {
		dir := m.Path(fmt.Sprint("own", i))
		must.OK(t, os.Mkdir(dir, 0o755))
		cmd, out := exec.Command("python3", "-c", script, dir), new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = out, out
		must.OK(t, cmd.Start())
		programs, said = append(programs, cmd), append(said, out)
	}
	fn()
	must.OK(t, os.WriteFile(m.Path("stop"), nil, 0o644))
	for i, cmd := range programs {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, said[i])
		}
	}
}

// TestNoError: changes of names and large writes, while daemons are killed. Each is carried
// out once.
func TestNoError(t *testing.T) {
	m := newMount(t)
	kills := harness.Count(t, "ROUNDS", 12, 1000)
	whileWorking(t, m, func() {
		for i := range kills {
			m.Crash()
			if i%10 == 9 { // the keeper gives up when many in a row are killed before they are ready
				_, _ = os.Stat(m.Path(fmt.Sprint("none", i)))
			}
		}
	})
}

// TestUpgrades: upgrades while programs work.
func TestUpgrades(t *testing.T) {
	m := newMount(t)
	upgrades := max(3, harness.Count(t, "ROUNDS", 12, 1000)/10)
	whileWorking(t, m, func() {
		for i := range upgrades {
			before := m.Pid()
			if out, err := m.TryAmberfs("upgrade", harness.Binary(t)); err != nil || m.Pid() == before {
				t.Errorf("upgrade %d: %v: %s", i, err, out)
				return
			}
		}
	})
}

// TestUmountWhileAway: a mount can be taken away while no daemon runs.
func TestUmountWhileAway(t *testing.T) {
	m := newMount(t)
	must.OK(t, os.WriteFile(m.Path("f"), []byte("kept"), 0o644))
	must.OK(t, syscall.Kill(m.Pid(), syscall.SIGKILL))
	m.Stop()
	m.Start()
	if b, err := os.ReadFile(m.Path("f")); string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestGivesUp: if no daemon can start, programs get ENOTCONN instead of waiting for ever.
func TestGivesUp(t *testing.T) {
	m := newMount(t)
	keep := filepath.Join(m.Store, "format")
	text, err := os.ReadFile(keep)
	must.OK(t, err)
	must.OK(t, os.WriteFile(keep, []byte("amberfs store 0\n"), 0o600))
	m.Signal(syscall.SIGABRT)
	n := 0
	harness.Eventually(t, "ENOTCONN", func() bool {
		n++
		_, err := os.Stat(m.Path(fmt.Sprint("f", n))) // that an earlier one is not there, the kernel knows
		return err != nil && strings.Contains(err.Error(), "not connected")
	})
	must.OK(t, os.WriteFile(keep, text, 0o600))
	log, err := os.ReadFile(filepath.Join(m.Store, "amberfs.log"))
	if must.OK(t, err); !bytes.Contains(log, []byte("giving up")) {
		t.Errorf("the log does not say why:\n%s", log)
	}
	m.WaitAfterKill()
}

// TestUpgrade: another program takes over; one that promises other things is refused, and one
// that does not become ready is rolled back.
func TestUpgrade(t *testing.T) {
	m := newMount(t)
	bin, dir := harness.Binary(t), t.TempDir()
	program := func(name, script string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte("#!/bin/sh\n"+strings.ReplaceAll(script, "BIN", bin)), 0o755))
		return path
	}
	file, err := os.Create(m.Path("f"))
	must.OK(t, err)
	defer file.Close()
	before := m.Pid()
	named := filepath.Join(dir, "newer")
	must.OK(t, os.Symlink(bin, named))
	if out := m.Amberfs("upgrade", named); !strings.Contains(out, "upgraded to") || m.Pid() == before {
		t.Errorf("%s", out)
	}
	after := m.Pid()
	for _, p := range harness.Processes(m.Store) { // the keeper becomes the other program a little later
		harness.Eventually(t, strings.Join(p.Args, " ")+" is called amberfs", func() bool {
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
			return string(name) == "amberfs\n"
		})
	}
	out, err := m.TryAmberfs("upgrade", program("other", "echo other terms\n"))
	if err == nil || !strings.Contains(out, "unmount first") || m.Pid() != after {
		t.Errorf("other terms: %v, %s", err, out)
	}
	out, err = m.TryAmberfs("upgrade", program("broken", `[ "$1" = terms ] && exec BIN "$@"; exit 3`))
	if err == nil || !strings.Contains(out, "is the old program again") {
		t.Errorf("a broken program: %v, %s", err, out)
	}
	if _, err := file.WriteString("still"); err != nil {
		t.Error(err)
	}
	m.Crash()
	if _, err := file.WriteString(" here"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(m.Path("f")); string(b) != "still here" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestRun: a shared run goes on, and the daemon counts its users still: it ends with the last
// of them, and not before.
func TestRun(t *testing.T) {
	newMount(t).Stop() // for the kernel
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	run := func(name, script string) (*exec.Cmd, *bytes.Buffer) {
		cmd, out := exec.Command(harness.Binary(t), "run", store, "--", "sh", "-c", script), new(bytes.Buffer)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		must.OK(t, cmd.Start())
		harness.Eventually(t, name+" runs", func() bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil })
		return cmd, out
	}
	const wait = `until [ -e "$0/end-%[1]s" ]; do echo x >> log-%[1]s || exit 3; sleep 0.01; done; echo ended %[1]s`
	script := func(name string) string {
		return strings.ReplaceAll(fmt.Sprintf(`touch "$0/%[1]s"; `+wait, name), "$0", dir)
	}
	one, saidOne := run("one", script("one"))
	two, saidTwo := run("two", script("two"))
	daemons := func() (all []int) {
		for _, p := range harness.Processes(store) {
			if p.Args[1] == "mount" {
				all = append(all, p.PID)
			}
		}
		return all
	}
	for range 3 {
		var before []int
		harness.Eventually(t, "one keeper and one daemon", func() bool { before = daemons(); return len(before) == 2 })
		for _, pid := range before {
			if harness.ParentPID(pid) == before[0] || harness.ParentPID(pid) == before[1] {
				must.OK(t, syscall.Kill(pid, syscall.SIGKILL))
			}
		}
		harness.Eventually(t, "another daemon runs", func() bool {
			now := daemons()
			return len(now) == 2 && fmt.Sprint(now) != fmt.Sprint(before)
		})
	}
	end := func(name string, cmd *exec.Cmd, said *bytes.Buffer) {
		must.OK(t, os.WriteFile(filepath.Join(dir, "end-"+name), nil, 0o644))
		if err := cmd.Wait(); err != nil || !strings.Contains(said.String(), "ended "+name) {
			t.Errorf("%s: %v: %s", name, err, said)
		}
	}
	end("one", one, saidOne)
	if len(daemons()) == 0 {
		t.Error("the daemon ended with a user left")
	}
	end("two", two, saidTwo)
	harness.Eventually(t, "the daemon has ended", func() bool { return len(harness.Processes(store)) == 0 })
}

// TestLock: while a daemon is away, nobody else gets its store.
func TestLock(t *testing.T) {
	m := newMount(t)
	other := t.TempDir()
	for range 5 {
		must.OK(t, syscall.Kill(m.Pid(), syscall.SIGKILL))
		if out, err := harness.RunAmberfs("mount", "-f", m.Store, other); err == nil || !strings.Contains(out, "in use") {
			t.Errorf("a second mount: %v, %s", err, out)
		}
	}
	m.Pid()
}
