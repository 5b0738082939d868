package hostdir

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A hostFile connects a planned file with the file of the directory that has its bytes. Names and files are
// applied separately, as in Unix: a file whose bytes do not change keeps its inode, and its names are hard links
// to the inode.
type hostFile struct {
	was *tree.Inode // the version that the directory has; nil for a new file
	at  *tree.Path  // a path of the file in the directory; nil if the file is written anew
	id  fileID
	// The writer sets these: first is the step that wrote the file, to which the other names are linked. set
	// means that the attributes of the file were set, for all of its names.
	first *step
	set   bool
}

func (p hostEntry) id() fileID { return fileID{p.st.Dev, p.st.Ino} }

// findFiles finds the files of the directory that have the bytes of planned files. It tries first the files that
// the plan keeps, then files of which the plan removes a name, and then equal files that an earlier apply or
// another program wrote.
func (pl *planner) findFiles(paths []string) error {
	if err := pl.findLost(); err != nil {
		return err
	}
	slices.SortFunc(paths, tree.ComparePaths)
	taken := make(map[fileID]bool)

	for _, find := range []func(f *threeway.File, at string) (*tree.Inode, error){pl.findKept, pl.findMoved, pl.findEqual} {
		for _, at := range paths {
			f, err := pl.merge.File(at)
			if err != nil {
				return err
			}
			if f == nil || f.Node().IsDir() {
				continue
			}

			to := pl.files[f]
			if to == nil {
				to = &hostFile{was: f.Present()}
				pl.files[f] = to
			}
			if to.at != nil {
				continue
			}

			has, err := find(f, at)
			if err == nil && has != nil {
				err = pl.useFile(to, f, at, has, taken)
			}
			if err != nil {
				return err
			}
		}
	}

	return nil
}

// useFile connects the planned file at a path with a file of the directory, by its inode in the directory's tree,
// if the two have the same bytes. Two files of the workspace never share one file of the directory.
func (pl *planner) useFile(to *hostFile, f *threeway.File, at string, has *tree.Inode, taken map[fileID]bool) error {
	same, err := tree.SameData(pl.o.Source, has, f.Node())
	is, known := pl.tree.files[has.Ino]
	if err != nil || !same || !known {
		return err
	}

	linked, err := pl.isLinked(has, at)
	if err != nil || !linked && taken[is.id] {
		return err
	}

	// Another planned file may keep the file.
	other, err := pl.merge.FileOf(has)
	if err != nil {
		return err
	}
	if other != nil && other != f && !linked {
		if same, err := tree.SameData(pl.o.Source, has, other.Node()); err != nil || same {
			return err
		}
	}

	taken[is.id] = true
	to.was, to.at, to.id = has, is.at, is.id

	return nil
}

// isLinked reports whether the workspace's file at a path has a second name, and the directory's tree has the
// inode has at this name. After a refresh, the inode numbers in the two trees can differ.
func (pl *planner) isLinked(has *tree.Inode, at string) (bool, error) {
	n := pl.changes[at].After
	if n == nil || n.Nlink < 2 {
		return false, nil
	}

	paths, err := pl.tree.edit.State.Paths(pl.o.Source, has)
	for _, p := range paths {
		other, oerr := pl.o.Now.InodeAt(pl.o.Source, p)
		if oerr != nil {
			return false, oerr
		}
		if other != nil && other.Ino == n.Ino {
			return true, nil
		}
	}

	return false, err
}

func (pl *planner) findKept(f *threeway.File, _ string) (*tree.Inode, error) { return f.Present(), nil }

func (pl *planner) findEqual(_ *threeway.File, at string) (*tree.Inode, error) {
	n, err := pl.tree.here(at)
	if n != nil && n.IsDir() {
		return nil, err
	}
	return n, err
}

// findMoved returns the file of the directory that the workspace moved to a path: the file with an equal inode
// number in the base. If a refresh read the file again, it has another number; then findMoved returns an equal
// file of which the plan removes the name.
func (pl *planner) findMoved(_ *threeway.File, at string) (*tree.Inode, error) {
	n := pl.changes[at].After
	if n == nil || n.IsDir() {
		return nil, nil
	}

	was, err := pl.o.Base.Get(pl.o.Source, n.Ino)
	if err != nil && !errors.Is(err, tree.ErrNoInode) {
		return nil, err
	}
	if err == nil && was.Type() == n.Type() && was.Btime == n.Btime {
		return pl.hostInode(was.Ino)
	}

	for _, was := range pl.lost[kindOf(n)] {
		if same, err := tree.SameData(pl.o.Source, was, n); err != nil || same {
			if err != nil {
				return nil, err
			}
			return pl.hostInode(was.Ino)
		}
	}

	return nil, nil
}

// hostInode returns the inode with a number in the tree of the directory, nil if there is none.
func (pl *planner) hostInode(ino uint64) (*tree.Inode, error) {
	n, err := pl.tree.edit.State.Get(pl.o.Source, ino)
	if errors.Is(err, tree.ErrNoInode) {
		return nil, nil
	}
	return n, err
}

// isForeign reports whether a file belongs to another user. If the user is not root, the apply cannot have
// created such a file.
func isForeign(n *tree.Inode) bool { return os.Geteuid() != 0 && n.UID != uint32(os.Geteuid()) }

// A fileKind has the attributes of a file that do not change when a refresh reads it again.
type fileKind struct {
	kind, uid, gid uint32
	size, mtime    int64
}

func kindOf(n *tree.Inode) fileKind { return fileKind{n.Type(), n.UID, n.GID, n.Size(), n.Mtime} }

// findLost finds the files of the base that the plan removes at a name, and whose inode numbers the workspace
// does not have.
func (pl *planner) findLost() error {
	for _, c := range pl.changes {
		if c.Before == nil || c.Before.IsDir() || c.After != nil && (c.After.Ino == c.Before.Ino || c.Differences&(tree.TypeDiffers|tree.DataDiffers|tree.TargetDiffers|tree.RdevDiffers) == 0) {
			continue
		}
		now, err := pl.o.Now.Get(pl.o.Source, c.Before.Ino)
		if err != nil && !errors.Is(err, tree.ErrNoInode) {
			return err
		}
		if now == nil || now.Btime != c.Before.Btime {
			pl.lost[kindOf(c.Before)] = append(pl.lost[kindOf(c.Before)], c.Before)
		}
	}
	return nil
}

// isTakenOver reports whether a step replaces another user's file, which has a new name, by a copy that belongs
// to the user: for a directory, or for a file whose bytes changed, too.
func (d *decision) isTakenOver() bool {
	n, was := d.workspace.After, d.workspace.Before
	if n == nil || d.carried || d.action == moveDir || !isForeign(n) || was != nil && was.UID == n.UID {
		return false
	}
	return n.IsDir() || n.Mode&unix.S_IFMT != 0 && d.file != nil && d.file.at == nil
}
