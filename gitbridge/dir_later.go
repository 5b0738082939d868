package gitbridge

import (
	"errors"
	"fmt"
	"io/fs"
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
	root *os.Root // nil: the directory is gone

	mu    sync.RWMutex
	files []laterFile // by position
	next  int64
}

// A LaterFile is a file as it was when the directory was read.
type LaterFile struct {
	At    int64 // the position of its first byte
	Data  []Run // what of it are no holes
	Ino   uint64
	Mtime unix.Timespec
	Ctime unix.Timespec
}

// A Run is a part of a file.
type Run struct{ Off, Len int64 }

// laterFile is one with its path and size.
type laterFile struct {
	*LaterFile
	dir  string
	name string
	size int64
}

// NewLater opens a directory, which stays the same one if it is moved, or something
// is mounted over it.
func NewLater(dir string) (*Later, error) {
	root, err := os.OpenRoot(dir)
	return &Later{root: root, next: content.Outside}, err
}

// gap is the number of positions between two files, so that no read spans both.
const gap = 64 << 10

// takes reports whether a file can wait: an empty one, or one that may not be read, cannot.
// proc is a path to it.
func (l *Later) takes(proc string, st *unix.Stat_t) bool {
	return l != nil && st.Size > 0 && unix.Faccessat(unix.AT_FDCWD, proc, unix.R_OK, unix.AT_EACCESS) == nil
}

// add gives a file positions. proc is another path to it.
func (l *Later) add(p, proc string, st *unix.Stat_t) (*LaterFile, error) {
	data, err := runsOf(proc, st)
	if err != nil {
		return nil, err
	}
	e := Entry{Path: p, Size: st.Size, Later: &LaterFile{l.next, data, st.Ino, st.Mtim, st.Ctim}}
	l.Again(e)
	return e.Later, nil
}

// Again is for an entry of the directory that was read before: it has its positions again.
func (l *Later) Again(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = e.Later.At + e.Size + gap
	dir, name := path.Split(e.Path)
	if n := len(l.files); n > 0 && l.files[n-1].dir == dir {
		dir = l.files[n-1].dir // one string for all of a directory
	}
	l.files = append(l.files, laterFile{e.Later, dir, name, e.Size})
}

// runsOf returns what of a file are no holes.
func runsOf(proc string, st *unix.Stat_t) (data []Run, err error) {
	if st.Blocks*512 >= st.Size {
		return []Run{{0, st.Size}}, nil
	}
	f, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd := int(f.Fd())
	for end := int64(0); end < st.Size; {
		begin, err := unix.Seek(fd, end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err == nil {
			end, err = unix.Seek(fd, begin, unix.SEEK_HOLE)
		}
		if err != nil {
			return nil, err
		}
		end = min(end, st.Size)
		data = append(data, Run{begin, end - begin})
	}
	return data, nil
}

// ReadAt implements content.Log.
func (l *Later) ReadAt(p []byte, pos, _ int64) error {
	l.mu.RLock()
	i := sort.Search(len(l.files), func(i int) bool { return l.files[i].At > pos }) - 1
	f := laterFile{LaterFile: &LaterFile{}}
	if i >= 0 {
		f = l.files[i]
	}
	l.mu.RUnlock()
	if pos-f.At+int64(len(p)) > f.size {
		return fmt.Errorf("no file is at position %d", pos)
	}
	err := l.read(f, p, pos-f.At)
	for _, passing := range []error{nil, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR} {
		if errors.Is(err, passing) {
			return err
		}
	}
	return lostFile{errs.New(errs.Damaged, "%q cannot be imported: %w", f.dir+f.name, err)}
}

// errOther is for a file that is not what it was.
var errOther = errors.New("it changed before it was read")

func (l *Later) read(f laterFile, p []byte, off int64) error {
	if l.root == nil {
		return fs.ErrNotExist
	}
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
	return unix.Fstat(int(file.Fd()), &st) == nil && st.Ino == f.Ino && st.Size == f.size && st.Mtim == f.Mtime && st.Ctim == f.Ctime
}

// A lostFile is the error of a file that cannot be read any more. It is one of damage,
// which does not pass.
type lostFile struct{ error }

// Lost reports to a sealer that no other attempt helps.
func (e lostFile) Lost() bool { return true }

// Unwrap implements errors.Unwrap.
func (e lostFile) Unwrap() error { return e.error }
