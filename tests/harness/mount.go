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

// Timeout is how long a test waits for any condition before it fails. It is long because machines that run tests are
// busy. AMBERFS_TEST_PATIENCE sets another timeout.
var Timeout = timeoutFromEnv()

func timeoutFromEnv() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("AMBERFS_TEST_PATIENCE")); err == nil {
		return d
	}
	return 2 * time.Minute
}

// A Mount is a store and the daemon that has it mounted.
type Mount struct {
	// Dir is the mount point and Store the store's directory.
	Dir, Store string
	// Program is the path of the daemon's program, at first the binary of all tests. Env is added to its environment.
	Program string
	Env     []string

	t           testing.TB
	args        []string
	daemon      *exec.Cmd // nil while not mounted
	ended       chan struct{}
	endErr      error
	logFile     string
	logReported bool   // checkLog has reported an error in the log
	memoryGroup string // see LimitMemory
}

// New creates a store and mounts it until the test ends. args are arguments of `amberfs mount`, now and at each later
// Start.
func New(t testing.TB, args ...string) *Mount {
	t.Helper()
	m := NewUnmounted(t, "", args...)
	m.Start()
	return m
}

// NewUnmounted is New, but does not mount the store. store is the path of the store's directory; "" for a new one.
func NewUnmounted(t testing.TB, store string, args ...string) *Mount {
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
	var hangTimer *time.Timer
	if !LongTests() {
		hangTimer = time.AfterFunc(10*Timeout, func() { t.Errorf("%s still runs after %v", t.Name(), 10*Timeout); dumpDaemons(t) })
	}
	t.Cleanup(func() {
		if hangTimer != nil {
			hangTimer.Stop()
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

// Pid returns the process id of the daemon. m.daemon is the daemon's parent process, the keeper.
func (m *Mount) Pid() int {
	m.t.Helper()
	var pid int
	if !Poll(func() bool { pid = daemonOf(m.daemon.Process.Pid); return pid != 0 }) {
		m.t.Fatalf("the keeper, process %d, has no daemon", m.daemon.Process.Pid)
	}
	return pid
}

// Crash kills the daemon, and returns when its keeper has started another one. Programs that use the mount wait during
// this time.
func (m *Mount) Crash() {
	m.t.Helper()
	pid := m.Pid()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		m.t.Fatalf("killing the daemon: %v", err)
	}
	Eventually(m.t, "another daemon runs", func() bool { return m.Pid() != pid })
}

// Start mounts the store and returns when the mount answers. extra are further arguments of `amberfs mount` for this
// start alone.
func (m *Mount) Start(extra ...string) {
	m.t.Helper()
	if err := m.TryStart(extra...); err != nil {
		m.t.Fatalf("%v\ndaemon's log:\n%s", err, m.Log())
	}
}

// TryStart is Start, but returns an error if the mount does not answer.
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
	if m.memoryGroup != "" {
		cmd = exec.Command("sh", append([]string{"-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, m.memoryGroup, m.Program}, args...)...)
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

// Stop unmounts with `amberfs umount` and waits for the daemon to end. It does nothing if the store is not mounted.
func (m *Mount) Stop() {
	m.t.Helper()
	if m.daemon == nil {
		return
	}
	if out, err := run(scratch.bin, "umount", m.Dir); err != nil {
		m.t.Errorf("amberfs umount: %v\n%s", err, out)
		detachMount(m.Dir)
	}
	m.checkEnd()
}

// StopUnused does as Stop for a mount whose users have just ended. The daemon may still count some of them.
func (m *Mount) StopUnused() {
	m.t.Helper()
	Eventually(m.t, "the mount is not in use", func() bool { _, err := run(scratch.bin, "umount", m.Dir); return err == nil })
	m.checkEnd()
}

// checkEnd waits for the end of a daemon whose mount is unmounted.
func (m *Mount) checkEnd() {
	m.t.Helper()
	m.waitForEnd()
	if m.endErr != nil {
		m.t.Errorf("the daemon ended with: %v", m.endErr)
	}
	m.checkUnmounted()
	m.checkLog()
}

// Kill kills the daemon and its keeper with SIGKILL, and removes the dead mount.
func (m *Mount) Kill() {
	m.t.Helper()
	m.Signal(syscall.SIGKILL)
	m.WaitAfterKill()
}

// WaitAfterKill waits for the end of a daemon to which the test has sent SIGKILL, and removes the dead mount.
func (m *Mount) WaitAfterKill() {
	m.t.Helper()
	m.waitForEnd()
	detachMount(m.Dir)
	m.checkUnmounted()
	m.checkLog()
}

// Signal sends a signal to the daemon, and does not wait for the effect. It sends SIGKILL to the keeper as well. It
// sends signals that end a mount to the keeper alone, which passes them on.
func (m *Mount) Signal(sig syscall.Signal) {
	m.t.Helper()
	var err error
	switch sig {
	case syscall.SIGKILL:
		killWithKeeper(m.daemon.Process.Pid, m.Dir)
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP:
		err = m.daemon.Process.Signal(sig)
	default:
		err = syscall.Kill(m.Pid(), sig)
	}
	if err != nil {
		m.t.Errorf("signalling the daemon: %v", err)
	}
}

// waitForEnd waits for the daemon to end. If the daemon does not end, waitForEnd fails the test, makes the daemon print
// its goroutines to the log, and kills it.
func (m *Mount) waitForEnd() {
	m.t.Helper()
	select {
	case <-m.ended:
	case <-time.After(Timeout):
		m.t.Errorf("the daemon still runs %v after it was told to end", Timeout)
		_ = m.daemon.Process.Signal(syscall.SIGQUIT)
		select {
		case <-m.ended:
		case <-time.After(Timeout):
			killWithKeeper(m.daemon.Process.Pid, m.Dir)
			<-m.ended
		}
	}
	m.daemon = nil
}

// checkUnmounted fails the test if a mount is left, and removes the mount.
func (m *Mount) checkUnmounted() {
	m.t.Helper()
	for _, dir := range Mounts(m.Dir) {
		m.t.Errorf("still mounted: %s", dir)
		detachMount(dir)
	}
}

// checkLog fails the test if the daemon's log has a data race or a panic.
func (m *Mount) checkLog() {
	m.t.Helper()
	log := []byte(m.Log())
	for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
		if bytes.Contains(log, []byte(bad)) && !m.logReported {
			m.logReported = true
			m.t.Errorf("the daemon's log has %q", bad)
		}
	}
}

// Log returns the text that the daemons of the mount have printed so far.
func (m *Mount) Log() string {
	log, err := os.ReadFile(m.logFile)
	if err != nil {
		return err.Error()
	}
	return string(log)
}

// Amberfs runs an amberfs command with the mount as its working directory. It returns the output. It fails the test if
// the command fails.
func (m *Mount) Amberfs(args ...string) string {
	m.t.Helper()
	out, err := m.TryAmberfs(args...)
	if err != nil {
		m.t.Fatalf("amberfs %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TryAmberfs is Amberfs, but returns an error if the command fails. The output has stdout and stderr.
func (m *Mount) TryAmberfs(args ...string) (string, error) {
	return run(scratch.bin, append([]string{"-C", m.Dir}, args...)...)
}

// run runs a command and returns its stdout and stderr. It kills the command if it takes much longer than [Timeout].
func run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = Timeout // on a busy machine, this process may not read the output for seconds
	if err := cmd.Start(); err != nil {
		return "", err
	}
	quit := time.AfterFunc(Timeout, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // makes it print its goroutines
	defer quit.Stop()
	kill := time.AfterFunc(2*Timeout, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	return out.String(), err
}

// Eventually polls until ok returns true. After [Timeout] it fails the test, and makes the daemons print their
// goroutines.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Poll(ok) {
		dumpDaemons(t)
		t.Fatalf("gave up after %v: %s", Timeout, what)
	}
}

// Poll polls until ok returns true. It returns false after [Timeout].
func Poll(ok func() bool) bool {
	for end := time.Now().Add(Timeout); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// dumpDaemons ends the daemons of this test process with SIGQUIT, so that they print their goroutines to their logs.
// System calls that wait for these daemons fail.
func dumpDaemons(t testing.TB) {
	for _, p := range Processes(scratch.dir) {
		if slices.Contains(p.Args, "mount") {
			t.Logf("process %d shows its goroutines in its log: %s", p.PID, strings.Join(p.Args, " "))
			_ = syscall.Kill(p.PID, syscall.SIGQUIT)
		}
	}
}

// KillWhileStarting starts the daemon and its keeper, and kills them after a delay, in the middle of the recovery, the
// mount or the service.
func (m *Mount) KillWhileStarting(delay time.Duration) {
	m.t.Helper()
	log, err := os.OpenFile(m.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must.OK(m.t, err)
	defer log.Close()
	cmd := exec.Command(scratch.bin, append(append([]string{"mount", "-f"}, m.args...), m.Store, m.Dir)...)
	cmd.Stdout, cmd.Stderr = log, log
	must.OK(m.t, cmd.Start())
	time.Sleep(delay)
	killWithKeeper(cmd.Process.Pid, m.Dir)
	_ = cmd.Wait()
	for _, dir := range Mounts(m.Dir) {
		detachMount(dir)
	}
}

// RunAmberfs runs an amberfs command and returns its stdout and stderr.
func RunAmberfs(args ...string) (string, error) { return run(scratch.bin, args...) }

// WaitUntilGone waits for the end of a daemon that the test has unmounted without Stop.
func (m *Mount) WaitUntilGone() {
	m.t.Helper()
	m.waitForEnd()
	m.checkUnmounted()
	m.checkLog()
}
