package fsmodel

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Kind says which system call an [Op] is.
type Kind int

// The operations.
const (
	Create Kind = iota // open(O_CREAT|O_EXCL)
	Write              // pwrite
	Append             // write through O_APPEND
	Truncate
	Punch // fallocate(PUNCH_HOLE)
	Copy  // copy_file_range
	Mkdir
	Symlink
	Link
	Unlink
	Rmdir
	Rename
	RenameNoReplace
	RenameExchange
	RenameWhiteout
	Chmod
	SetXattr
	RemoveXattr
	randomKinds // Random draws the operations before it
	CreateXattr // setxattr(XATTR_CREATE)
	ReplaceXattr
	Allocate // fallocate
	Mkfifo
)

var kindNames = [...]string{"create", "write", "append", "truncate", "punch", "copy", "mkdir", "symlink", "link",
	"unlink", "rmdir", "rename", "rename-noreplace", "rename-exchange", "rename-whiteout", "chmod", "setxattr", "removexattr",
	"", "createxattr", "replacexattr", "allocate", "mkfifo"}

func (k Kind) String() string { return kindNames[k] }

// An Op is one system call. Which fields count depends on the kind.
type Op struct {
	Kind     Kind
	Path, To string
	Off, Len int64
	ToOff    int64
	Fill     byte // what is written: this byte, then the next ones, over and over
	Mode     uint32
	Name     string // of an extended attribute
}

func (op Op) String() string {
	s := fmt.Sprintf("%s %s", op.Kind, op.Path)
	if op.To != "" {
		s += " " + op.To
	}
	switch op.Kind {
	case Write, Append, Punch, Truncate, Copy, Allocate:
		s += fmt.Sprintf(" off %d len %d to %d fill %d", op.Off, op.Len, op.ToOff, op.Fill)
	case Create, Mkdir, Chmod, Mkfifo:
		s += fmt.Sprintf(" mode %o", op.Mode)
	case SetXattr, RemoveXattr, CreateXattr, ReplaceXattr:
		s += fmt.Sprintf(" %s=%d", op.Name, op.Fill)
	}
	return s
}

// Bytes are what a write brings. Neighbouring bytes differ, so that a shift shows.
func (op Op) Bytes() []byte {
	p := make([]byte, op.Len)
	for i := range p {
		p[i] = op.Fill + byte(i) + byte(i>>8)
	}
	return p
}

// Value is the value that an operation gives to an extended attribute.
func (op Op) Value() string { return fmt.Sprintf("value %d", op.Fill) }

// Do performs the operation below dir. The error is an errno or nil.
func (op Op) Do(dir string) error {
	path, to := filepath.Join(dir, op.Path), filepath.Join(dir, op.To)
	at := unix.AT_FDCWD
	switch op.Kind {
	case Create:
		return withFile(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, op.Mode, nil)
	case Write:
		return withFile(path, unix.O_WRONLY, 0, func(fd int) error {
			return whole(op.Bytes(), func(p []byte, done int64) (int, error) { return unix.Pwrite(fd, p, op.Off+done) })
		})
	case Append:
		return withFile(path, unix.O_WRONLY|unix.O_APPEND, 0, func(fd int) error {
			return whole(op.Bytes(), func(p []byte, _ int64) (int, error) { return unix.Write(fd, p) })
		})
	case Truncate:
		return unix.Truncate(path, op.Len)
	case Punch:
		return withFile(path, unix.O_WRONLY, 0, func(fd int) error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, op.Off, op.Len)
		})
	case Copy:
		return withFile(path, unix.O_RDONLY, 0, func(from int) error {
			return withFile(to, unix.O_WRONLY, 0, func(fd int) error {
				off, toOff := op.Off, op.ToOff
				var st unix.Stat_t
				if err := unix.Fstat(from, &st); err != nil {
					return err
				}
				// Not more than there is now: a file copied onto itself grows.
				for left := int(min(op.Len, st.Size-op.Off)); left > 0; {
					n, err := unix.CopyFileRange(from, &off, fd, &toOff, left, 0)
					if err != nil || n == 0 {
						return err
					}
					left -= n
				}
				return nil
			})
		})
	case Mkdir:
		return unix.Mkdir(path, op.Mode)
	case Symlink:
		return unix.Symlink(op.To, path)
	case Link:
		return unix.Link(path, to)
	case Unlink:
		return unix.Unlink(path)
	case Rmdir:
		return unix.Rmdir(path)
	case Rename:
		return unix.Rename(path, to)
	case RenameNoReplace:
		return unix.Renameat2(at, path, at, to, unix.RENAME_NOREPLACE)
	case RenameExchange:
		return unix.Renameat2(at, path, at, to, unix.RENAME_EXCHANGE)
	case RenameWhiteout:
		return unix.Renameat2(at, path, at, to, unix.RENAME_WHITEOUT)
	case Chmod:
		return unix.Chmod(path, op.Mode)
	case SetXattr:
		return unix.Setxattr(path, op.Name, []byte(op.Value()), 0)
	case CreateXattr:
		return unix.Setxattr(path, op.Name, []byte(op.Value()), unix.XATTR_CREATE)
	case ReplaceXattr:
		return unix.Setxattr(path, op.Name, []byte(op.Value()), unix.XATTR_REPLACE)
	case Allocate:
		return withFile(path, unix.O_WRONLY, 0, func(fd int) error { return unix.Fallocate(fd, 0, op.Off, op.Len) })
	case Mkfifo:
		return unix.Mkfifo(path, op.Mode)
	case RemoveXattr:
		return unix.Removexattr(path, op.Name)
	}
	panic("unknown operation")
}

func withFile(path string, flags int, mode uint32, do func(fd int) error) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	if do != nil {
		err = do(fd)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return err
}

// whole goes on after a short write, which is what a program sees when a
// filesystem dies between the pieces of one write(2).
func whole(p []byte, write func(p []byte, done int64) (int, error)) error {
	for done := 0; done < len(p); {
		n, err := write(p[done:], int64(done))
		if err != nil {
			return err
		}
		if n == 0 {
			return os.ErrInvalid
		}
		done += n
	}
	return nil
}

// Splice returns data with p written at off.
func Splice(data []byte, off int64, p []byte) []byte {
	size := max(int64(len(data)), off+int64(len(p)))
	out := make([]byte, size)
	copy(out, data)
	copy(out[off:], p)
	return out
}

// Resize returns data cut, or with zeros after it.
func Resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return bytes.Clone(data[:size])
	}
	return append(bytes.Clone(data), make([]byte, size-int64(len(data)))...)
}

// Partly returns what may be left of an operation that no process answered. The
// kernel cuts a write(2) at page boundaries of the file when a page of the
// caller's memory is not at hand, and each piece is a request of its own: any
// number of the first pieces may have been done. The operation as a whole is
// the last.
func (op Op) Partly(fs *FS) []Op {
	const page = 4096
	off := op.Off
	switch op.Kind {
	case Append:
		off = fs.size(op.Path)
	case Write:
	default:
		return []Op{op}
	}
	var out []Op
	for end := (off/page + 1) * page; end < off+op.Len; end += page {
		piece := op
		piece.Len = end - off
		out = append(out, piece)
	}
	return append(out, op)
}
