package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Meta has the attributes that files of all types have.
type Meta struct {
	Mode     uint32 // S_IFMT and permission bits, as st_mode
	UID, GID uint32
	Atime    int64 // nanoseconds since 1970
	Mtime    int64
	Ctime    int64        // time of the last change, if the source has it
	Btime    int64        // time of birth, if the source has it
	Xattrs   []tree.Xattr // sorted by name
}

// An Entry is a path in a tree, with the attributes and the contents of its file.
type Entry struct {
	Path string // relative to the root of the tree; "." is the root itself, a directory
	Meta

	Hardlink string // if set, Path is a hard link to the file at this path, and the fields below are ignored
	Target   string // the target of a symbolic link
	Rdev     uint32 // the number of a device

	// For a regular file, Size is the size in bytes, and Data reads the contents. If Data ends early, the file was
	// truncated during the read.
	Size  int64
	Data  io.Reader
	Holes int64 // number of bytes in holes, if the source knows it
	// File, if set, is the file that Data reads. If a Writer sends the open file instead of its bytes, it sets Sent.
	File OpenFile
	Sent bool
	// Sparse is set if Data has only the Parts of the file. Otherwise Data has zeros for the holes.
	Sparse bool
	Parts  []content.DataRange

	// Whiteout and Opaque are set only in a layer of an image. Whiteout removes the file at Path in the layers
	// below. Opaque removes the entries of the directory at Path in these layers. If one of them is set, the fields
	// other than Path are ignored.
	Whiteout, Opaque bool
}

// An OpenFile is a file that is open for reading.
type OpenFile interface {
	io.ReaderAt
	Fd() uintptr
}

// A Sink receives the entries of a tree, in the order of the source. Paths are relative, with "/" between names and
// no ".", ".." or empty ones.
//
// A path may be in two entries: the second one replaces a file, and sets the attributes of a directory. If the
// source has no entry for a directory above a path, the sink creates that directory. An error ends the stream. A
// Sink returns ErrHostile for:
//
//   - a path below a file that is not a directory;
//   - a path that is a directory in only one of two entries;
//   - a hard link to a path without an earlier entry.
type Sink func(Entry) error

var (
	// ErrHostile is the error for a path outside of the root, and for entries that contradict each other.
	ErrHostile = errors.New("refused")
	// ErrTooBig is the error for a source that is larger than the Limits.
	ErrTooBig = errs.New(errs.TooBig, "too big")
)

// Limits are the limits of a stream. 0 means the default.
type Limits struct {
	Entries int64 // default 20 million
	Bytes   int64 // bytes of all files, without known holes; default 1 TiB
}

// The limits of Linux, which are also the limits of a tree. NoID is -1 as a uint32: Linux gives this id to no user or
// group.
const (
	maxNameBytes       = 255
	MaxPathBytes       = 4095
	maxXattrValueBytes = 64 << 10 // the value of an extended attribute
	NoID               = 1<<32 - 1
)

// CleanPath returns a path in the form in which a Sink takes it: it removes "./" at the beginning, double slashes,
// and a slash at the end. It returns ErrHostile for a path that is absolute, contains "..", or is too long.
func CleanPath(name string) (string, error) {
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
		if len(c) > maxNameBytes {
			return "", fmt.Errorf("%w: %.40q… has a name of over %d bytes", ErrHostile, name, maxNameBytes)
		}
	}

	p := path.Clean(name)
	if len(p) > MaxPathBytes {
		return "", fmt.Errorf("%w: %.40q… is over %d bytes long", ErrHostile, name, MaxPathBytes)
	}

	return p, nil
}

// fileTypes are the file types that an entry can have.
var fileTypes = []uint32{unix.S_IFDIR, unix.S_IFREG, unix.S_IFLNK, unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFSOCK}

// A Checker passes entries from a source to its sink. It checks them, and enforces the limits.
type Checker struct {
	Options
	Sink  Sink
	Total Progress // the entries that were counted so far, and the bytes of their data
}

// NewChecker returns a Checker for a sink.
func NewChecker(sink Sink, o Options) *Checker {
	if o.Limits.Entries <= 0 {
		o.Limits.Entries = 20_000_000
	}
	if o.Limits.Bytes <= 0 {
		o.Limits.Bytes = 1 << 40
	}

	return &Checker{Options: o, Sink: sink}
}

// CountEntry counts one more entry. It returns ErrTooBig if the source has more entries than the limit.
func (c *Checker) CountEntry() error {
	if c.Total.Files++; c.Total.Files > c.Limits.Entries {
		return fmt.Errorf("%w: over %d files", ErrTooBig, c.Limits.Entries)
	}
	return nil
}

