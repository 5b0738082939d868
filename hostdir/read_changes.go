package hostdir

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// ReadChanges feeds to sink the differences between a directory and a tree that was read from it earlier: new and
// changed entries as in Read, and whiteouts for entries that were deleted. A file is not read if its type, owner,
// permissions, size, inode number and times of birth, modification and change are equal. If before is nil, ReadChanges
// feeds all entries. Otherwise it leaves out paths longer than stream.MaxPathBytes, because they cannot be merged.
func ReadChanges(ctx context.Context, dir string, src *tree.Source, before *tree.State, sink stream.Sink, o ReadOptions) error {
	d := &dirReader{
		Checker: stream.NewChecker(sink, o.Options), ctx: ctx, o: o, src: src, before: before, linkPaths: make(map[fileID]string), prefetchedGroups: make(map[uint64]bool),
		exclude: idsOf(o.Exclude), hidden: hiddenFiles{Hidden: o.Hidden},
	}

	d.startDelivery()
	err := d.readRoot(dir)
	if err = cmp.Or(d.endDelivery(), err); err != nil {
		return fmt.Errorf("reading %s: %w", dir, err)
	}

	return nil
}

// settleTime is the age from which the last change time of a file is trusted. A younger file may change again
// without a new change time, so the next ReadChanges reads it again.
const settleTime = 2 * time.Second

// inodeBits is the number of low bits of a time in nanoseconds that changeTime replaces by a hash of the inode
// number. They are a millisecond, less than settleTime.
const inodeBits = 20

// fibonacci is the factor of Fibonacci hashing for 64 bits.
const fibonacci = 0x9e3779b97f4a7c15

// changeTime returns the time of the last change of a file, with a hash of its inode number in the low bits. So
// the change times differ if two files are exchanged.
func changeTime(st *unix.Stat_t) int64 {
	return timeOf(st.Ctim)&^(1<<inodeBits-1) | int64(st.Ino*fibonacci>>(64-inodeBits))
}

// recordedTime returns the changeTime of a file that is read now. If the file may change again without a new
// change time, it returns a time that no file has.
func recordedTime(st *unix.Stat_t) int64 {
	t := changeTime(st)
	if time.Since(time.Unix(0, timeOf(st.Ctim))) < settleTime {
		t ^= 1
	}
	return t
}

// isUnchangedIn reports whether a name of an open directory is the file n of the tree, and the file's status
// did not change. It makes only one system call.
func (d *dirReader) isUnchangedIn(n *tree.Inode, dir int, name string) bool {
	st, born, err := statusOf(dir, name, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && d.isUnchanged(n, born, &st)
}

// isUnchanged reports whether a file is still the file n of the tree.
func (d *dirReader) isUnchanged(n *tree.Inode, born int64, st *unix.Stat_t) bool {
	if d.o.WrittenAt != 0 {
		return n.Mode&unix.S_IFMT == st.Mode&unix.S_IFMT && timeOf(st.Ctim) <= d.o.WrittenAt && (!n.IsRegular() || n.Size() == st.Size)
	}
	return n.Mode == st.Mode && n.UID == st.Uid && n.GID == st.Gid && n.Mtime == timeOf(st.Mtim) && n.Ctime == changeTime(st) &&
		(!n.IsRegular() || n.Size() == st.Size) && n.Btime == cmp.Or(born, n.Mtime)
}

// childBefore returns the entry of a directory of the tree by its name, nil if there is none.
func (d *dirReader) childBefore(dir *tree.Inode, name string) (*tree.Inode, error) {
	if dir == nil || !dir.IsDir() {
		return nil, nil
	}
	e, ok, err := dir.Dir.Lookup(d.src, name)
	if err != nil || !ok {
		return nil, err
	}
	if err := d.prefetch(e.Ino / tree.GroupInodes); err != nil {
		return nil, err
	}

	return d.before.Get(d.src, e.Ino)
}

// prefetch asks for the pages of a group of inodes at once, unless it has asked for the group before.
func (d *dirReader) prefetch(group uint64) error {
	if d.o.Prefetch == nil || d.prefetchedGroups[group] {
		return nil
	}
	d.prefetchedGroups[group] = true
	pages, err := d.before.GroupPages(d.src, group*tree.GroupInodes)
	if err != nil || len(pages) == 0 {
		return err
	}

	return d.o.Prefetch(pages)
}

// addWhiteouts feeds a whiteout for each entry that a directory no longer has. before is its inode in the
// tree d.before, and names are its present names, sorted.
func (d *dirReader) addWhiteouts(dirPath string, before *tree.Inode, names []string) error {
	if before == nil || !before.IsDir() {
		return nil
	}
	var missing []string
	if err := before.Dir.List(d.src, 0, func(e tree.Dirent, _ uint64) bool {
		if _, found := slices.BinarySearch(names, e.Name); !found && d.reads(path.Join(dirPath, e.Name)) {
			missing = append(missing, e.Name)
		}
		return true
	}); err != nil {
		return err
	}

	for _, name := range missing {
		if len(path.Join(dirPath, name)) > stream.MaxPathBytes {
			continue // such a long path was never copied, so no whiteout is needed
		}
		if err := d.add(stream.Entry{Path: path.Join(dirPath, name), Whiteout: true}); err != nil {
			return err
		}
	}

	return nil
}

// IsFileChange reports whether a change counts as a changed file (file), and whether its path is in a git
// directory (inGit). A change of the time alone does not count.
func IsFileChange(c tree.Change) (file, inGit bool) {
	if cmp.Or(c.After, c.Before).IsDir() || isMinor(c) {
		return false, false
	}

	_, _, inGit = threeway.SplitGitPath(c.Path.String())
	return !inGit, inGit
}

// EmptyResult returns the result of an apply without changes.
func EmptyResult(dir string) *ApplyResult { return &ApplyResult{Dir: dir, Paths: []graft.PathChange{}} }
