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

// Config has the options of a keeper.
type Config struct {
	Args []string // arguments of each daemon
	// Ready, if set, is the pipe on which daemons report their start, until one of them is ready. It is
	// passed to each of these daemons. ReadyEnv is the environment variable with the number of its
	// descriptor.
	Ready    *os.File `json:"-"`
	ReadyEnv string   `json:"-"`
	// Patience is how long starts may fail because a resource is missing, such as space on the disk; negative
	// for no limit.
	Patience time.Duration
	// Log writes a message for a person to the log of a store. store is its path, args are as for slog.
	Log func(store, text string, args ...any) `json:"-"`
}

// A keeper is the state of Run. An upgrade of its program passes the exported fields on.
type keeper struct {
	Config
	Start                            // the message for the next daemon
	Child                int         // the process id of the daemon
	Thread               int         // a thread of the daemon, see Message
	Link                 int         // the keeper's end of the socket pair
	Device, Lock, Socket int         // descriptors
	Conns                map[int]int // descriptors of the users' connections, by User.ID
	Deaths               deaths

	ready     bool            // the daemon is ready
	ending    bool            // the daemon reported its end, or was sent a signal to end
	signalled chan struct{}   // closed at the first signal to end
	begun     map[uint64]bool // requests sent again that the daemon has begun, by number
	failure   *Failure        // why the daemon does not become ready, if it sent a reason
	logged    string          // the last failure in the log
	upgrade   string          // the path of the program to start next, in an upgrade
	trying    string          // the path of the daemon's program, while it is not the keeper's program
	mu        sync.Mutex      // guards Child and ending; forward and limitTry also take it
}

// ErrNoChild is returned by Run if it cannot start its own program as a daemon.
var ErrNoChild = errors.New("no daemon can be started")

// Run starts a daemon, and another one after each that dies. It returns the exit status of the last one.
func Run(cfg Config) (status int, err error) {
	k := &keeper{Config: cfg, Conns: make(map[int]int), signalled: make(chan struct{})}
	k.Background = cfg.Ready != nil
	if err := os.Chdir("/"); err != nil {
		return 0, err
	}
	defer k.forwardSignals()()

	if err := k.start(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoChild, err)
	}

	return k.loop()
}

// forwardSignals passes the keeper's signals on to the daemon, until stop is called. A terminal sends a
// signal to both processes, so the daemon may receive it twice; the daemon ends at the first one.
func (k *keeper) forwardSignals() (stop func()) {
	ch, first := make(chan os.Signal, 8), sync.OnceFunc(func() { close(k.signalled) })
	signal.Notify(ch, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	go func() {
		for s := range ch {
			k.mu.Lock()

			if s == unix.SIGHUP && k.Background { // there is no terminal, so SIGHUP does not mean that it was closed
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
	environ := append(slices.DeleteFunc(os.Environ(), isManagerVariable), linkEnv+"=3")
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
	_ = p.Release() // reap waits for the process by its id
	k.Link = pair[0]
	if err := k.sendStart(); err != nil {
		// Without the Start the child would wait for ever. Kill fails if the child has died already.
		k.failure = &Failure{Reason: err.Error(), Shortage: errs.IsShortage(err)}
		_ = unix.Kill(k.Child, unix.SIGKILL)
	}

	return nil
}

// sendStart sends the daemon its Start, and the connections of the users.
func (k *keeper) sendStart() error {
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

// serveDaemon handles the messages of the daemon until it has died, and returns its wait status.
func (k *keeper) serveDaemon() (ws unix.WaitStatus) {
	stopTry := k.limitTry()
	next, messages := make(chan struct{}), make(chan delivery, 1)
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
				k.handle(r.Message, r.files)
			}

		case <-dying:
			_ = unix.Shutdown(k.Link, unix.SHUT_RD) // messages that were sent before can still be read
			for r := <-messages; r.err == nil; r = <-messages {
				k.handle(r.Message, r.files)
				next <- struct{}{}
			}
			ws, alive = k.abandon(), false
		}
	}

	stopTry()
	unix.Close(k.Link)
	k.mu.Lock()
	defer k.mu.Unlock()

	k.Child = 0

	return ws
}

// A delivery is a message of the daemon with its descriptors, or an error at the end of the daemon.
type delivery struct {
	Message
	files []int
	err   error
}

// read reads one message for each value of next. It does not read ahead: if a message makes the keeper
// execute another program, that program must read the later messages.
func read(link int, next <-chan struct{}, messages chan<- delivery) {
	for range next {
		var r delivery
		r.files, r.err = receive(link, &r.Message)
		messages <- r
		if r.err != nil {
			return
		}
	}
}

func (k *keeper) wait() unix.WaitStatus { return reap(k.Child) }

// abandon returns the status of a daemon that is dying and stuck, without waiting for its end.
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

// handle carries out a message of the daemon. files are the descriptors that came with it.
func (k *keeper) handle(m Message, files []int) {
	switch {
	case m.Connection != nil && len(files) == maxFiles:
		k.Connection = m.Connection
		k.Device, k.Lock, k.Socket = files[0], files[1], files[2]
		// Clients read a process id from the socket's credentials, and wait for the end of that process. It
		// is the process that called listen(2) last. That must be the keeper, because the lock of the store
		// is released at the end of the keeper.
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

// setUser adds a new user with its connection, or changes the state of a known user.
func (k *keeper) setUser(u User, files []int) {
	if i := slices.IndexFunc(k.Users, func(known User) bool { return known.ID == u.ID }); i >= 0 {
		k.Users[i].State = u.State
	} else if len(files) == 1 {
		k.Users, k.Conns[u.ID] = append(k.Users, u), files[0]
	}
}

func (k *keeper) dropUser(id int) {
	k.Users = slices.DeleteFunc(k.Users, func(u User) bool { return u.ID == id })
	if fd, ok := k.Conns[id]; ok {
		unix.Close(fd)
		delete(k.Conns, id)
	}
}

// describe returns a text that says how a process ended.
func describe(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return fmt.Sprintf("killed by %s", unix.SignalName(ws.Signal()))
	}
	if ws.ExitStatus() == exitPanic {
		return "a panic or fatal error (exit status 2)"
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// exitPanic is the exit status of a Go program that panicked.
const exitPanic = 2

// isManagerVariable reports whether an environment variable comes from the service manager.
func isManagerVariable(e string) bool {
	for _, name := range []string{"NOTIFY_SOCKET=", "WATCHDOG_PID=", "WATCHDOG_USEC="} {
		if len(e) >= len(name) && e[:len(name)] == name {
			return true
		}
	}
	return false
}
