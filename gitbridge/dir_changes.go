package gitbridge

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ReadChanges feeds to sink what a directory has that a tree, which was read from it before,
// has not: what is new or changed as in ReadDir, and a whiteout for what is gone. A file of
// the same type, owner, permissions, size, inode number and times of birth, modification and change is not read. Longer paths than maxPath
// are skipped: they cannot be merged.
func ReadChanges(ctx context.Context, dir string, src *tree.Source, before *tree.State, sink Sink, o DirOptions) error {
	d := newDirReader(ctx, sink, o)
	d.src, d.before = src, before
	return d.read(dir)
}

// justNow is how old a file must be at least. What changed later may change again without
// another time, so it is read again the next time.
const justNow = 2 * time.Second

// inodeBits are the lowest bits of a time in nanoseconds that have a hash of the inode number
// instead. They are a millisecond, which is less than justNow.
const inodeBits = 20

// changeTime is the time of the last change of a file, with its inode number: two files that were
// exchanged have another one.
func changeTime(st *unix.Stat_t) int64 {
	const odd = 0x9e3779b97f4a7c15 // Fibonacci hashing
	return timeOf(st.Ctim)&^(1<<inodeBits-1) | int64(st.Ino*odd>>(64-inodeBits))
}

// readTime is the changeTime of a file that is read now. If the file may change again without
// another time, it is one that the file never has.
func readTime(st *unix.Stat_t) int64 {
	at := changeTime(st)
	if time.Since(time.Unix(0, timeOf(st.Ctim))) < justNow {
		at ^= 1
	}
	return at
}

// birthTime is when an open file was created, 0 if its file system does not record it. It
// distinguishes a file from an earlier one with the same inode number.
func birthTime(fd int) int64 {
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	t, _ := filetime.Of(st.Btime.Sec, int64(st.Btime.Nsec))
	return t
}

// unchanged reports whether a file is as the tree has it.
func unchanged(n *tree.Inode, fd int, st *unix.Stat_t) bool {
	return n.Mode == st.Mode && n.UID == st.Uid && n.GID == st.Gid && n.Mtime == timeOf(st.Mtim) && n.Ctime == changeTime(st) &&
		(!n.IsRegular() || n.Size() == st.Size) && n.Btime == cmp.Or(birthTime(fd), n.Mtime)
}

// beforeIn returns the entry of a directory of the tree by its name, nil if there is none.
func (d *dirReader) beforeIn(dir *tree.Inode, name string) (*tree.Inode, error) {
	if dir == nil || !dir.IsDir() {
		return nil, nil
	}
	e, ok, err := dir.Dir.Lookup(d.src, name)
	if err != nil || !ok {
		return nil, err
	}
	return d.before.Get(d.src, e.Ino)
}

// gone feeds a whiteout for what is no longer in a directory. The names are sorted.
func (d *dirReader) gone(at string, was *tree.Inode, names []string) error {
	if was == nil || !was.IsDir() {
		return nil
	}
	var gone []string
	if err := was.Dir.List(d.src, 0, func(e tree.Dirent, _ uint64) bool {
		if _, is := slices.BinarySearch(names, e.Name); !is {
			gone = append(gone, e.Name)
		}
		return true
	}); err != nil {
		return err
	}
	for _, name := range gone {
		if len(path.Join(at, name)) > maxPath {
			continue // it is not in the copy
		}
		if err := d.add(Entry{Path: path.Join(at, name), Whiteout: true}); err != nil {
			return err
		}
	}
	return nil
}

// A StreamSink writes entries for ReadStream, with all that they have.
type StreamSink struct {
	w   *bufio.Writer
	enc *gob.Encoder
	buf []byte
}

func NewStreamSink(w io.Writer) *StreamSink {
	b := bufio.NewWriterSize(w, 256<<10)
	return &StreamSink{b, gob.NewEncoder(b), make([]byte, 256<<10)}
}

