package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/takeover/keeper"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// Args returns the command-line arguments of the daemon of cfg, as ps(1) shows them. The program must parse them to an
// equal Config, and call Run.
func (cfg Config) Args() []string {
	out := []string{"mount", "-f"}
	if cfg.Shared {
		out = append(out, "--shared")
	}
	for _, g := range cfg.Groups {
		out = append(out, fmt.Sprintf("--group=%d", g))
	}
	if cfg.From != "" {
		out = append(out, "--from", cfg.From)
	}
	if cfg.Remote != "" {
		out = append(out, "--from", cfg.Remote)
	}
	if cfg.Relink {
		out = append(out, "--relink")
	}
	if cfg.OrEmpty {
		out = append(out, "--or-empty")
	}
	if o := cfg.Options.String(); o != "" {
		out = append(out, "-o", o)
	}

	return append(out, "--", cfg.Store, cfg.Mountpoint)
}

// Spawn starts the daemon of cfg, and waits until the mount is ready. If ctx is cancelled before, Spawn ends
// the daemon.
func Spawn(ctx context.Context, cfg Config, s MessageFunc, attr *syscall.SysProcAttr) (Ready, *exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return Ready{}, nil, fmt.Errorf("making the readiness pipe: %w", err)
	}
	defer r.Close()

	cmd := exec.Command("/proc/self/exe", cfg.Args()...)
	cmd.Args[0] = "amberfs" // under its name mount.fuse.amberfs, the program would act as a helper of mount(8)
	cmd.Dir = "/"
	cmd.Env = append(slices.DeleteFunc(os.Environ(), isNotifySocket), ReadyEnv+"=3")
	cmd.ExtraFiles = []*os.File{w} // w is descriptor 3 of the daemon
	var stderr bytes.Buffer
	cmd.Stderr = &stderr // the daemon writes there until it has opened its log
	cmd.SysProcAttr = attr
	err = cmd.Start()
	w.Close()
	if err != nil {
		return Ready{}, nil, fmt.Errorf("starting the daemon: %w", err)
	}

	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()

	ready, err := awaitReady(r, s)
	if err == nil {
		PrimeMount(ready.Mountpoint)
		return ready, cmd, nil
	}

	werr := cmd.Wait()
	if ctx.Err() != nil {
		return Ready{}, nil, ctx.Err()
	}
	if errors.Is(err, errNoReadyMessage) {
		return Ready{}, nil, errs.Fail(errs.Failed, "the daemon ended before the mount was ready (%v)%s", werr, firstLines(stderr.Bytes(), 5))
	}

	return Ready{}, nil, err
}

// PrimeMount opens a file in the mount at point, if the mount is visible in this mount namespace. fusefs answers this
// OPEN with ENOSYS. After such an answer, the kernel sends no RELEASE for the files that programs create.
func PrimeMount(point string) {
	if f, err := os.Open(filepath.Join(point, naming.SnapshotsDir, "README")); err == nil {
		f.Close()
	}
}

func firstLines(b []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if lines[0] == "" {
		return ""
	}
	return ": " + strings.Join(lines[:min(n, len(lines))], "\n  ")
}

// ReadyEnv is the environment variable with the descriptor of the readiness pipe.
const ReadyEnv = "_AMBERFS_READY_FD"

// A Message is a message of a starting daemon to the process that started it. One field is set. The last message has
// Ready or Error.
type Message struct {
	Progress *service.Progress `json:"progress,omitempty"`
	Note     string            `json:"note,omitempty"` // a sentence for the user
	Ready    *Ready            `json:"ready,omitempty"`
	Error    *errs.Error       `json:"error,omitempty"`
}

// Ready is the message that the mount can be used.
type Ready struct {
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
	PID        int    `json:"pid"`
	Created    bool   `json:"created"`
}

// A MessageFunc receives the messages of a starting daemon.
type MessageFunc func(Message)

func (s MessageFunc) progress(p service.Progress) { s(Message{Progress: &p}) }

func (s MessageFunc) note(text string) { s(Message{Note: text}) }

// ReadyPipe returns the readiness pipe of a process that Spawn started, nil for other processes.
func ReadyPipe() *os.File {
	fd, err := strconv.Atoi(os.Getenv(ReadyEnv))
	if err != nil {
		return nil
	}

	os.Unsetenv(ReadyEnv)
	unix.CloseOnExec(fd)

	return os.NewFile(uintptr(fd), "readiness pipe")
}

// PipeMessageFunc returns a MessageFunc that writes messages as JSON to a pipe, nil if w is nil. Errors are ignored,
// because the reader may have ended.
func PipeMessageFunc(w *os.File) MessageFunc {
	if w == nil {
		return nil
	}

	var mu sync.Mutex
	var last time.Time // when the last Progress was written
	return func(m Message) {
		mu.Lock()
		defer mu.Unlock()

		if m.Progress != nil && time.Since(last) < 100*time.Millisecond {
			return
		} else if m.Progress != nil {
			last = time.Now()
		}

		if b, err := json.Marshal(m); err == nil {
			_, _ = w.Write(append(b, '\n'))
		}
		if m.Ready != nil || m.Error != nil {
			w.Close()
		}
	}
}

// awaitReady passes the messages of a pipe on to s, until one has Ready or Error.
func awaitReady(r io.Reader, s MessageFunc) (Ready, error) {
	for lines := json.NewDecoder(r); ; {
		var m Message
		switch err := lines.Decode(&m); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return Ready{}, errNoReadyMessage
		case err != nil:
			return Ready{}, err
		case m.Error != nil:
			return Ready{}, m.Error
		case m.Ready != nil:
			return *m.Ready, nil
		}

		s(m)
	}
}

var errNoReadyMessage = errors.New("the daemon ended before the mount was ready")

// notifyServiceManager reports the state to the service manager, if there is one (Type=notify).
func (d *Daemon) notifyServiceManager(state string) {
	if d.cfg.Keeper != nil { // the service manager accepts messages only from the keeper, which it started
		d.cfg.Keeper.Send(keeper.Message{ServiceState: state})
		return
	}

	if _, err := systemd.SdNotify(false, state); err != nil {
		d.log.Warn("telling the service manager", "state", state, "err", err)
	}
}

// isNotifySocket reports whether a variable is that of the service manager. A daemon in the background must not notify
// the manager: the manager would think that the message is about the service in which the daemon was started.
func isNotifySocket(variable string) bool { return strings.HasPrefix(variable, "NOTIFY_SOCKET=") }
