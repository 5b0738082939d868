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
	set bool // it has its attributes
}

func (p place) id() fileID { return fileID{p.st.Dev, p.st.Ino} }

// findFiles finds the files of the changes in the directory.
func (a *applying) findFiles(changes []tree.Change) error {
	if err := a.findLost(changes); err != nil {
		return err
	}
	taken := make(map[fileID]bool)
	for _, find := range []func(*hostFile, *tree.Path, *tree.Inode) (bool, error){a.findKept, a.findEqual} {
		for _, c := range changes {
			if c.After == nil || c.After.IsDir() {
				continue
			}
			f := a.files[c.After.Ino]
			if f == nil {
				f = &hostFile{}
				a.files[c.After.Ino] = f
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
func (a *applying) findKept(f *hostFile, _ *tree.Path, n *tree.Inode) (bool, error) {
	kept, err := a.o.Now.Paths(a.o.Source, n)
	if err != nil {
		return false, err
	}
	was, err := a.inBase(n, kept)
	if err != nil || was == nil {
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
	slices.SortFunc(names, func(x, y string) int {
		if i, j := slices.Contains(kept, x), slices.Contains(kept, y); i != j {
			return map[bool]int{true: -1, false: 1}[i]
		}
		return 0
	})
	return a.findAt(f, names, was)
}

// inBase returns the version of a file in the base, nil for a new file. A refresh gives a file that
// it reads again another number. Then it is, in this order, an equal file with the same name, an
// equal file that loses its name, or another version with the same name that the workspace does not
// have any more.
func (a *applying) inBase(n *tree.Inode, names []string) (*tree.Inode, error) {
	was, err := a.o.Base.Get(a.o.Source, n.Ino)
	if err == nil && was.Type() == n.Type() && was.Btime == n.Btime {
		return was, nil
	}
	if err != nil && !errors.Is(err, tree.ErrNoInode) {
		return nil, err
	}
	var version *tree.Inode
	for _, name := range names {
		was, err := a.o.Base.At(a.o.Source, name)
		if err != nil {
			return nil, err
		}
		if was == nil {
			continue
		}
		now, err := a.o.Now.Get(a.o.Source, was.Ino)
		if err != nil && !errors.Is(err, tree.ErrNoInode) {
			return nil, err
		}
		if was.Type() != n.Type() || now != nil && now.Btime == was.Btime {
			continue
		}
		same, err := tree.SameData(a.o.Source, was, n)
		if err != nil || same {
			return was, err
		}
		// Files that were made in one tick of the clock have one time of birth.
		if len(names) == 1 && was.Btime == n.Btime || isForeign(n) && kindOf(was, false) == kindOf(n, false) {
			version = cmp.Or(version, was)
		}
	}
	for _, was := range a.lost[kindOf(n, true)] {
		if same, err := tree.SameData(a.o.Source, was, n); err != nil || same {
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
func (a *applying) findLost(changes []tree.Change) error {
	for _, c := range changes {
		if c.Before == nil || c.Before.IsDir() || c.After != nil && (c.After.Ino == c.Before.Ino || c.What&(tree.Type|tree.Data|tree.Target|tree.Rdev) == 0) {
			continue
		}
		now, err := a.o.Now.Get(a.o.Source, c.Before.Ino)
		if err != nil && !errors.Is(err, tree.ErrNoInode) {
			return err
		}
		if now == nil || now.Btime != c.Before.Btime {
			a.lost[kindOf(c.Before, true)] = append(a.lost[kindOf(c.Before, true)], c.Before)
		}
	}
	return nil
}

// findEqual looks for an equal file, of an earlier apply or another program, at one of the file's
// names.
func (a *applying) findEqual(f *hostFile, p *tree.Path, n *tree.Inode) (bool, error) {
	names := []string{p.String()}
	if len(n.Links) > 1 {
		var err error
		if names, err = a.o.Now.Paths(a.o.Source, n); err != nil {
			return false, err
		}
	}
	found, err := a.findAt(f, names, n)
	if !found || err != nil || f.was == nil {
		return found, err
	}
	there, err := a.o.Base.At(a.o.Source, f.at.String())
	if there != nil && there.Ino != f.was.Ino {
		f.was = nil // another file with these bytes, which gets all attributes
	}
	return true, err
}

// findAt looks for a file with the bytes of an inode at some names.
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

// fileOf returns the file of a step, nil for one whose bytes are not the workspace's.
func (a *applying) fileOf(s *applyStep) *hostFile {
	if s.change.After == nil || s.change.After.IsDir() || s.text != nil || s.merged != nil {
		return nil
	}
	return a.files[s.change.After.Ino]
}

// isApart reports whether a name of a file is one of another file now: overlayfs copied the names of
// a file of its lower layer apart, when the first of them changed.
func (a *applying) isApart(s *applyStep, f *hostFile) bool {
	if f.at == nil || s.overwrites || !a.copiedUp(s) {
		return false
	}
	here, err := a.host.look(s.change.Path)
	there, terr := a.host.look(f.at)
	return err == nil && terr == nil && !here.isFile(there)
}

// linkKept makes the name tmp a link to a file of the directory. Where that is not allowed, as for
// another user's file, a name that the file loses is renamed later.
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
	case !cannotLink(err):
		return false, err
	}
	if errors.Is(err, unix.EXDEV) || f.was == nil {
		return false, nil // it is a file of its own
	}
	names, err := a.o.Base.Paths(a.o.Source, f.was)
	for _, name := range names {
		if source := a.leaving(name, f); source != nil && err == nil {
			source.moved, s.source, s.from = true, source, source.change.Path
			a.moveLater(s)
			return true, nil
		}
	}
	return false, err
}

// cannotLink reports whether a link is not possible there. Other errors, such as a full disk, may
// pass.
func cannotLink(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EOPNOTSUPP)
}

// leaving returns the step that takes a name from a file, nil if there is none.
func (a *applying) leaving(name string, f *hostFile) *applyStep {
	for _, s := range a.steps {
		if s.todo && !s.attrsOnly && !s.moved && s.seen.exists && s.seen.id() == f.id && s.change.Path.String() == name {
			return s
		}
	}
	return nil
}

// moveAll renames files that cannot be linked, before other files get their old names. Those whose
// new directory has a temporary name are renamed after it, unless their old name is needed.
func (a *applying) moveAll(replaced map[string]bool) error {
	for _, s := range a.staged {
		if s.from != nil && (!a.host.isNew(s.change.Path.Dir) || inSet(s.from, replaced) || s.source.change.After != nil) {
			if err := a.rename(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// move renames a file that cannot be linked. If another such file has the new name, the two are
// exchanged, and the other one is renamed from there.
func (a *applying) move(s *applyStep) error {
	source := s.source
	if source.seen.exists && !source.done {
		if err := a.begin(source); err != nil {
			return err
		}
	}
	var other *applyStep
	for _, x := range a.staged {
		if x != s && !x.done && x.from != nil && x.from.String() == s.change.Path.String() {
			other = x
		}
	}
	if err := a.moveTo(s, other != nil); err != nil {
		return err
	}
	a.files[s.change.After.Ino].at = s.change.Path
	if other != nil {
		other.from = s.from
	}
	switch {
	case source.change.After == nil:
		a.applied(source)
	case other == nil:
		source.seen = place{}
	case other == source:
		a.files[other.change.After.Ino].at = other.change.Path
		a.applied(other)
	}
	return nil
}

func (a *applying) moveTo(s *applyStep, exchange bool) error {
	from, err := a.host.walk(s.from.Dir)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to, err := a.host.dirOf(s.change.Path)
	if err != nil {
		return err
	}
	switch name := s.change.Path.Name; {
	case exchange:
		err = unix.Renameat2(from, s.from.Name, to, name, unix.RENAME_EXCHANGE)
	case s.seen.isDir():
		temp := a.replacedName("", "") // it is never swept
		if err = unix.Renameat(from, s.from.Name, to, temp); err == nil {
			s.temp, s.from = temp, nil
		}
	case s.seen.exists:
		err = unix.Renameat(from, s.from.Name, to, name)
	default:
		if err = unix.Renameat2(from, s.from.Name, to, name, unix.RENAME_NOREPLACE); cannotRename2(err) {
			err = unix.Renameat(from, s.from.Name, to, name)
		}
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		return a.changedMeanwhile(s)
	}
	return err
}