// Add is a Sink.
func (s *StreamSink) Add(e Entry) error {
	data := e.Data
	e.Data = nil
	if err := s.enc.Encode(e); err != nil || data == nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{s.w}, io.LimitReader(data, e.dataSize()), s.buf)
	if err == nil && n != e.dataSize() {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Close ends the stream: what was written is all.
func (s *StreamSink) Close() error {
	return errors.Join(s.enc.Encode(Entry{}), s.w.Flush())
}

// ReadStream feeds to sink what a StreamSink wrote.
func ReadStream(ctx context.Context, r io.Reader, sink Sink, o ImportOptions) error {
	in, c := bufio.NewReaderSize(&contextReader{ctx, r}, 256<<10), newChecker(sink, o)
	dec := gob.NewDecoder(in)
	for {
		var e Entry
		err := dec.Decode(&e)
		if err == nil && e.Path == "" {
			return nil
		}
		if err == nil {
			e.Path, err = clean(e.Path)
		}
		if err == nil && e.Hardlink != "" {
			e.Hardlink, err = clean(e.Hardlink)
		}
		if err == nil && e.Mode&unix.S_IFMT == unix.S_IFREG && e.Hardlink == "" {
			e.Data = io.LimitReader(in, e.dataSize())
		}
		if err == nil {
			e.Meta = c.own(e.Meta)
			err = c.add(e)
		}
		if err == nil && e.Data != nil {
			_, err = io.Copy(io.Discard, e.Data)
		}
		if err != nil {
			return fmt.Errorf("reading what was sent: %w", err)
		}
	}
}

// Unchanged reports whether two states differ in nothing but times of directories, and in how git keeps
// what it says: a git status or a gc changes nothing. With logs, HEAD has not moved back and forth
// either.
func Unchanged(ctx context.Context, src *tree.Source, base, now *tree.State, logs bool) (bool, error) {
	git := NewGitDiffer(src, base, now)
	git.logs = logs
	err := tree.Diff(ctx, src, base, now, tree.DiffOptions{}, func(c tree.Change) error {
		if c.Before != nil && c.After != nil && c.After.IsDir() && c.What&^tree.Mtime == 0 {
			return nil
		}
		differs, err := git.Differs(c)
		if err == nil && differs {
			err = errDiffers
		}
		return err
	})
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil, err
}

// A GitDiffer knows which changes of git directories say nothing: git rewrites files.
type GitDiffer struct {
	dirs gitDirs
	logs bool // a line in the log of HEAD is a change
	same map[string]bool
}

// NewGitDiffer is about the changes from base to now.
func NewGitDiffer(src *tree.Source, base, now *tree.State) *GitDiffer {
	return &GitDiffer{dirs: gitDirs{src, base, now, make(map[string]bool)}, same: make(map[string]bool)}
}

// Differs reports whether a change says something: it is one of a file, or of a git directory that
// says something else than before.
func (g *GitDiffer) Differs(c tree.Change) (bool, error) {
	at, err := g.dirs.of(c.Path.String())
	if err != nil {
		return false, err
	}
	rel, below := strings.CutPrefix(c.Path.String(), at+"/")
	if at == "" || !below || gitdir.IsFile(rel) {
		return true, nil
	}
	if _, known := g.same[at]; !known {
		was, is := treeFiles{g.dirs.src, g.dirs.base, at}, treeFiles{g.dirs.src, g.dirs.now, at}
		if g.same[at], err = gitdir.Same(was, is); err != nil {
			return false, err
		}
		g.same[at] = g.same[at] && (!g.logs || gitdir.SameLog(was, is))
	}
	return !g.same[at], nil
}

// ChangedFile reports whether a change counts as a changed file, or is in a git directory. A time
// alone is no change.
func ChangedFile(c tree.Change) (file, inGit bool) {
	is := c.After
	if is == nil {
		is = c.Before
	}
	if is.IsDir() || minor(c) {
		return false, false
	}
	_, _, inGit = threeway.InGit(c.Path.String())
	return !inGit, inGit
}

var errDiffers = errors.New("it differs")

// NothingApplied is the result of an apply without changes.
func NothingApplied(dir string) *Applied { return &Applied{Dir: dir, Paths: []graft.PathChange{}} }
