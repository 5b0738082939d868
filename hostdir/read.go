package hostdir

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// ReadOptions select the entries of a directory that are read.
type ReadOptions struct {
	stream.Options
	// Exclude are directories that are not read, such as the store and the mount point. They
	// may not exist.
	Exclude []string
	// Hidden are paths that are not read.
	Hidden Hidden
	// Git, if set, finds git directories outside of the directory, which are then read as if they were in it.
	Git Git
	// Whole also reads files whose mode denies their owner the access, see asOwner.
	Whole bool
	// Stubs copies an entry that cannot be read as an empty one, instead of leaving it out.
	Stubs bool
	// Prefetch, if set, is called with the objects that are read next.
	Prefetch func([]cas.Hash) error
	// Since, if set, is the time at which the tree was written to the directory, perhaps with other owners.
	// ReadChanges takes a file for unchanged if its change time is not later than Since.
	Since int64

	only *pathSet // the paths to read; nil for all. If it is set, the caller has locked the directory with lockDir.
}

// Read feeds a directory of the host to sink: files with their holes, symbolic links, hard links between its
// files, FIFOs, sockets and devices, with owners, modes, times and extended attributes. It follows no symbolic
// link, even if a link is created during the read. A file that grows is read up to the size that it had at first.
// A file that shrinks is an error.
func Read(ctx context.Context, dir string, sink stream.Sink, o ReadOptions) error {
	return newDirReader(ctx, sink, o).read(dir)
}

func newDirReader(ctx context.Context, sink stream.Sink, o ReadOptions) *dirReader {
	d := &dirReader{Checker: stream.NewChecker(sink, o.Options), ctx: ctx, o: o, links: make(map[fileID]string), groups: make(map[uint64]bool), exclude: excluded(o.Exclude)}
	d.hidden.Hidden = o.Hidden
	return d
}

func (d *dirReader) read(dir string) error {
	d.startDelivery()
	err := d.readRoot(dir)
	if err = cmp.Or(d.endDelivery(), err); err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}

	return nil
}

