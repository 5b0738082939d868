package keeper

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/internal/process"
)

// Config says which daemons a keeper starts.
type Config struct {
	Args []string // of the program
	// Ready, if set, goes to the first daemon: it reports its start there. ReadyEnv
	// names it in the environment.
	Ready    *os.File `json:"-"`
	ReadyEnv string   `json:"-"`
	// Log is called with what a person should know, after the path of the store.
	Log func(store, text string, args ...any) `json:"-"`
}

// A keeper is what Run works on. Its exported fields outlive an upgrade of its program.
type keeper struct {
	Config
	Start
	Child                int
	Link                 int // our end of the socket pair
	Device, Lock, Socket int
	Memory               int         // of the daemons
	Conns                map[int]int // of users, by ID
	Deaths               deaths

	ready   bool // the child is
	ending  bool // the child said so, or got a signal to end
	begun   map[uint64]bool
	upgrade string     // the program to be started next
	trying  string     // the program of the child, if it is not ours yet
	mu      sync.Mutex // guards Child and ending against signals
}

// ErrNoChild is returned by Run if the program cannot be started once more.
var ErrNoChild = errors.New("no daemon can be started")

// Run keeps a daemon, and returns its exit status.
func Run(cfg Config) (status int, err error) {
	k := &keeper{Config: cfg, Conns: make(map[int]int)}
	k.Background = cfg.Ready != nil
	if err := os.Chdir("/"); err != nil {
		return 0, err
	}
	defer k.forward()()
	if err := k.start(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoChild, err)
	}
	return k.loop()
}

// loop keeps the daemon that runs, and those after it.
func (k *keeper) loop() (status int, err error) {
	for {
		status, again := k.keep()
		if !again {
			return status, nil
		}
		for err := k.start(); err != nil; err = k.start() {
			if !k.mayRetry(err) {
				return 1, nil
			}
		}
	}
}

// retryTime is the time between two tries to start a process.
const retryTime = 200 * time.Millisecond

// mayRetry reports whether to try again after a process could not be started.
func (k *keeper) mayRetry(err error) bool {
	if k.trying != "" { // our own program may be
		k.Refused, k.Upgraded, k.trying = err.Error(), false, ""
		return true
	}
	k.Deaths.Failed++
	if why := k.Deaths.tooMany(); why != "" {
		k.gaveUp(err.Error(), why)
		return false
	}
	time.Sleep(retryTime)
	return true
}

func (k *keeper) gaveUp(reason, why string) {
	k.Log(k.Connection.Store, "giving up: the mount ends, and programs get ENOTCONN", "reason", reason, "deaths", why)
	if err := mounts.Abort(k.Connection.Mountpoint, k.Connection.Store); err != nil {
		k.Log(k.Connection.Store, "the mount could not be aborted: if programs hang, use umount -f", "mountpoint", k.Connection.Mountpoint, "err", err)
	}
}

// forward sends signals to the daemon. With a terminal, that sends them to both; the daemon
// ends at the first.
func (k *keeper) forward() (stop func()) {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	go func() {
		for s := range ch {
			k.mu.Lock()
			if s == unix.SIGHUP && k.Background { // there is no terminal that could go away
				k.mu.Unlock()
				continue
			}
			k.ending = true
			if k.Child != 0 {
				_ = unix.Kill(k.Child, s.(syscall.Signal))
			}
			k.mu.Unlock()
		}
	}()
	return func() { signal.Stop(ch) }
}

// start starts a daemon and sends it a Start.
func (k *keeper) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("making a socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "keeper")
	defer theirs.Close()
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs}
	environ := append(slices.DeleteFunc(os.Environ(), managed), linkEnv+"=3")
	if k.Ready != nil {
		files, environ = append(files, k.Ready), append(environ, k.ReadyEnv+"=4")
	}
	program := "/proc/self/exe"
	if k.trying, k.upgrade = k.upgrade, ""; k.trying != "" {
		program = k.trying
	}
	p, err := os.StartProcess(program, append([]string{"amberfs"}, k.Args...), &os.ProcAttr{Dir: "/", Env: environ, Files: files})
	if err != nil {
		unix.Close(pair[0])
		return fmt.Errorf("starting the daemon: %w", err)
	}
	k.mu.Lock()
	k.Child, k.ready, k.begun = p.Pid, false, make(map[uint64]bool)
	if k.ending {
		_ = unix.Kill(k.Child, unix.SIGTERM)
	}
	k.mu.Unlock()
	_ = p.Release() // it is waited for by its number
	if k.Ready != nil {
		k.Ready.Close()
		k.Ready = nil
	}
	k.Link = pair[0]
	k.pass()
	return nil
}

// pass sends a daemon what is held. It may have died already.
func (k *keeper) pass() {
	var files []int
	if k.Connection != nil {
		files = []int{k.Device, k.Lock, k.Socket, k.Memory}
	}
	if send(k.Link, k.Start, files...) != nil {
		return
	}
	for _, u := range k.Users {
		if send(k.Link, u, k.Conns[u.ID]) != nil {
			return
		}
	}
}

