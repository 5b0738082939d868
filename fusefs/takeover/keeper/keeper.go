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
	// ReadyPipe, if set, is the pipe on which daemons report their start, until one of them is ready. The keeper
	// passes it to each of these daemons. ReadyEnv is the name of the environment variable with the number of the
	// pipe's descriptor.
	ReadyPipe *os.File `json:"-"`
	ReadyEnv  string   `json:"-"`
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

	ready         bool            // the daemon is ready
	ending        bool            // the daemon reported its end, or was sent a signal to end
	signalled     chan struct{}   // closed at the first signal to end
	begunRequests map[uint64]bool // requests sent again that the daemon has begun, by number
	failure       *Failure        // why the daemon does not become ready, if it sent a reason
	loggedReason  string          // the last failure in the log
	nextProgram   string          // the path of the program to start next, in an upgrade
	triedProgram  string          // the path of the daemon's program, while it is not the keeper's program
	mu            sync.Mutex      // guards Child and ending, which forwardSignals and limitTrialTime use in goroutines of their own
}

// ErrNoChild is returned by Run if it cannot start its own program as a daemon.
var ErrNoChild = errors.New("no daemon can be started")

// Run starts a daemon, and another one after each that dies. It returns the exit status of the last one.
func Run(cfg Config) (status int, err error) {
	k := &keeper{Config: cfg, Conns: make(map[int]int), signalled: make(chan struct{})}
	k.Background = cfg.ReadyPipe != nil
	if err := os.Chdir("/"); err != nil {
		return 0, err
	}
	defer k.forwardSignals()()

	if err := k.startDaemon(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoChild, err)
	}

	return k.loop()
}

// forwardSignals passes the keeper's signals on to the daemon, until stop is called. A terminal sends a
// signal to both processes, so the daemon may receive it twice; the daemon ends at the first one.
func (k *keeper) forwardSignals() (stop func()) {
	ch, closeSignalled := make(chan os.Signal, 8), sync.OnceFunc(func() { close(k.signalled) })
	signal.Notify(ch, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	go func() {
		for s := range ch {
			k.mu.Lock()

			if s == unix.SIGHUP && k.Background { // there is no terminal, so SIGHUP does not mean that it was closed
				k.mu.Unlock()
				continue
			}

			k.ending = true
			closeSignalled()
			if k.Child != 0 {
				_ = unix.Kill(k.Child, s.(syscall.Signal))
			}

			k.mu.Unlock()
		}
	}()

	return func() { signal.Stop(ch) }
}

// startDaemon starts a daemon and sends it a Start.
func (k *keeper) startDaemon() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("making a socket pair: %w", err)
	}

	theirs := os.NewFile(uintptr(pair[1]), "keeper")
	defer theirs.Close()

	files := []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs}
	environ := append(slices.DeleteFunc(os.Environ(), isManagerVariable), linkEnv+"=3")
	if k.ReadyPipe != nil {
		files, environ = append(files, k.ReadyPipe), append(environ, k.ReadyEnv+"=4")
	}

	program := "/proc/self/exe"
	if k.triedProgram, k.nextProgram = k.nextProgram, ""; k.triedProgram != "" {
		program = k.triedProgram
	}

	p, err := os.StartProcess(program, append([]string{"amberfs"}, k.Args...), &os.ProcAttr{Dir: "/", Env: environ, Files: files})
	if err != nil {
		unix.Close(pair[0])
		return fmt.Errorf("starting the daemon: %w", err)
	}

	k.mu.Lock()
	k.Child, k.Thread, k.ready, k.begunRequests, k.failure = p.Pid, 0, false, make(map[uint64]bool), nil
	if k.ending {
		_ = unix.Kill(k.Child, unix.SIGTERM)
	}

	k.mu.Unlock()
	_ = p.Release() // p is not needed any more: reap waits for the process by its id
	k.Link = pair[0]
	if err := k.sendStart(); err != nil {
		// Kill the child, which would wait for the Start for ever. An error of Kill is ignored: then the child
		// has died already.
		k.failure = &Failure{Reason: err.Error(), Shortage: errs.IsShortage(err)}
		_ = unix.Kill(k.Child, unix.SIGKILL)
	}

	return nil
}

