package gitbridge

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
	"golang.org/x/sys/unix"
)

// Meta is what a file of any type has.
type Meta struct {
	Mode     uint32 // S_IFMT and permission bits, as st_mode
	UID, GID uint32
	Atime    int64 // nanoseconds since 1970
	Mtime    int64
	Xattrs   []tree.Xattr // sorted by name
}

// Sink takes a tree, in whatever order the source has it. Paths are relative to
// the place of the import, with "/" between names and no ".", ".." or empty ones.
//
// A path may come twice: a directory then only gets new attributes, anything
// else is replaced. A directory that an archive left out is made; what makes no
// sense is refused with ErrHostile: a path below something that is no directory,
// a directory that was something else, or the other way round, a hard link to
// what did not come before. An error ends the import.
type Sink interface {
	// Dir makes a directory. The path "." is the root of the import itself,
	// which exists: it gets the attributes.
	Dir(path string, m Meta) error
	// File makes a regular file of the size bytes of r.
	File(path string, m Meta, size int64, r io.Reader) error
	// Symlink makes a symbolic link to target, whatever that is.
	Symlink(path, target string, m Meta) error
	// Hardlink gives the file at oldpath, which came before, another name.
	Hardlink(path, oldpath string) error
	// Special makes a FIFO, socket or device, as m.Mode says.
	Special(path string, m Meta, rdev uint32) error
}

// Errors of sources that are not what they should be.
var (
	// ErrHostile: a name that leads out of the import, or a structure that
	// makes no sense. Nothing has been imported.
	ErrHostile = errors.New("refused")
	// ErrTooBig: the source is larger than the limits say.
	ErrTooBig = errs.New(errs.TooBig, "too big")
)

// Limits bound what a source may bring. 0 means the default.
type Limits struct {
	Entries int64 // default 20 million
	Bytes   int64 // sum of file sizes; default 1 TiB
}

func (l Limits) entries() int64 {
	if l.Entries > 0 {
		return l.Entries
	}
	return 20_000_000
}

func (l Limits) bytes() int64 {
	if l.Bytes > 0 {
		return l.Bytes
	}
	return 1 << 40
}

// Limits of Linux, which the tree has too.
const (
	maxName = 255
	maxPath = 4095
)

// checkedSink stands between a source and the sink. It checks paths and counts.
type checkedSink struct {
	sink     Sink
	limits   Limits
	progress func(Progress)

	done    Progress
	entries int64
}

func newCheckedSink(sink Sink, o ImportOptions) *checkedSink {
	return &checkedSink{sink: sink, limits: o.Limits, progress: o.Progress}
}

// clean returns name in the form that a Sink takes, or refuses it. "./" before
// it, double slashes and a slash at the end mean nothing.
func clean(name string) (string, error) {
	if strings.HasPrefix(name, "/") {
		return "", fmt.Errorf("%w: %q is an absolute path", ErrHostile, name)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%w: %q has a NUL", ErrHostile, name)
	}
	for _, c := range strings.Split(name, "/") {
		if c == ".." {
			return "", fmt.Errorf("%w: %q leads upwards", ErrHostile, name)
		}
		if len(c) > maxName {
			return "", fmt.Errorf("%w: %.40q… has a name of over %d bytes", ErrHostile, name, maxName)
		}
	}
	p := path.Clean(name)
	if len(p) > maxPath {
		return "", fmt.Errorf("%w: %.40q… is over %d bytes long", ErrHostile, name, maxPath)
	}
	return p, nil
}

// enter counts what is about to come.
func (g *checkedSink) enter() error {
	if g.entries++; g.entries > g.limits.entries() {
		return fmt.Errorf("%w: over %d files", ErrTooBig, g.limits.entries())
	}
	return nil
}

// enterFile does so for what is no directory.
func (g *checkedSink) enterFile(p string) error {
	if p == "." {
		return fmt.Errorf("%w: the root is no directory", ErrHostile)
	}
	return g.enter()
}

func (g *checkedSink) dir(p string, m Meta) error {
	if err := g.enter(); err != nil {
		return err
	}
	m.Mode = unix.S_IFDIR | m.Mode&0o7777
	return g.counted(g.sink.Dir(p, m))
}

func (g *checkedSink) file(p string, m Meta, size int64, r io.Reader) error {
	if err := g.enterFile(p); err != nil {
		return err
	}
	m.Mode = unix.S_IFREG | m.Mode&0o7777
	if size < 0 || size > g.limits.bytes()-g.done.Bytes {
		return fmt.Errorf("%w: files of over %d bytes in total", ErrTooBig, g.limits.bytes())
	}
	g.done.Bytes += size
	return g.counted(g.sink.File(p, m, size, r))
}

func (g *checkedSink) symlink(p, target string, m Meta) error {
	if err := g.enterFile(p); err != nil {
		return err
	}
	if target == "" || len(target) > maxPath || strings.IndexByte(target, 0) >= 0 {
		return fmt.Errorf("%w: %q is a symbolic link to %.40q", ErrHostile, p, target)
	}
	m.Mode = unix.S_IFLNK | 0o777
	return g.counted(g.sink.Symlink(p, target, m))
}

func (g *checkedSink) hardlink(p, old string) error {
	if p == old {
		return fmt.Errorf("%w: %q is a hard link to itself", ErrHostile, p)
	}
	if err := g.enterFile(p); err != nil {
		return err
	}
	return g.counted(g.sink.Hardlink(p, old))
}

func (g *checkedSink) special(p string, m Meta, rdev uint32) error {
	if err := g.enterFile(p); err != nil {
		return err
	}
	return g.counted(g.sink.Special(p, m, rdev))
}

func (g *checkedSink) counted(err error) error {
	g.done.Files++
	if err == nil && g.progress != nil && g.done.Files%64 == 0 {
		g.progress(g.done)
	}
	return err
}
