package hostdir

import (
	"bytes"
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
	// Kept are relative paths that are not read. A tree that was read earlier keeps what it has there.
	Kept []string
	// Hidden are paths that are not read.
	Hidden Hidden
	// Git, if set, finds git directories outside of the directory, which are then read as if they were in it.
	Git Git
	// ReadDenied also reads files whose mode denies their owner the access, see asOwner.
	ReadDenied bool
	// StubUnreadable feeds an empty entry in place of an entry that cannot be read. Otherwise the entry is left out.
	StubUnreadable bool
	// Prefetch, if set, is called with the objects that are read next.
	Prefetch func([]cas.Hash) error
	// WrittenAt, if set, is the time (ns since 1970) at which the tree was written to the directory, perhaps with
	// other owners. ReadChanges takes a file for unchanged if its change time is not later than WrittenAt.
	WrittenAt int64

	onlyPaths *pathSet // the paths to read; nil for all. If it is set, the caller has locked the directory with lockDir.
}

// Read feeds a directory of the host to sink: files with their holes, symbolic links, hard links between its
// files, FIFOs, sockets and devices, with owners, modes, times and extended attributes. It follows no symbolic
// link, even if a link is created during the read. A file that grows is read up to the size that it had at first.
// A file that shrinks is an error.
func Read(ctx context.Context, dir string, sink stream.Sink, o ReadOptions) error {
	return ReadChanges(ctx, dir, nil, nil, sink, o)
}

// ProbablyUnmounted reports whether a directory is empty, and is not the directory from which the state was read.
// Then the file system that was mounted at its path is probably not mounted now.
func ProbablyUnmounted(dir string, src *tree.Source, before *tree.State) (bool, error) {
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

	_, birth, err := statusOf(int(f.Fd()), "", unix.AT_EMPTY_PATH)
	return birth == 0 || birth != root.Btime, err
}

// A fileID identifies a file: hard links of one file have one fileID.
type fileID struct{ dev, ino uint64 }

// A dirReader feeds a directory to a sink, for Read and ReadChanges.
type dirReader struct {
	*stream.Checker
	*delivery
	ctx              context.Context
	o                ReadOptions
	src              *tree.Source
	before           *tree.State // see ReadChanges; nil to read all entries
	linkPaths        map[fileID]string
	prefetchedGroups map[uint64]bool // groups of inodes of before that prefetch has asked for
	exclude          map[fileID]bool
	hidden           hiddenFiles
	topPath          string         // the directory's path without symbolic links if ReadOptions.Git is set, else ""
	buf              [64 << 10]byte // large enough for the longest extended attribute
}

// maxApplyWait is the longest time that a read waits for another process that has the directory locked.
const maxApplyWait = 30 * time.Second

