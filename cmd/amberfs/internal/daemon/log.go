package daemon

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
)

const LogName = "amberfs.log"

// maxLog is the size in bytes at which the log is renamed.
const maxLog = 4 << 20

// logFile is where the daemon's log goes: into memory until the store
// exists, then into a file that is moved to amberfs.log.1 when it grows.
type logFile struct {
	also io.Writer // with -f, the terminal; may be nil

	mu   sync.Mutex
	held []byte       // before open
	dir  *vfs.Beneath // the store
	path string
	f    *os.File
	size int64
	max  int64
}

// LogLine appends a line to the log of a store whose daemon is not running.
func LogLine(store, text string, args ...any) {
	l := newLog(io.Discard) // with a writer, so that the error output of this process stays what it is
	if l.open(store) != nil {
		return
	}
	slog.New(slog.NewTextHandler(l, nil)).Error(text, args...)
	l.close()
}

func newLog(also io.Writer) *logFile { return &logFile{also: also, max: maxLog} }

func (l *logFile) open(store string) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.path = filepath.Join(store, LogName)
	var err error
	if l.dir, err = vfs.OpenBeneath(store); err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	if err := l.reopen(); err != nil {
		return fmt.Errorf("opening the log: %w", errors.Join(err, l.dir.Close()))
	}

	l.write(l.held)
	l.held = nil

	return nil
}

// reopen is called with mu held.
func (l *logFile) reopen() error {
	f, err := l.dir.File(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}

	st, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}

	if l.f != nil {
		l.f.Close()
	}

	l.f, l.size = f, st.Size()
	// What the runtime says when the process crashes belongs here too.
	_ = debug.SetCrashOutput(f, debug.CrashOptions{})
	if l.also == nil {
		_ = unix.Dup3(int(f.Fd()), 2, 0)
	}

	return nil
}

// Write implements io.Writer. The log never fails its writer: a full disk must
// not stop the daemon.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.also != nil {
		_, _ = l.also.Write(p)
	}

	if l.f != nil {
		l.write(p)
	} else if len(l.held) < maxLog {
		l.held = append(l.held, p...)
	}

	return len(p), nil
}

func (l *logFile) write(p []byte) {
	if l.size > 0 && l.size+int64(len(p)) > l.max {
		err := l.dir.Rename(l.path, l.path+".1")
		if err == nil {
			err = l.reopen()
		}
		if err != nil && l.f.Truncate(0) == nil { // something is in the way
			l.size = 0
		}
	}

	n, _ := l.f.Write(p)
	l.size += int64(n)
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		l.f.Close()
		l.f = nil
		_ = l.dir.Close()
	}
}
