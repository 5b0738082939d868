package gitbridge

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A hostFile is a file that gets a name, or that changes, and what the directory has of it.
// Names and files are applied apart, as in a directory of Unix: a file whose bytes stay keeps
// its inode, and names come and go as links to it.
type hostFile struct {
	was *tree.Inode // what the base has of it; nil for a new file
	at  *tree.Path  // a name that it has in the directory; nil: it is written anew
	id  fileID
	set bool // it has its attributes
	// moved is the removal that a rename of at makes, where there can be no second link.
	moved *applyStep
}

func (p place) id() fileID { return fileID{p.st.Dev, p.st.Ino} }

// findFiles finds the files of the changes in the directory.
func (a *applying) findFiles(changes []tree.Change) error {
	taken := make(map[fileID]bool)
	for _, find := range []func(*hostFile, *tree.Path, *tree.Inode) (bool, error){a.findKept, a.findEqual} {
		for _, c := range changes {
			if c.B == nil || c.B.IsDir() {
				continue
			}
			f := a.files[c.B.Ino]
			if f == nil {
				f = &hostFile{}
				a.files[c.B.Ino] = f
			}
			if f.at != nil {
				continue
			}
			found, err := find(f, c.Path, c.B)
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
func (a *applying) findKept(f *hostFile, _ *tree.Path, n *tree.Inode) (bool, error) {
	was, err := a.o.Base.Get(a.o.Source, n.Ino)
	if errors.Is(err, tree.ErrNoInode) || err == nil && (was.Type() != n.Type() || was.Btime != n.Btime) {
		return false, nil // another file, after a refresh
	}
	if err != nil {
		return false, err
	}
	f.was = was
	same, err := tree.SameData(a.o.Source, was, n)
	if err != nil || !same {
		return false, err
	}
	names, err := a.o.Base.Paths(a.o.Source, was)
	if err != nil {
		return false, err
	}
	kept, err := a.o.Now.Paths(a.o.Source, n)
	if err != nil {
		return false, err
	}
	slices.SortFunc(names, func(x, y string) int {
		if i, j := slices.Contains(kept, x), slices.Contains(kept, y); i != j {
			return map[bool]int{true: -1, false: 1}[i]
		}
		return 0
	})
	return a.findAt(f, names, was)
}

// findEqual looks for what an earlier apply, or somebody else, wrote by one of the file's names.
func (a *applying) findEqual(f *hostFile, p *tree.Path, n *tree.Inode) (bool, error) {
	names := []string{p.String()}
	if len(n.Links) > 1 {
		var err error
		if names, err = a.o.Now.Paths(a.o.Source, n); err != nil {
			return false, err
		}
	}
	return a.findAt(f, names, n)
}

// findAt looks for a file with the bytes of an inode by some names.
func (a *applying) findAt(f *hostFile, names []string, n *tree.Inode) (bool, error) {
	for _, name := range names {
		p, err := tree.ParsePath(name)
		if err != nil {
			return false, err
		}
		at, err := a.host.look(p)
		if err == nil && at.exists {
			var same bool
			if same, err = a.host.sameData(a.o.Source, p, at, n); same {
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

// fileOf returns the file that a step makes a name of; nil for one that gets bytes of its own.
func (a *applying) fileOf(s *applyStep) *hostFile {
	if s.change.B == nil || s.change.B.IsDir() || s.text != nil || s.merged != nil {
		return nil
	}
	return a.files[s.change.B.Ino]
}

// linkKept makes the name tmp for a file that the directory has. Where there can be no second
// link, such as to another user's file, the rename of a name that goes will make it.
func (a *applying) linkKept(dir int, tmp string, s *applyStep, f *hostFile) (done bool, err error) {
	from, err := a.host.walk(f.at.Dir)
	if err != nil {
		return false, err
	}
	defer unix.Close(from)
	switch err = unix.Linkat(from, f.at.Name, dir, tmp, 0); {
	case err == nil:
		a.touched[f.id.ino] = true
		return true, nil
	case errors.Is(err, unix.ENOENT):
		return false, a.changedMeanwhile(s)
	case !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EMLINK) && !errors.Is(err, unix.EOPNOTSUPP):
		return false, err
	}
	goes := a.removal(f.at)
	if errors.Is(err, unix.EXDEV) || goes == nil || f.moved != nil {
		return false, nil // it is a file of its own
	}
	f.moved, s.from = goes, f.at
	return true, nil
}

// removal is the step that removes a name, and nothing else.
func (a *applying) removal(p *tree.Path) *applyStep {
	for _, s := range a.steps {
		if s.todo && s.change.B == nil && s.change.Path.String() == p.String() {
			return s
		}
	}
	return nil
}

// move renames a file that can have no second link.
func (a *applying) move(s *applyStep) error {
	f := a.files[s.change.B.Ino]
	if err := a.begin(f.moved); err != nil {
		return err
	}
	from, err := a.host.walk(s.from.Dir)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to, err := a.host.dirOf(s.change.Path)
	if err == nil && s.seen.exists {
		err = unix.Renameat(from, s.from.Name, to, s.change.Path.Name)
	} else if err == nil {
		err = unix.Renameat2(from, s.from.Name, to, s.change.Path.Name, unix.RENAME_NOREPLACE)
		if cannotRename2(err) {
			err = unix.Renameat(from, s.from.Name, to, s.change.Path.Name)
		}
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		return a.changedMeanwhile(s)
	}
	if err == nil {
		f.at = s.change.Path
		a.applied(f.moved)
	}
	return err
}