// NotThere reports whether a directory is empty, and is not the directory from which the state was read. Then the
// file system that was mounted at its path is probably not mounted now.
func NotThere(dir string, src *tree.Source, before *tree.State) (bool, error) {
	root, err := before.Get(src, tree.RootIno)
	if err != nil || root == nil || root.Dir.Len() == 0 {
		return false, err
	}

	f, err := os.OpenFile(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()

	if _, err := f.Readdirnames(1); err != io.EOF {
		return false, err
	}

	at := birthTime(int(f.Fd()))
	return at == 0 || at != root.Btime, nil
}

// A fileID identifies a file: hard links of one file have one fileID.
type fileID struct{ dev, ino uint64 }

type dirReader struct {
	*stream.Checker
	*delivery
	ctx     context.Context
	o       ReadOptions
	src     *tree.Source
	before  *tree.State // see ReadChanges; nil to read all entries
	links   map[fileID]string
	groups  map[uint64]bool // groups of inodes of before that prefetch has asked for
	exclude map[fileID]bool
	hidden  hiddenFiles
	top     string         // the directory's path without symbolic links if git is set, else ""
	buf     [64 << 10]byte // large enough for the longest extended attribute
}

// applyWait is the longest time that a read waits for another process that has the directory locked.
const applyWait = 30 * time.Second

func (d *dirReader) readRoot(dir string) error {
	fd, err := openFile(dir, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := &namedFile{path: -1, data: fd}
	defer f.close()

	if d.hidden, err = d.hidden.in(d.ctx, procPath(fd), d.exclude); err != nil {
		return err
	}
	if d.o.Git != nil {
		if d.top, err = os.Readlink(procPath(fd)); err != nil {
			return reason(err)
		}
	}

	// Wait for the end of an apply: a half applied directory must not be read.
	ctx, stop := context.WithTimeout(d.ctx, applyWait)
	defer stop()

	if d.o.only == nil {
		lock, err := lockDir(ctx, fd, unix.F_RDLCK, nil)
		if err != nil && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		defer lock.Close()
	}

	if err := f.stat(); err != nil {
		return err
	}
	e, err := d.open(".", f)
	if err != nil {
		return err
	}

	var was *tree.Inode
	if d.before != nil {
		if was, err = d.before.Get(d.src, tree.RootIno); err != nil {
			return err
		}
	}

	if was == nil || !d.unchanged(was, f.born, &f.st) {
		if err := d.add(e); err != nil {
			return err
		}
	}

	return d.dir(".", f.directory(), was)
}

// dir reads the entries of an open directory, and closes it. was is the directory in d.before, nil if it is new.
func (d *dirReader) dir(at string, f *os.File, was *tree.Inode) error {
	if f == nil {
		return nil // a directory that cannot be read is copied without its entries
	}
	defer f.Close()

	if err := d.ctx.Err(); err != nil {
		return err
	}

	entries, err := f.ReadDir(-1)
	if err != nil {
		return d.SkipFile(at, fmt.Errorf("%q: %w", at, reason(err)))
	}

	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	names := make([]string, 0, len(entries))

	for _, e := range entries {
		name := e.Name()
		if !d.o.only.has(path.Join(at, name)) || d.isLeftTemp(at, name) {
			continue
		}

		names = append(names, name)
		then, err := d.beforeIn(was, name)
		if err == nil {
			err = d.entry(path.Join(at, name), f, name, e.Type(), then)
		}
		if err != nil {
			return err
		}
	}

	return d.addWhiteouts(at, was, names)
}

// isLeftTemp reports whether a name is the temporary name of a file that a killed apply left.
func (d *dirReader) isLeftTemp(at, name string) bool {
	if !anyTemp().MatchString(name) {
		return false
	}
	if d.Skip != nil {
		d.Skip(path.Join(at, name), ErrInterrupted)
	}

	return true
}

// entry reads one name of an open directory. It opens the file once, without following a link, and reads the file
// that it opened even if a program replaces the name. listed is the type of the file in the directory's listing.
func (d *dirReader) entry(at string, parent *os.File, name string, listed fs.FileMode, was *tree.Inode) error {
	if was != nil && !was.IsDir() && name != ".git" && d.unchangedIn(was, int(parent.Fd()), name) {
		return nil
	}

	f, err := d.openName(int(parent.Fd()), name, listed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the file was deleted after the names were read
	}
	if err != nil {
		return d.SkipFile(at, fmt.Errorf("%q: %w", at, err))
	}
	defer f.close()

	st := &f.st
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir && d.exclude[fileID{st.Dev, st.Ino}] {
		return nil
	}
	if d.hidden.has(at, st) {
		if was != nil || !d.hidden.Empty {
			return nil
		}
		return d.addHidden(at, st)
	}

	if name == ".git" && !isDir && d.top != "" {
		if l := d.linkedIn(int(parent.Fd())); l != nil {
			return d.addLinked(at, l, was)
		}
	}

	return d.file(at, f, was)
}

// file reads a file or directory.
func (d *dirReader) file(at string, f *namedFile, was *tree.Inode) error {
	st := &f.st
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir && was != nil && was.Mode&ownerAccess != ownerAccess && st.Mode == was.Mode|openMode {
		st.Mode = was.Mode // a killed apply has left the directory open, see host_open.go
	}

	same := was != nil && d.unchanged(was, f.born, st)
	if same && !isDir {
		return nil
	}
	if d.before != nil && len(at) > stream.MaxPath {
		return d.SkipFile(at, fmt.Errorf("%.40q… is over %d bytes long", at, stream.MaxPath))
	}

	id, linked := fileID{st.Dev, st.Ino}, st.Nlink > 1 && !isDir
	if old, ok := d.links[id]; ok && linked {
		return d.add(stream.Entry{Path: at, Hardlink: old})
	}

	e, err := d.open(at, f)
	if err != nil {
		stub := d.o.Stubs && errors.Is(err, unix.EACCES) && st.Uid != uint32(os.Geteuid())
		if err = d.SkipFile(at, fmt.Errorf("%q: %w", at, reason(err))); err != nil || !stub {
			return err
		}

		e.Data, e.Sparse, e.Parts = bytes.NewReader(nil), e.Size > 0, nil
		e.Ctime = 0 // so that the next ReadChanges reads the file again
	}

	if !isDir {
		if linked {
			d.links[id] = at
		}
		return d.addFile(e, f.take())
	}
	if !same {
		if err := d.add(e); err != nil {
			return err
		}
	}

	return d.dir(at, f.directory(), was)
}

// timeOf returns a time of a file in nanoseconds, limited to the times that a snapshot can store.
func timeOf(ts unix.Timespec) int64 {
	t, _ := filetime.FromUnix(ts.Unix())
	return t
}

// reason removes the path that the os package adds to its errors, because it is a path in /proc
// that users do not know.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