// keep returns when the daemon is gone: with its status, or again set if another one is to be
// started.
func (k *keeper) keep() (status int, again bool) {
	tried := k.limitTry()
	next, messages := make(chan struct{}), make(chan received, 1)
	go read(k.Link, next, messages)
	var ws unix.WaitStatus
	dying := stuck(k.Child)
	for alive := true; alive; {
		select {
		case next <- struct{}{}:
		case <-dying:
			ws, alive = k.abandon(), false
			continue
		}
		select {
		case r := <-messages:
			if r.err != nil {
				ws, alive = k.wait(), false
			} else {
				k.take(r.Message, r.files)
			}
		case <-dying:
			_ = unix.Shutdown(k.Link, unix.SHUT_RD) // what was sent is still read
			for r := <-messages; r.err == nil; r = <-messages {
				k.take(r.Message, r.files)
				next <- struct{}{}
			}
			ws, alive = k.abandon(), false
		}
	}
	tried()
	unix.Close(k.Link)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Child = 0
	if k.ending || k.Connection == nil {
		return exitStatus(ws), false
	}
	return 1, k.died(ws)
}

// received is a message of the daemon, or the end of it.
type received struct {
	Message
	files []int
	err   error
}

// read reads one message for each value of next: after an upgrade the new program reads the later
// ones.
func read(link int, next <-chan struct{}, messages chan<- received) {
	for range next {
		var r received
		r.files, r.err = receive(link, &r.Message)
		messages <- r
		if r.err != nil {
			return
		}
	}
}

func (k *keeper) wait() unix.WaitStatus { return reap(k.Child) }

// abandon stops waiting for a daemon that is dying and stuck, and returns its status.
func (k *keeper) abandon() unix.WaitStatus {
	s, err := process.StatOf(k.Child)
	if err != nil {
		s.Exit = uint32(unix.SIGKILL)
	}
	go reap(k.Child)
	return unix.WaitStatus(s.Exit)
}

// reap waits for the end of a child.
func reap(pid int) (ws unix.WaitStatus) {
	for {
		_, err := unix.Wait4(pid, &ws, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return ws
		}
	}
}

const statusSignal = 128

func exitStatus(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return statusSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// take handles a message of the daemon.
func (k *keeper) take(m Message, files []int) {
	switch {
	case m.Connection != nil && len(files) == maxFiles:
		k.Connection = m.Connection
		k.Device, k.Lock, k.Socket, k.Memory = files[0], files[1], files[2], files[3]
		// Clients find the process that they wait for by the socket's credentials, which are
		// those of the last listen(2): its end is that of the lock.
		_ = unix.Listen(k.Socket, unix.SOMAXCONN)
		_ = send(k.Link, struct{}{})
	case m.Ready:
		k.becameReady()
	case m.Ending:
		k.mu.Lock()
		k.ending = true
		k.mu.Unlock()
		unix.Close(k.Socket)
	case m.Notify != "":
		_, _ = systemd.SdNotify(false, m.Notify) // there may be no service manager
	case m.User != nil:
		k.setUser(*m.User, files)
	case m.Left != 0:
		k.dropUser(m.Left)
	case m.Made != nil && k.Connection != nil:
		k.Connection.Made = m.Made
	case m.Began != 0:
		k.begun[m.Began] = true
	case m.Answered != 0:
		delete(k.begun, m.Answered)
		k.Deaths.forget(m.Answered)
	case m.Upgrade != "":
		k.upgrade = m.Upgrade
		_ = unix.Kill(k.Child, unix.SIGKILL)
	}
}

func (k *keeper) setUser(u User, files []int) {
	if i := slices.IndexFunc(k.Users, func(is User) bool { return is.ID == u.ID }); i >= 0 {
		k.Users[i].State = u.State
	} else if len(files) == 1 {
		k.Users, k.Conns[u.ID] = append(k.Users, u), files[0]
	}
}

func (k *keeper) dropUser(id int) {
	k.Users = slices.DeleteFunc(k.Users, func(is User) bool { return is.ID == id })
	if fd, ok := k.Conns[id]; ok {
		unix.Close(fd)
		delete(k.Conns, id)
	}
}

// died decides what follows the death of a daemon that had a connection. The lock is held.
func (k *keeper) died(ws unix.WaitStatus) (again bool) {
	reason := describe(ws)
	k.Died = time.Now()
	switch {
	case k.upgrade != "":
		k.Upgraded, k.Refused = true, ""
		reason = "upgrade"
	case k.trying != "" && !k.ready: // in vain
		k.Upgraded, k.Refused = false, fmt.Sprintf("%s did not become ready: %s", k.trying, reason)
		reason, k.trying = "upgrade refused", ""
	default:
		k.Upgraded, k.Refused = false, ""
		k.Poison = k.Deaths.add(ws, k.ready, k.begun)
		if why := k.Deaths.tooMany(); why != "" {
			k.gaveUp(reason, why)
			return false
		}
	}
	k.Restarts++
	k.Reason = reason
	// A client that had no answer yet does not know whether it was counted.
	for _, u := range slices.Clone(k.Users) {
		if u.State == Joining {
			k.dropUser(u.ID)
		}
	}
	return true
}

func describe(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return fmt.Sprintf("killed by %s", unix.SignalName(ws.Signal()))
	}
	if ws.ExitStatus() == exitPanic {
		return "a panic or fatal error (exit status 2)"
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// exitPanic is the status of a Go program that crashed.
const exitPanic = 2

func managed(e string) bool {
	for _, name := range []string{"NOTIFY_SOCKET=", "WATCHDOG_PID=", "WATCHDOG_USEC="} {
		if len(e) >= len(name) && e[:len(name)] == name {
			return true
		}
	}
	return false
}
