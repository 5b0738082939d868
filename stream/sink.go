package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Meta is the attributes that files of all types have.
type Meta struct {
	Mode     uint32 // S_IFMT and permission bits, as st_mode
	UID, GID uint32
	Atime    int64 // nanoseconds since 1970
	Mtime    int64
	Ctime    int64        // of the last change, if the source has it
	Btime    int64        // of birth, if the source has it
	Xattrs   []tree.Xattr // sorted by name
}

// An Entry is one path of an import with its file.
type Entry struct {
	Path string // relative to the place of the import; "." is its root, a directory
	Meta

	Hardlink string // if set, the path of the file that this is another name of; nothing else counts then
	Target   string // of a symbolic link
	Rdev     uint32 // of a device

	// Of a regular file: its size and a reader of so many bytes. Fewer mean that it became
	// shorter.
	Size  int64
	Data  io.Reader
	Holes int64 // how many of the bytes are in holes, if that is known
	// Sparse: Data has only the Parts of the file that have data. Otherwise it has holes as zeros.
	Sparse bool
	Parts  []content.Part

	// In a layer of an image, Whiteout removes Path of the layers below, and Opaque removes the entries in
	// Path of these layers. If one of them is set, the fields other than Path are ignored.
	Whiteout, Opaque bool
}

// A Sink receives the entries of a tree, in the order of the source. Paths are relative, with "/"
// between names and no ".", ".." or empty ones.
//
// A path may come twice: a directory then gets new attributes, and anything else is replaced. A
// directory that an archive leaves out is made. A Sink returns ErrHostile for a path below something
// other than a directory, for a path that is a directory only one of two times, and for a hard link
// to a path that did not come before. An error ends the import.
type Sink func(Entry) error

// Errors of sources that are not what they should be.
var (
	// ErrHostile: a name outside of the import, or a structure that
	// makes no sense. Nothing has been imported.
	ErrHostile = errors.New("refused")
	// ErrTooBig: the source is larger than the limits.
	ErrTooBig = errs.New(errs.TooBig, "too big")
)

// Limits bound an import. 0 means the default.
type Limits struct {
	Entries int64 // default 20 million
	Bytes   int64 // of the files, without the holes that are known; default 1 TiB
}

// Limits of Linux, which the tree has too.
const (
	maxName  = 255
	MaxPath  = 4095
	maxValue = 64 << 10 // of an extended attribute
	NoID     = 1<<32 - 1
)

// Clean returns name in the form that a Sink takes, or an error. It removes "./" at the beginning,
// double slashes, and a slash at the end.
func Clean(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return "", fmt.Errorf("%w: %q is an absolute path", ErrHostile, name)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%w: %q has a NUL", ErrHostile, name)
	}

	for c := range strings.SplitSeq(name, "/") {
		if c == ".." {
			return "", fmt.Errorf("%w: %q contains ..", ErrHostile, name)
		}
		if len(c) > maxName {
			return "", fmt.Errorf("%w: %.40q… has a name of over %d bytes", ErrHostile, name, maxName)
		}
	}

	p := path.Clean(name)
	if len(p) > MaxPath {
		return "", fmt.Errorf("%w: %.40q… is over %d bytes long", ErrHostile, name, MaxPath)
	}

	return p, nil
}

// fileTypes are the file types that an entry can have.
var fileTypes = []uint32{unix.S_IFDIR, unix.S_IFREG, unix.S_IFLNK, unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFSOCK}

// A Checker passes entries from a source to its sink. It checks them, and enforces the limits.
type Checker struct {
	Options
	Sink Sink
	Done Progress
}

func NewChecker(sink Sink, o Options) *Checker {
	if o.Limits.Entries <= 0 {
		o.Limits.Entries = 20_000_000
	}
	if o.Limits.Bytes <= 0 {
		o.Limits.Bytes = 1 << 40
	}

	return &Checker{Options: o, Sink: sink}
}

// Count counts one more entry.
func (c *Checker) Count() error {
	if c.Done.Files++; c.Done.Files > c.Limits.Entries {
		return fmt.Errorf("%w: over %d files", ErrTooBig, c.Limits.Entries)
	}
	return nil
}