// Add checks an entry, and passes it to the sink. The method is a Sink.
func (c *Checker) Add(e Entry) error {
	if err := c.CountEntry(); err != nil {
		return err
	}

	kind := e.Mode & unix.S_IFMT
	switch {
	case e.Path == "." && (kind != unix.S_IFDIR || e.Hardlink != ""):
		return fmt.Errorf("%w: the root is not a directory", ErrHostile)
	case e.Path == e.Hardlink:
		return fmt.Errorf("%w: %q is a hard link to itself", ErrHostile, e.Path)
	case kind == unix.S_IFLNK && (e.Target == "" || len(e.Target) > MaxPathBytes || strings.IndexByte(e.Target, 0) >= 0):
		return fmt.Errorf("%w: %q is a symbolic link to %.40q", ErrHostile, e.Path, e.Target)
	case e.Hardlink == "" && !e.Whiteout && !slices.Contains(fileTypes, kind), e.UID == NoID, e.GID == NoID:
		return fmt.Errorf("%w: %q has the mode %o and belongs to %d:%d", ErrHostile, e.Path, e.Mode, e.UID, e.GID)
	case !partsFit(e):
		return fmt.Errorf("%w: the holes of %q are not in it", ErrHostile, e.Path)
	case e.Size > live.MaxFileSize:
		return fmt.Errorf("%w: %q has %d bytes, at most %d are possible", ErrTooBig, e.Path, e.Size, int64(live.MaxFileSize))
	case e.Size < 0 || e.DataSize() > c.Limits.Bytes-c.Total.Bytes:
		return fmt.Errorf("%w: files of over %d bytes in total", ErrTooBig, c.Limits.Bytes)
	}

	for _, x := range e.Xattrs {
		if x.Name == "" || len(x.Name) > maxNameBytes || strings.IndexByte(x.Name, 0) >= 0 || len(x.Value) > maxXattrValueBytes {
			return fmt.Errorf("%w: %q has the extended attribute %.40q of %d bytes", ErrHostile, e.Path, x.Name, len(x.Value))
		}
	}

	c.Total.Bytes += e.DataSize()
	if err := c.Sink(e); err != nil {
		return err
	}
	if c.Progress != nil && c.Total.Files%64 == 0 {
		c.Progress(c.Total)
	}

	return nil
}

// Options are the options for reading any kind of source.
type Options struct {
	// Owner replaces the owners of the source. Files from git belong to Owner or, if it is nil, to the user of
	// this process.
	Owner *Owner
	// Skip is called for each file that is left out because it cannot be read or stored. If Skip is nil, such a
	// file is an error.
	Skip   func(path string, reason error)
	Limits Limits
	// Umask has the permission bits that files from git do not get, as in git checkout.
	Umask    uint32
	Progress func(Progress) // called from time to time; may be nil
	// ReceiveFile returns the next file that a Writer has sent as an open file. If it is nil, Read refuses such
	// files.
	ReceiveFile func() (*os.File, error)
}

// Owner is a user and a group.
type Owner struct{ UID, GID uint32 }

// WithOwner returns the attributes m, with the owner of the options if Options.Owner is set.
func (o Options) WithOwner(m Meta) Meta {
	if o.Owner != nil {
		m.UID, m.GID = o.Owner.UID, o.Owner.GID
	}
	return m
}

// SkipFile reports to Options.Skip that a file is left out, and returns nil. If Options.Skip is nil, SkipFile returns
// the reason as an error.
func (o Options) SkipFile(path string, reason error) error {
	if o.Skip == nil {
		return reason
	}
	o.Skip(path, reason)
	return nil
}

// MaxParts is the largest number of parts of a file with holes. If a file has more parts, the last of the MaxParts
// parts has the rest of the file, including its holes.
const MaxParts = 1 << 16

// partsFit reports whether the parts of a file are in order, and within its size.
func partsFit(e Entry) bool {
	end := int64(0)
	for _, p := range e.Parts {
		if p.Off < end || p.N <= 0 || p.N > e.Size-p.Off {
			return false
		}
		end = p.Off + p.N
	}

	return len(e.Parts) <= MaxParts
}

// DataSize returns the number of bytes in Data.
func (e Entry) DataSize() (n int64) {
	if !e.Sparse {
		return e.Size
	}
	for _, p := range e.Parts {
		n += p.N
	}

	return n
}

// Progress has the numbers of entries and bytes that were read so far.
type Progress struct {
	Files int64
	Bytes int64 // bytes of contents
}

// Omission is a path that was left out, in whole or in part, and the reason.
type Omission struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// WithContext returns a reader that fails when the context has ended.
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

// SortXattrs sorts extended attributes by name, as Meta requires.
func SortXattrs(x []tree.Xattr) {
	slices.SortStableFunc(x, func(a, b tree.Xattr) int { return strings.Compare(a.Name, b.Name) })
}