// sendStart sends the daemon its Start, and the connections of the users.
func (k *keeper) sendStart() error {
	var fds []int
	if k.Connection != nil {
		fds = []int{k.Device, k.Lock, k.Socket}
	}

	start := k.Start
	start.Users, start.UserCount = nil, len(k.Users)
	if err := send(k.Link, start, fds...); err != nil {
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
	stopTimer := k.limitTrialTime()
	next, messages := make(chan struct{}), make(chan delivery, 1)
	go readMessages(k.Link, next, messages)
	var stuck <-chan struct{}

	for alive := true; alive; {
		if stuck == nil && k.Thread != 0 {
			stuck = stuckChannel(k.Child, k.Thread)
		}

		select {
		case next <- struct{}{}:
		case <-stuck:
			ws, alive = k.abandonDaemon(), false
			continue
		}

		select {
		case r := <-messages:
			if r.err != nil {
				ws, alive = k.waitDaemon(), false
			} else {
				k.handleMessage(r.Message, r.fds)
			}

		case <-stuck:
			_ = unix.Shutdown(k.Link, unix.SHUT_RD) // messages that were sent before can still be read
			for r := <-messages; r.err == nil; r = <-messages {
				k.handleMessage(r.Message, r.fds)
				next <- struct{}{}
			}
			ws, alive = k.abandonDaemon(), false
		}
	}

	stopTimer()
	unix.Close(k.Link)
	k.mu.Lock()
	defer k.mu.Unlock()

	k.Child = 0

	return ws
}

// A delivery is a message of the daemon with its descriptors, or an error at the end of the daemon.
type delivery struct {
	Message
	fds []int
	err error
}

// readMessages reads one message for each value of next. It does not read ahead: if a message makes the keeper
// execute another program, that program must read the later messages.
func readMessages(link int, next <-chan struct{}, messages chan<- delivery) {
	for range next {
		var r delivery
		r.fds, r.err = receive(link, &r.Message)
		messages <- r
		if r.err != nil {
			return
		}
	}
}

func (k *keeper) waitDaemon() unix.WaitStatus { return reap(k.Child) }

// abandonDaemon returns the status of a daemon that is dying and stuck, without waiting for its end.
func (k *keeper) abandonDaemon() unix.WaitStatus {
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

// signalStatusBase is added to the number of the signal that killed a daemon, and the sum is the exit status of
// Run, as in shells.
const signalStatusBase = 128

func exitStatus(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return signalStatusBase + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// handleMessage carries out a message of the daemon. fds are the descriptors that came with it.
func (k *keeper) handleMessage(m Message, fds []int) {
	switch {
	case m.Connection != nil && len(fds) == maxFDs:
		k.Connection = m.Connection
		k.Device, k.Lock, k.Socket = fds[0], fds[1], fds[2]
		// Clients read a process id from the socket's credentials, and wait for the end of that process. It
		// is the process that called listen(2) last. That must be the keeper, because the lock of the store
		// is released at the end of the keeper.
		_ = unix.Listen(k.Socket, unix.SOMAXCONN)
		_ = send(k.Link, struct{}{})

	case m.Ready:
		k.onReady()
	case m.Ending:
		k.mu.Lock()
		k.ending = true
		k.mu.Unlock()
		unix.Close(k.Socket)

	case m.ServiceState != "":
		_, _ = systemd.SdNotify(false, m.ServiceState) // an error is ignored, because there may be no service manager
	case m.User != nil:
		k.addOrUpdateUser(*m.User, fds)
	case m.LeftUser != 0:
		k.dropUser(m.LeftUser)
	case m.MadeDirs != nil && k.Connection != nil:
		k.Connection.MadeDirs = m.MadeDirs
	case m.BegunRequest != 0:
		k.begunRequests[m.BegunRequest] = true
	case m.AnsweredRequest != 0:
		delete(k.begunRequests, m.AnsweredRequest)
		k.Deaths.removeSuspect(m.AnsweredRequest)
	case m.Thread != 0:
		k.Thread = m.Thread
	case m.Failure != nil:
		k.failure = m.Failure
	case m.FrozenUntil != nil:
		k.FrozenUntil, k.ThawedAt = *m.FrozenUntil, time.Time{}
	case m.UpgradeTo != "":
		k.nextProgram = m.UpgradeTo
		_ = unix.Kill(k.Child, unix.SIGKILL)
	}
}

// addOrUpdateUser adds a new user with its connection, or changes the state of a known user.
func (k *keeper) addOrUpdateUser(u User, fds []int) {
	if i := slices.IndexFunc(k.Users, func(known User) bool { return known.ID == u.ID }); i >= 0 {
		k.Users[i].State = u.State
	} else if len(fds) == 1 {
		k.Users, k.Conns[u.ID] = append(k.Users, u), fds[0]
	}
}

func (k *keeper) dropUser(id int) {
	k.Users = slices.DeleteFunc(k.Users, func(u User) bool { return u.ID == id })
	if fd, ok := k.Conns[id]; ok {
		unix.Close(fd)
		delete(k.Conns, id)
	}
}

// describeEnd returns a text about the way in which a process ended.
func describeEnd(ws unix.WaitStatus) string {
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
