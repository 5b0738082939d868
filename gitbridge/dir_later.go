package gitbridge

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Later has the contents of files of a directory read when they are needed, instead
// of while the directory is. Each file has a range of positions from
// content.Outside on; a read at one of them reads the file, as long as it is what it
// was: a file that changed meanwhile is lost, never mixed with what it was.
//
// Its methods are safe for concurrent use.
type Later struct {
	root *os.Root

	mu    sync.RWMutex
	files []laterFile // by position
	next  int64
}

// laterFile is a file as it was when the directory was read.
type laterFile struct {
	at   int64 // position of its first byte
	dir  string
	name string
	dev  uint64
	ino  uint64
	size int64
	mt   unix.Timespec
	ct   unix.Timespec
}

// NewLater opens a directory, which stays the same one if it is moved, or something
// is mounted over it.
func NewLater(dir string) (*Later, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Later{root: root, next: content.Outside}, nil
}

// gap is the number of positions between two files, so that no read spans both.
const gap = 64 << 10

// takes reports whether a file can wait: one that has holes, or that may not be
// read, cannot. proc is a path to it.
func (l *Later) takes(proc string, st *unix.Stat_t) bool {
	if l == nil || st.Size == 0 || st.Blocks*512 < st.Size || st.Size > 1<<40 {
		return false
	}
	mine := st.Uid == uint32(os.Geteuid()) && st.Mode&unix.S_IRUSR != 0
	return mine || unix.Faccessat(unix.AT_FDCWD, proc, unix.R_OK, unix.AT_EACCESS) == nil
}

// add gives a file positions, and returns that of its first byte.
func (l *Later) add(p string, st *unix.Stat_t) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.next
	l.next += st.Size + gap
	dir, name := path.Split(p)
	if n := len(l.files); n > 0 && l.files[n-1].dir == dir {
		dir = l.files[n-1].dir // one string for all of a directory
	}
	l.files = append(l.files, laterFile{at, dir, name, st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim})
	return at
}

// ReadAt implements content.Log: it fills p with the bytes at a position in the file
// that begins at another.
func (l *Later) ReadAt(p []byte, pos, begin int64) error {
	l.mu.RLock()
	i := sort.Search(len(l.files), func(i int) bool { return l.files[i].at >= begin })
	var f laterFile
	if i < len(l.files) {
		f = l.files[i]
	}
	l.mu.RUnlock()
	off := pos - begin
	if f.at != begin || off < 0 || off+int64(len(p)) > f.size {
		return fmt.Errorf("no file is at position %d", pos)
	}
	err := l.read(f, p, off)
	for _, passing := range []error{nil, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR} {
		if errors.Is(err, passing) {
			return err
		}
	}
	return &lostFile{f.dir + f.name, err}
}

// errOther is for a file that is not what it was.
var errOther = errors.New("it changed before it was read")

func (l *Later) read(f laterFile, p []byte, off int64) error {
	file, err := l.root.OpenFile(f.dir+f.name, unix.O_NONBLOCK, 0)
	if err != nil {
		return reason(err)
	}
	defer file.Close()
	if !f.is(file) {
		return errOther
	}
	if _, err := file.ReadAt(p, off); err != nil {
		return reason(err)
	}
	if !f.is(file) { // it may have changed while it was read
		return errOther
	}
	return nil
}

// is reports whether an open file is that file, as it was.
func (f *laterFile) is(file *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(file.Fd()), &st) == nil && st.Dev == f.dev && st.Ino == f.ino && st.Size == f.size && st.Mtim == f.mt && st.Ctim == f.ct
}

// A lostFile is the error of a file that cannot be read any more.
type lostFile struct {
	path  string
	cause error
}

// Error implements error.
func (e *lostFile) Error() string {
	return fmt.Sprintf("%q cannot be imported: %v", e.path, e.cause)
}

// Lost reports to a sealer that no other attempt helps.
func (e *lostFile) Lost() bool { return true }

// Unwrap makes the error one of damage, which does not pass.
func (e *lostFile) Unwrap() []error { return []error{errs.Damaged, e.cause} }
