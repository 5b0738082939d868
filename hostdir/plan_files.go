package hostdir

import (
	"cmp"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A hostFile is a file that gets a name or changes, and its counterpart in the directory. Names and
// files are applied separately, as they are separate in Unix: a file whose bytes stay keeps its
// inode, and names are links to it.
type hostFile struct {
	was *tree.Inode // its version in the base; nil for a new file
	at  *tree.Path  // a path that it has in the directory; nil: it is written anew
	id  fileID
	// The writer's: the first step that wrote it, to which others link, and whether it has its attributes.
	first *step
	set   bool
}

// hostFiles are the files that get names or change, by the workspace's inodes.
type hostFiles map[uint64]*hostFile

// of returns the file of a step, nil for one whose bytes are not the workspace's.
func (files hostFiles) of(s *step) *hostFile {
	if s.change.After == nil || s.change.After.IsDir() || s.text != nil {
		return nil
	}
	return files[s.change.After.Ino]
}

func (p hostEntry) id() fileID { return fileID{p.st.Dev, p.st.Ino} }

// findFiles finds the files of the changes in the directory.
func (pl *planner) findFiles(changes []tree.Change) error {
	if err := pl.findLost(changes); err != nil {
		return err
	}

	taken := make(map[fileID]bool)

	for _, find := range []func(*hostFile, *tree.Path, *tree.Inode) (bool, error){pl.findKept, pl.findEqual} {
		for _, c := range changes {
			if c.After == nil || c.After.IsDir() {
				continue
			}
			f := pl.files[c.After.Ino]
			if f == nil {
				f = &hostFile{}
				pl.files[c.After.Ino] = f
			}
			if f.at != nil {
				continue
			}

			found, err := find(f, c.Path, c.After)
			switch {
			case err != nil:
				return err
			case found && taken[f.id]:
				f.at = nil // two files of the workspace are two here
			case found:
				taken[f.id] = true
			}
		}
	}

	return nil
}

// findKept looks for a file of the base with the same bytes: first by the names that it keeps,
// then by those that it loses.
func (pl *planner) findKept(f *hostFile, _ *tree.Path, n *tree.Inode) (bool, error) {
	kept, err := pl.o.Now.Paths(pl.o.Source, n)
	if err != nil {
		return false, err
	}

	was, err := pl.inBase(n, kept)
	if err != nil || was == nil {
		return false, err
	}

	f.was = was
	same, err := tree.SameData(pl.o.Source, was, n)
	if err != nil || !same {
		return false, err
	}

	names, err := pl.o.Base.Paths(pl.o.Source, was)
	if err != nil {
		return false, err
	}

	slices.SortFunc(names, func(x, y string) int {
		if i, j := slices.Contains(kept, x), slices.Contains(kept, y); i != j {
			return map[bool]int{true: -1, false: 1}[i]
		}
		return 0
	})

	return pl.findAt(f, names, was)
}

// inBase returns the version of a file in the base, nil for a new file. A refresh gives a file that
// it reads again another number. Then it is, in this order, an equal file with the same name, an
// equal file that loses its name, or another version with the same name that the workspace does not
// have any more.
func (pl *planner) inBase(n *tree.Inode, names []string) (*tree.Inode, error) {
	was, err := pl.o.Base.Get(pl.o.Source, n.Ino)
	if err == nil && was.Type() == n.Type() && was.Btime == n.Btime {
		return was, nil
	}
	if err != nil && !errors.Is(err, tree.ErrNoInode) {
		return nil, err
	}

	var version *tree.Inode

	for _, name := range names {
		was, err := pl.o.Base.At(pl.o.Source, name)
		if err != nil {
			return nil, err
		}
		if was == nil {
			continue
		}

		now, err := pl.o.Now.Get(pl.o.Source, was.Ino)
		if err != nil && !errors.Is(err, tree.ErrNoInode) {
			return nil, err
		}
		if was.Type() != n.Type() || now != nil && now.Btime == was.Btime {
			continue
		}

		same, err := tree.SameData(pl.o.Source, was, n)
		if err != nil || same {
			return was, err
		}
		// Files that were made in one tick of the clock have one time of birth.
		if len(names) == 1 && was.Btime == n.Btime || isForeign(n) && kindOf(was, false) == kindOf(n, false) {
			version = cmp.Or(version, was)
		}
	}

	for _, was := range pl.lost[kindOf(n, true)] {
		if same, err := tree.SameData(pl.o.Source, was, n); err != nil || same {
			return was, err
		}
	}

	return version, nil
}

// isForeign reports whether a file belongs to another user. It is not new then, as only root can
// make such a file.
func isForeign(n *tree.Inode) bool { return os.Geteuid() != 0 && n.UID != uint32(os.Geteuid()) }

// A fileKind is what the versions of a file before and after a refresh have in common.
type fileKind struct {
	kind, uid, gid uint32
	size, mtime    int64
}

func kindOf(n *tree.Inode, withData bool) fileKind {
	k := fileKind{kind: n.Type(), uid: n.UID, gid: n.GID}
	if withData {
		k.size, k.mtime = n.Size(), n.Mtime
	}
	return k
}

// findLost finds the files of the base that lose a name and whose number the workspace does not
// have.
func (pl *planner) findLost(changes []tree.Change) error {
	for _, c := range changes {
		if c.Before == nil || c.Before.IsDir() || c.After != nil && (c.After.Ino == c.Before.Ino || c.What&(tree.Type|tree.Data|tree.Target|tree.Rdev) == 0) {
			continue
		}
		now, err := pl.o.Now.Get(pl.o.Source, c.Before.Ino)
		if err != nil && !errors.Is(err, tree.ErrNoInode) {
			return err
		}
		if now == nil || now.Btime != c.Before.Btime {
			pl.lost[kindOf(c.Before, true)] = append(pl.lost[kindOf(c.Before, true)], c.Before)
		}
	}
	return nil
}

// findEqual looks for an equal file, of an earlier apply or another program, at one of the file's
// names.
func (pl *planner) findEqual(f *hostFile, p *tree.Path, n *tree.Inode) (bool, error) {
	names := []string{p.String()}
	if len(n.Links) > 1 {
		var err error
		if names, err = pl.o.Now.Paths(pl.o.Source, n); err != nil {
			return false, err
		}
	}

	found, err := pl.findAt(f, names, n)
	if !found || err != nil || f.was == nil {
		return found, err
	}

	there, err := pl.o.Base.At(pl.o.Source, f.at.String())
	if there != nil && there.Ino != f.was.Ino {
		f.was = nil // another file with these bytes, which gets all attributes
	}

	return true, err
}

// findAt looks for a file with the bytes of an inode at some names.
func (pl *planner) findAt(f *hostFile, names []string, n *tree.Inode) (bool, error) {
	for _, name := range names {
		p, err := tree.ParsePath(name)
		if err != nil {
			return false, err
		}

		at, err := pl.host.look(p)
		if err == nil && at.exists {
			var same bool
			if same, err = pl.host.sameData(pl.o.Source, p, at, n); same {
				f.at, f.id = p, at.id()
				return true, nil
			}
		}
		if err != nil && !errors.Is(err, unix.EACCES) {
			return false, err
		}
	}
	return false, nil
}