func (c *Checker) Add(e Entry) error {
	if err := c.Count(); err != nil {
		return err
	}

	kind := e.Mode & unix.S_IFMT
	switch {
	case e.Path == "." && (kind != unix.S_IFDIR || e.Hardlink != ""):
		return fmt.Errorf("%w: the root is not a directory", ErrHostile)
	case e.Path == e.Hardlink:
		return fmt.Errorf("%w: %q is a hard link to itself", ErrHostile, e.Path)
	case kind == unix.S_IFLNK && (e.Target == "" || len(e.Target) > MaxPath || strings.IndexByte(e.Target, 0) >= 0):
		return fmt.Errorf("%w: %q is a symbolic link to %.40q", ErrHostile, e.Path, e.Target)
	case e.Hardlink == "" && !e.Whiteout && !slices.Contains(fileTypes, kind), e.UID == NoID, e.GID == NoID:
		return fmt.Errorf("%w: %q has the mode %o and belongs to %d:%d", ErrHostile, e.Path, e.Mode, e.UID, e.GID)
	case !partsFit(e):
		return fmt.Errorf("%w: the holes of %q are not in it", ErrHostile, e.Path)
	case e.Size > live.MaxFileSize:
		return fmt.Errorf("%w: %q has %d bytes, at most %d are possible", ErrTooBig, e.Path, e.Size, int64(live.MaxFileSize))
	case e.Size < 0 || e.DataSize() > c.Limits.Bytes-c.Done.Bytes:
		return fmt.Errorf("%w: files of over %d bytes in total", ErrTooBig, c.Limits.Bytes)
	}

	for _, x := range e.Xattrs {
		if x.Name == "" || len(x.Name) > maxName || strings.IndexByte(x.Name, 0) >= 0 || len(x.Value) > maxValue {
			return fmt.Errorf("%w: %q has the extended attribute %.40q of %d bytes", ErrHostile, e.Path, x.Name, len(x.Value))
		}
	}

	c.Done.Bytes += e.DataSize()
	if err := c.Sink(e); err != nil {
		return err
	}
	if c.Progress != nil && c.Done.Files%64 == 0 {
		c.Progress(c.Done)
	}

	return nil
}

// Options apply to every source.
type Options struct {
	// Owner replaces the owners that the source has. Git has none: without
	// Owner its files belong to the user of this process.
	Owner *Owner
	// Skip is called with files that cannot be read or stored, which are left out. Nil
	// makes that an error.
	Skip   func(path string, reason error)
	Limits Limits
	// Umask takes permissions from the files of a git repository, as for git checkout.
	Umask    uint32
	Progress func(Progress) // called now and then; may be nil
}

// Owner is a user and a group.
type Owner struct{ UID, GID uint32 }

func (o Options) Own(m Meta) Meta {
	if o.Owner != nil {
		m.UID, m.GID = o.Owner.UID, o.Owner.GID
	}
	return m
}

// LeaveOut reports a file that is left out, or returns why it cannot be.
func (o Options) LeaveOut(path string, reason error) error {
	if o.Skip == nil {
		return reason
	}
	o.Skip(path, reason)
	return nil
}

// MaxParts is how many parts of a file with holes are distinguished. The rest is read as one part.
const MaxParts = 1 << 16

// partsFit reports whether the parts of a file are in order, and in it.
func partsFit(e Entry) bool {
	at := int64(0)
	for _, p := range e.Parts {
		if p.Off < at || p.N <= 0 || p.N > e.Size-p.Off {
			return false
		}
		at = p.Off + p.N
	}

	return len(e.Parts) <= MaxParts
}

// DataSize returns how many bytes Data has.
func (e Entry) DataSize() (n int64) {
	if !e.Sparse {
		return e.Size
	}
	for _, p := range e.Parts {
		n += p.N
	}

	return n
}

// Progress counts what is done so far.
type Progress struct {
	Files int64
	Bytes int64 // of contents that had to be read
}

// Omission is a path with something that a commit cannot represent.
type Omission struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// WithContext returns a reader that ends with the context.
func WithContext(ctx context.Context, r io.Reader) io.Reader { return &contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func SortXattrs(x []tree.Xattr) {
	slices.SortFunc(x, func(a, b tree.Xattr) int { return strings.Compare(a.Name, b.Name) })
}
