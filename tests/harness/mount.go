package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/must"
)

// Timeout is how long anything is waited for before a test gives up. It is
// long because machines that run tests are busy; nothing takes it when all is
// well. AMBERFS_TEST_PATIENCE sets another.
var Timeout = timeout()

func timeout() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("AMBERFS_TEST_PATIENCE")); err == nil {
		return d
	}
	return 2 * time.Minute
}

// A Mount is a store and the daemon that has it mounted.
type Mount struct {
	// Dir is the mount point and Store the store's directory.
	Dir, Store string
	// Program is what is started instead of the binary of all tests, and Env its environment besides
	// that of the test.
	Program string
	Env     []string

	t       testing.TB
	args    []string
	daemon  *exec.Cmd // nil while not mounted
	ended   chan struct{}
	endErr  error
	logFile string
	told    bool   // that the log has something bad
	group   string // see LimitMemory
}

// New makes a store and mounts it until the test ends. args go to
// `amberfs mount`, now and at every later Start.
func New(t testing.TB, args ...string) *Mount {
	t.Helper()
	m := At(t, "", args...)
	m.Start()
	return m
}

// At is New without the mounting, and with the store at a given path unless
// that is empty.
func At(t testing.TB, store string, args ...string) *Mount {
	t.Helper()
	Binary(t)
	base, err := os.MkdirTemp(scratch.dir, "mount-")
	must.OK(t, err)
	if store == "" {
		store = filepath.Join(base, "store")
	}
	m := &Mount{
		Dir:     filepath.Join(base, "mnt"),
		Store:   store,
		Program: scratch.bin,
		t:       t,
		args:    args,
		logFile: filepath.Join(base, "daemon.log"),
	}
	must.OK(t, os.Mkdir(m.Dir, 0o755))
	must.OK(t, os.Chmod(base, 0o711))
	var hangs *time.Timer
	if !Long() {
		hangs = time.AfterFunc(10*Timeout, func() { t.Errorf("%s still runs after %v", t.Name(), 10*Timeout); showHung(t) })
	}
	t.Cleanup(func() {
		if hangs != nil {
			hangs.Stop()
		}
		m.Stop()
		if t.Failed() {
			t.Logf("daemon's log:\n%s", m.Log())
		}
		if err := os.RemoveAll(base); err != nil && !t.Failed() {
			t.Errorf("removing %s: %v", base, err)
		}
	})
	return m
}

// Path joins elem to the mount point.
func (m *Mount) Path(elem ...string) string {
	return filepath.Join(append([]string{m.Dir}, elem...)...)
}

// Pid is the daemon's process id. The process that was started is its keeper.
func (m *Mount) Pid() int {
	m.t.Helper()
	var pid int
	if !Poll(func() bool { pid = kept(m.daemon.Process.Pid); return pid != 0 }) {
		m.t.Fatalf("the keeper, process %d, has no daemon", m.daemon.Process.Pid)
	}
	return pid
}

// Crash kills the daemon, and returns when its keeper has started another one. What uses
// the mount meanwhile waits.
func (m *Mount) Crash() {
	m.t.Helper()
	pid := m.Pid()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		m.t.Fatalf("killing the daemon: %v", err)
	}
	Eventually(m.t, "another daemon runs", func() bool { return m.Pid() != pid })
}

// Start mounts the store and returns when the mount answers. extra is put in
// front of the store and the mount point for this once.
func (m *Mount) Start(extra ...string) {
	m.t.Helper()
	if err := m.TryStart(extra...); err != nil {
		m.t.Fatalf("%v\ndaemon's log:\n%s", err, m.Log())
	}
}

