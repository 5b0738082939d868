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

// LogName is the name of the log in the store.
const LogName = "amberfs.log"

// maxLogSize is the size in bytes above which the log is renamed. It is also the maximum size of the buffer before
// open.
const maxLogSize = 4 << 20

// A logFile is the daemon's log. It is in memory until the store exists, and then in a
// file that is renamed to amberfs.log.1 when it grows.
type logFile struct {
	copyTo io.Writer // gets a copy of the log: the terminal, with -f; may be nil

	mu       sync.Mutex // guards the fields below
	buffered []byte     // the log before open
	dir      *vfs.Root
	path     string
	file     *os.File // nil before open
	size     int64
	maxSize  int64
}

// LogLine appends a line to the log of a store whose daemon is not running.
func LogLine(store, text string, args ...any) {
	l := newLogFile(io.Discard) // the writer prevents reopen from redirecting the error output of this process
	if l.open(store) != nil {
		return
	}
	slog.New(slog.NewTextHandler(l, nil)).Error(text, args...)
	l.close()
}

func newLogFile(copyTo io.Writer) *logFile { return &logFile{copyTo: copyTo, maxSize: maxLogSize} }

func (l *logFile) open(store string) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.path = filepath.Join(store, LogName)
	var err error
	if l.dir, err = vfs.OpenRoot(store); err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	if err := l.reopen(); err != nil {
		return fmt.Errorf("opening the log: %w", errors.Join(err, l.dir.Close()))
	}

	l.write(l.buffered)
	l.buffered = nil

	return nil
}

// reopen opens the file at path, and closes the file that was open before. The caller holds mu.
func (l *logFile) reopen() error {
	f, err := l.dir.OpenOSFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}

	st, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}

	if l.file != nil {
		l.file.Close()
	}

	l.file, l.size = f, st.Size()
	// The stacks that the Go runtime prints in a crash are also written to the log.
	_ = debug.SetCrashOutput(f, debug.CrashOptions{})
	if l.copyTo == nil {
		_ = unix.Dup3(int(f.Fd()), 2, 0)
	}

	return nil
}

// Write implements io.Writer. It never returns an error: a full disk must not stop the daemon.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.copyTo != nil {
		_, _ = l.copyTo.Write(p)
	}

	if l.file != nil {
		l.write(p)
	} else if len(l.buffered) < maxLogSize {
		l.buffered = append(l.buffered, p...)
	}

	return len(p), nil
}

// write appends to the file. If the file is full, write first renames it and makes a new one. The caller holds mu.
func (l *logFile) write(p []byte) {
	if l.size > 0 && l.size+int64(len(p)) > l.maxSize {
		err := l.dir.Rename(l.path, l.path+".1")
		if err == nil {
			err = l.reopen()
		}
		if err != nil && l.file.Truncate(0) == nil { // a file that cannot be renamed loses its contents instead
			l.size = 0
		}
	}

	n, _ := l.file.Write(p)
	l.size += int64(n)
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		l.file.Close()
		l.file = nil
		_ = l.dir.Close()
	}
}
