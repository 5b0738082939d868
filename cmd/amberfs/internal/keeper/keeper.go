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

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/process"
)

// Config says which daemons a keeper starts.
type Config struct {
	Args []string // of the program
	// Ready, if set, goes to each daemon until one of them is ready: it reports its start there.
	// ReadyEnv names it in the environment.
	Ready    *os.File `json:"-"`
	ReadyEnv string   `json:"-"`
	// Patience is how long starts may fail for want of something, such as space on the disk,
	// negative for ever.
	Patience time.Duration
	// Log is called with what a person should know, after the path of the store.
	Log func(store, text string, args ...any) `json:"-"`
}

// A keeper is what Run works on. Its exported fields outlive an upgrade of its program.
type keeper struct {
	Config
	Start
	Child                int
	Thread               int // of the child, see Message
	Link                 int // our end of the socket pair
	Device, Lock, Socket int
	Conns                map[int]int // of users, by ID
	Deaths               deaths

	ready     bool          // the child is
	ending    bool          // the child said so, or got a signal to end
	signalled chan struct{} // closed at the first signal to end
	begun     map[uint64]bool
	failure   *Failure   // of the child
	logged    string     // the last failure in the log
	upgrade   string     // the program to be started next
	trying    string     // the program of the child, if it is not ours yet
	mu        sync.Mutex // guards Child and ending against signals
}

// ErrNoChild is returned by Run if the program cannot be started once more.
var ErrNoChild = errors.New("no daemon can be started")

// Run keeps a daemon, and returns its exit status.
func Run(cfg Config) (status int, err error) {
	k := &keeper{Config: cfg, Conns: make(map[int]int), signalled: make(chan struct{})}
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

// forward sends signals to the daemon. With a terminal, that sends them to both; the daemon
// ends at the first.
func (k *keeper) forward() (stop func()) {
	ch, first := make(chan os.Signal, 8), sync.OnceFunc(func() { close(k.signalled) })
	signal.Notify(ch, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	go func() {
		for s := range ch {
			k.mu.Lock()

			if s == unix.SIGHUP && k.Background { // there is no terminal that could go away
				k.mu.Unlock()
				continue
			}

			k.ending = true
			first()
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
	k.Child, k.Thread, k.ready, k.begun, k.failure = p.Pid, 0, false, make(map[uint64]bool), nil
	if k.ending {
		_ = unix.Kill(k.Child, unix.SIGTERM)
	}

	k.mu.Unlock()
	_ = p.Release() // it is waited for by its number
	k.Link = pair[0]
	if err := k.pass(); err != nil {
		// Without it the child would wait for ever. It may have died already.
		k.failure = &Failure{Reason: err.Error(), Shortage: errs.Shortage(err)}
		_ = unix.Kill(k.Child, unix.SIGKILL)
	}

	return nil
}

// pass sends a daemon what is held.
func (k *keeper) pass() error {
	var files []int
	if k.Connection != nil {
		files = []int{k.Device, k.Lock, k.Socket}
	}

	start := k.Start
	start.Users, start.UserCount = nil, len(k.Users)
	if err := send(k.Link, start, files...); err != nil {
		return fmt.Errorf("passing the mount to the daemon: %w", err)
	}

	for _, u := range k.Users {
		if err := send(k.Link, u, k.Conns[u.ID]); err != nil {
			return fmt.Errorf("passing the connection of a user to the daemon: %w", err)
		}
	}

	return nil
}

// keep returns when the daemon is gone, with its status.
func (k *keeper) keep() (ws unix.WaitStatus) {
	tried := k.limitTry()
	next, messages := make(chan struct{}), make(chan received, 1)
	go read(k.Link, next, messages)
	var dying <-chan struct{}

	for alive := true; alive; {
		if dying == nil && k.Thread != 0 {
			dying = stuck(k.Child, k.Thread)
		}

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

	return ws
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
		k.Device, k.Lock, k.Socket = files[0], files[1], files[2]
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
	case m.Thread != 0:
		k.Thread = m.Thread
	case m.Failed != nil:
		k.failure = m.Failed
	case m.Frozen != nil:
		k.Frozen, k.Thawed = *m.Frozen, time.Time{}
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