// TryStart is Start for daemons that may not come up.
func (m *Mount) TryStart(extra ...string) error {
	m.t.Helper()
	log, err := os.OpenFile(m.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"mount", "-f"}, m.args...)
	args = append(append(args, extra...), m.Store, m.Dir)
	cmd := exec.Command(m.Program, args...)
	if m.group != "" {
		cmd = exec.Command("sh", append([]string{"-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, m.group, m.Program}, args...)...)
	}
	cmd.Env = append(os.Environ(), m.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the daemon: %w", err)
	}
	m.daemon, m.ended = cmd, make(chan struct{})
	go func() {
		m.endErr = cmd.Wait()
		close(m.ended)
	}()
	for end := time.Now().Add(Timeout); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(m.Path(".snapshots", "README")); err == nil {
			return nil
		}
		select {
		case <-m.ended:
			m.daemon = nil
			return fmt.Errorf("amberfs %s: %w", strings.Join(args, " "), m.endErr)
		default:
		}
	}
	return fmt.Errorf("the mount is not ready after %v", Timeout)
}

// Stop unmounts in the ordinary way and waits for the daemon to end. It does
// nothing when the store is not mounted.
func (m *Mount) Stop() {
	m.t.Helper()
	if m.daemon == nil {
		return
	}
	if out, err := run(scratch.bin, "umount", m.Dir); err != nil {
		m.t.Errorf("amberfs umount: %v\n%s", err, out)
		detach(m.Dir)
	}
	m.wait()
	if m.endErr != nil {
		m.t.Errorf("the daemon ended with: %v", m.endErr)
	}
	m.checkGone()
	m.checkLog()
}

// Kill ends the daemon and its keeper as kill -9 does and takes the dead mount away.
func (m *Mount) Kill() {
	m.t.Helper()
	m.Signal(syscall.SIGKILL)
	m.Killed()
}

// Killed is for a daemon that was sent SIGKILL.
func (m *Mount) Killed() {
	m.t.Helper()
	m.wait()
	detach(m.Dir)
	m.checkGone()
	m.checkLog()
}

// Signal sends the daemon a signal and does not wait for what it does. SIGKILL goes to its
// keeper too, and what ends a mount to the keeper, which passes it on.
func (m *Mount) Signal(sig syscall.Signal) {
	m.t.Helper()
	var err error
	switch sig {
	case syscall.SIGKILL:
		killKept(m.daemon.Process.Pid, m.Dir)
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		err = m.daemon.Process.Signal(sig)
	default:
		err = syscall.Kill(m.Pid(), sig)
	}
	if err != nil {
		m.t.Errorf("signalling the daemon: %v", err)
	}
}

// wait waits for the daemon to end; one that does not shows its goroutines in
// the log and is killed.
func (m *Mount) wait() {
	m.t.Helper()
	select {
	case <-m.ended:
	case <-time.After(Timeout):
		m.t.Errorf("the daemon still runs %v after it was told to end", Timeout)
		_ = m.daemon.Process.Signal(syscall.SIGQUIT)
		select {
		case <-m.ended:
		case <-time.After(Timeout):
			killKept(m.daemon.Process.Pid, m.Dir)
			<-m.ended
		}
	}
	m.daemon = nil
}

func (m *Mount) checkGone() {
	m.t.Helper()
	for _, dir := range Mounts(m.Dir) {
		m.t.Errorf("still mounted: %s", dir)
		detach(dir)
	}
}

// checkLog fails the test for what a daemon must never print.
func (m *Mount) checkLog() {
	m.t.Helper()
	log := []byte(m.Log())
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if bytes.Contains(log, []byte(bad)) && !m.told {
			m.told = true
			m.t.Errorf("the daemon's log has %q", bad)
		}
	}
}

// Log is what the daemon has printed so far.
func (m *Mount) Log() string {
	log, err := os.ReadFile(m.logFile)
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// Amberfs runs a command of the command line with the mount as its working
// directory and returns what it printed. It fails the test if the command did.
func (m *Mount) Amberfs(args ...string) string {
	m.t.Helper()
	out, err := m.TryAmberfs(args...)
	if err != nil {
		m.t.Fatalf("amberfs %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TryAmberfs is Amberfs for commands that may fail. The output holds stdout
// and stderr.
func (m *Mount) TryAmberfs(args ...string) (string, error) {
	return run(scratch.bin, append([]string{"-C", m.Dir}, args...)...)
}

// run runs a command for at most [Timeout].
func run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = Timeout // on a busy machine no test here may come to read for seconds
	if err := cmd.Start(); err != nil {
		return "", err
	}
	quit := time.AfterFunc(Timeout, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // it shows its goroutines
	defer quit.Stop()
	kill := time.AfterFunc(2*Timeout, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	return out.String(), err
}

// Eventually polls until ok, and fails the test when [Timeout] is over. Then it shows what
// the daemons do.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Poll(ok) {
		showHung(t)
		t.Fatalf("gave up after %v: %s", Timeout, what)
	}
}

// Poll reports whether ok returned true before [Timeout] was over.
func Poll(ok func() bool) bool {
	for end := time.Now().Add(Timeout); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// showHung ends the daemons of this test process, which print what their goroutines do to
// their logs, and so fails what waits for them.
func showHung(t testing.TB) {
	for _, p := range Processes(scratch.dir) {
		if slices.Contains(p.Args, "mount") {
			t.Logf("process %d shows its goroutines in its log: %s", p.PID, strings.Join(p.Args, " "))
			_ = syscall.Kill(p.PID, syscall.SIGQUIT)
		}
	}
}

// KillWhileStarting starts the daemon and ends it as kill -9 does after a
// time, wherever it is then: recovering, mounting, or serving.
func (m *Mount) KillWhileStarting(after time.Duration) {
	m.t.Helper()
	log, err := os.OpenFile(m.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must.OK(m.t, err)
	defer log.Close()
	cmd := exec.Command(scratch.bin, append(append([]string{"mount", "-f"}, m.args...), m.Store, m.Dir)...)
	cmd.Stdout, cmd.Stderr = log, log
	must.OK(m.t, cmd.Start())
	time.Sleep(after)
	killKept(cmd.Process.Pid, m.Dir)
	_ = cmd.Wait()
	for _, dir := range Mounts(m.Dir) {
		detach(dir)
	}
}

// Command runs amberfs and returns what it printed on stdout and stderr.
func Command(args ...string) (string, error) { return run(scratch.bin, args...) }

// Gone waits for a daemon that was asked to unmount in another way than Stop asks.
func (m *Mount) Gone() {
	m.t.Helper()
	m.wait()
	m.checkGone()
	m.checkLog()
}