func (d *dirReader) readRoot(dir string) error {
	fd, err := openFile(dir, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := &namedFile{pathFD: -1, dataFD: fd}
	defer f.close()

	if d.hidden, err = d.hidden.find(d.ctx, procPath(fd), d.exclude); err != nil {
		return err
	}
	if d.o.Git != nil {
		if d.topPath, err = os.Readlink(procPath(fd)); err != nil {
			return withoutPath(err)
		}
	}

	// Wait for the end of an apply: a half applied directory must not be read.
	ctx, stop := context.WithTimeout(d.ctx, maxApplyWait)
	defer stop()

	if d.o.onlyPaths == nil {
		lock, err := lockDir(ctx, fd, unix.F_RDLCK, nil)
		if err != nil && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		defer lock.Close()
	}

	if err := f.stat(); err != nil {
		return err
	}
	e, err := d.openEntry(".", f)
	if err != nil {
		return err
	}

	var before *tree.Inode
	if d.before != nil {
		if before, err = d.before.Get(d.src, tree.RootIno); err != nil {
			return err
		}
	}

	if before == nil || !d.isUnchanged(before, f.birthTime, &f.st) {
		if err := d.add(e); err != nil {
			return err
		}
	}

	return d.readEntries(".", f.takeDir(), before)
}

// readEntries reads the entries of an open directory, and closes it. dirPath is its path in the directory that is
// read, and before is the version of the directory in the tree d.before, nil if it is new.
func (d *dirReader) readEntries(dirPath string, f *os.File, before *tree.Inode) error {
	if f == nil {
		return nil // a directory that cannot be read is copied without its entries
	}
	defer f.Close()

	if err := d.ctx.Err(); err != nil {
		return err
	}

	entries, err := f.ReadDir(-1)
	if err != nil {
		return d.SkipFile(dirPath, fmt.Errorf("%q: %w", dirPath, withoutPath(err)))
	}

	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	names := make([]string, 0, len(entries))

	for _, e := range entries {
		name := e.Name()
		if !d.reads(path.Join(dirPath, name)) || d.skipTempName(dirPath, name) {
			continue
		}

		names = append(names, name)
		child, err := d.childBefore(before, name)
		if err == nil {
			err = d.readEntry(path.Join(dirPath, name), f, name, e.Type(), child)
		}
		if err != nil {
			return err
		}
	}

	return d.addWhiteouts(dirPath, before, names)
}

// reads reports whether the options select a path.
func (d *dirReader) reads(entryPath string) bool {
	return d.o.onlyPaths.has(entryPath) && !slices.Contains(d.o.Kept, entryPath)
}

// skipTempName reports whether a name is the temporary name of a file that a killed apply left. It passes
// such a name to d.Skip.
func (d *dirReader) skipTempName(dirPath, name string) bool {
	if !tempPattern().MatchString(name) {
		return false
	}
	if d.Skip != nil {
		d.Skip(path.Join(dirPath, name), ErrInterrupted)
	}

	return true
}

// readEntry reads one name of an open directory. It opens the file once, without following a link, and reads the file
// that it opened even if a program replaces the name. listedType is the type of the file in the directory's listing.
func (d *dirReader) readEntry(entryPath string, parent *os.File, name string, listedType fs.FileMode, before *tree.Inode) error {
	if before != nil && !before.IsDir() && name != ".git" && d.isUnchangedIn(before, int(parent.Fd()), name) {
		return nil
	}

	f, err := d.openName(int(parent.Fd()), name, listedType)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the file was deleted after the names were read
	}
	if err != nil {
		return d.SkipFile(entryPath, fmt.Errorf("%q: %w", entryPath, err))
	}
	defer f.close()

	st := &f.st
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir && d.exclude[fileID{st.Dev, st.Ino}] {
		return nil
	}
	if d.hidden.hides(entryPath, st) {
		if before != nil || !d.hidden.ShowEmpty {
			return nil
		}
		return d.addHidden(entryPath, st)
	}

	if name == ".git" && !isDir && d.topPath != "" {
		if l := d.linkedGitDir(int(parent.Fd())); l != nil {
			return d.addLinked(entryPath, l, before)
		}
	}

	return d.readFile(entryPath, f, before)
}

// readFile reads a file or directory.
func (d *dirReader) readFile(entryPath string, f *namedFile, before *tree.Inode) error {
	st := &f.st
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir && before != nil && before.Mode&ownerAccess != ownerAccess && st.Mode == before.Mode|openMode {
		st.Mode = before.Mode // a killed apply has left the directory open, see host_open.go
	}

	same := before != nil && d.isUnchanged(before, f.birthTime, st)
	if same && !isDir {
		return nil
	}
	if d.before != nil && len(entryPath) > stream.MaxPathBytes {
		return d.SkipFile(entryPath, fmt.Errorf("%.40q… is over %d bytes long", entryPath, stream.MaxPathBytes))
	}

	id, linked := fileID{st.Dev, st.Ino}, st.Nlink > 1 && !isDir
	if old, ok := d.linkPaths[id]; ok && linked {
		return d.add(stream.Entry{Path: entryPath, Hardlink: old})
	}

	e, err := d.openEntry(entryPath, f)
	if err != nil {
		stub := d.o.StubUnreadable && errors.Is(err, unix.EACCES) && st.Uid != uint32(os.Geteuid())
		if err = d.SkipFile(entryPath, fmt.Errorf("%q: %w", entryPath, withoutPath(err))); err != nil || !stub {
			return err
		}

		e.Data, e.Sparse, e.Parts = bytes.NewReader(nil), e.Size > 0, nil
		e.Ctime = 0 // so that the next ReadChanges reads the file again
	}

	if !isDir {
		if linked {
			d.linkPaths[id] = entryPath
		}
		return d.addFile(e, f.takeData())
	}
	if !same {
		if err := d.add(e); err != nil {
			return err
		}
	}

	return d.readEntries(entryPath, f.takeDir(), before)
}

// timeOf returns a time of a file in nanoseconds, limited to the times that a snapshot can store.
func timeOf(ts unix.Timespec) int64 {
	t, _ := filetime.FromUnix(ts.Unix())
	return t
}

// withoutPath removes the path that the os package adds to its errors, because it is a path in /proc that
// users do not know.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
