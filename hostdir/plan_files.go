package hostdir

import (
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
	before *tree.Inode // the version that the directory has; nil for a new file
	path   *tree.Path  // a path at which the directory has the file; nil if the file is written anew
	id     fileID
	// The writer sets the next two fields. firstStep is the step that wrote the file under its first name; all
	// further names become hard links of that name. attrsSet means that the attributes of the file were set,
	// for all of its names.
	firstStep *step
	attrsSet  bool
}

func (p hostEntry) id() fileID { return fileID{p.st.Dev, p.st.Ino} }

// findFiles finds files of the directory that have the bytes of planned files. It first tries files that the plan
// keeps, then files of which the plan removes a name, and then equal files that an earlier apply or another program
// wrote.
func (pl *planner) findFiles(paths []string) error {
	if err := pl.findLostFiles(); err != nil {
		return err
	}
	slices.SortFunc(paths, tree.ComparePaths)
	taken := make(map[fileID]bool)

	for _, find := range []func(f *threeway.File, name string) (*tree.Inode, error){pl.findKept, pl.findMoved, pl.findEqual} {
		for _, name := range paths {
			f, err := pl.merge.File(name)
			if err != nil {
				return err
			}
			if f == nil || f.Node().IsDir() {
				continue
			}

			file := pl.files[f]
			if file == nil {
				file = &hostFile{before: f.Present()}
				pl.files[f] = file
			}
			if file.path != nil {
				continue
			}

			found, err := find(f, name)
			if err == nil && found != nil {
				err = pl.useFile(file, f, name, found, taken)
			}
			if err != nil {
				return err
			}
		}
	}

	return nil
}

// useFile connects the planned file f, which has the path name, with a file of the directory if the two have
// the same bytes. dirNode is the inode of the directory's file in the directory's tree. taken has the files of
// the directory that are connected already: two files of the workspace never share one file of the directory.
func (pl *planner) useFile(file *hostFile, f *threeway.File, name string, dirNode *tree.Inode, taken map[fileID]bool) error {
	same, err := tree.SameData(pl.o.Source, dirNode, f.Node())
	candidate, known := pl.tree.files[dirNode.Ino]
	if err != nil || !same || !known {
		return err
	}

	other, err := pl.merge.FileOf(dirNode)
	if err != nil {
		return err
	}

	linked, err := pl.isLinked(dirNode, name)
	linked = linked && (other == nil || tree.SameAttrs(other.Node(), f.Node()))
	if err != nil || !linked && taken[candidate.id] {
		return err
	}

	// If another planned file keeps this file of the directory, f is connected with it only as a further link.
	if other != nil && other != f {
		if same, err := tree.SameData(pl.o.Source, dirNode, other.Node()); err != nil || same && !linked {
			return err
		} else if same && pl.files[other] != nil {
			pl.files[f] = pl.files[other]
		}
	}

	taken[candidate.id] = true
	file.before, file.path, file.id = dirNode, candidate.path, candidate.id

	return nil
}

// isLinked reports whether the workspace's file at a path has a second name, and the directory's tree has the
// inode dirNode at this second name. The two trees are compared by names, because after a refresh their inode
// numbers can differ.
func (pl *planner) isLinked(dirNode *tree.Inode, name string) (bool, error) {
	n := pl.changes[name].After
	if n == nil || n.Nlink < 2 {
		return false, nil
	}

	paths, err := pl.tree.editor.State.Paths(pl.o.Source, dirNode)
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

// findKept returns the directory's file that the plan keeps as f, nil if f is a new file.
func (pl *planner) findKept(f *threeway.File, _ string) (*tree.Inode, error) { return f.Present(), nil }

// findEqual returns the file of the directory at a path, nil if there is none.
func (pl *planner) findEqual(_ *threeway.File, name string) (*tree.Inode, error) {
	n, err := pl.tree.dirVersion(name)
	if n != nil && n.IsDir() {
		return nil, err
	}
	return n, err
}

// findMoved returns the file of the directory that the workspace moved to a path: the file with an equal inode
// number in the base. If a refresh read the file again, it has another number; then findMoved returns an equal
// file of which the plan removes the name.
func (pl *planner) findMoved(_ *threeway.File, name string) (*tree.Inode, error) {
	n := pl.changes[name].After
	if n == nil || n.IsDir() {
		return nil, nil
	}

	original, err := pl.o.Base.Find(pl.o.Source, n.Ino)
	if err != nil {
		return nil, err
	}

	hostTree := pl.tree.editor.State
	if original != nil && original.Type() == n.Type() && original.Btime == n.Btime {
		return hostTree.Find(pl.o.Source, original.Ino)
	}

	for _, lost := range pl.lostFiles[kindOf(n)] {
		same, err := tree.SameData(pl.o.Source, lost, n)
		if err != nil {
			return nil, err
		}
		if same {
			return hostTree.Find(pl.o.Source, lost.Ino)
		}
	}

	return nil, nil
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

// contentsDiffer is set in the differences of files with different contents or types.
const contentsDiffer = tree.TypeDiffers | tree.DataDiffers | tree.TargetDiffers | tree.RdevDiffers

// findLostFiles finds the files of the base that the plan removes at a name, and whose inode numbers the workspace
// does not have.
func (pl *planner) findLostFiles() error {
	for _, c := range pl.changes {
		if c.Before == nil || c.Before.IsDir() || c.After != nil && (c.After.Ino == c.Before.Ino || c.Differences&contentsDiffer == 0) {
			continue
		}
		present, err := pl.o.Now.Find(pl.o.Source, c.Before.Ino)
		if err != nil {
			return err
		}
		if present == nil || present.Btime != c.Before.Btime {
			pl.lostFiles[kindOf(c.Before)] = append(pl.lostFiles[kindOf(c.Before)], c.Before)
		}
	}
	return nil
}

// isTakenOver reports whether a step replaces another user's file or directory, which the workspace renamed, by
// a copy that belongs to the user. A renamed file is replaced by a copy only if its bytes changed, too.
func (d *decision) isTakenOver() bool {
	n, was := d.workspace.After, d.workspace.Before
	if n == nil || d.movedWithDir || d.action == moveDir || !isForeign(n) || was != nil && was.UID == n.UID {
		return false
	}
	return n.IsDir() || n.Mode&unix.S_IFMT != 0 && d.file != nil && d.file.path == nil
}
