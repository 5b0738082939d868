package hostdir

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/naming"
)

// linkExisting makes the name tmp a hard link of a file of the directory. If the link is impossible, as for another
// user's file, it changes the step: a name of the file that the plan removes is later renamed to the step's path. If
// that is impossible, too, linkExisting returns false, and the path gets a copy of the file.
func (w *writer) linkExisting(dir int, tmp string, s *step, f *hostFile) (done bool, err error) {
	from, err := w.host.newDirFD(f.path.Dir)
	if err != nil {
		return false, err
	}
	defer unix.Close(from)

	switch err = unix.Linkat(from, f.path.Name, dir, tmp, 0); {
	case err == nil:
		w.placer.touch(f.id.ino)
		return true, nil
	case errors.Is(err, unix.ENOENT):
		return false, w.placer.changedError(s)
	case !cannotLink(err):
		return false, err
	}
	if errors.Is(err, unix.EXDEV) || f.before == nil {
		return false, nil // a rename is impossible, too, so the path gets a copy of the file
	}

	source := w.removingStep(f)
	if source == nil {
		return false, nil
	}

	s.placement, s.sourceStep, s.fromPath = moveName, source, source.change.Path
	w.unstage(s)
	w.staged = append(w.staged, s)
	return true, nil
}

// cannotLink reports whether a hard link of the file is impossible. Other errors, such as a full disk, may be
// temporary.
func cannotLink(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EOPNOTSUPP)
}

// removingStep returns the first step that removes a name of a file, nil if no step does.
func (w *writer) removingStep(f *hostFile) *step {
	for _, s := range w.steps {
		if s.action > changeAttributes && s.placement != inPlace && s.original.exists && s.original.id() == f.id && !w.isTaken(s) {
			return s
		}
	}
	return nil
}

// isTaken reports whether another step renames the file at the path of a step to a path of its own.
func (w *writer) isTaken(s *step) bool {
	return slices.ContainsFunc(w.staged, func(other *step) bool { return other.sourceStep == s })
}

// moveAll renames files that cannot be linked, before other files are placed at their old names. If the new
// directory of a file still has a temporary name, the file is renamed after the directory, unless another file is
// placed at its old name. replaced are the directories that a file replaces.
func (w *writer) moveAll(replaced map[string]bool) error {
	for _, s := range w.staged {
		if s.placement == moveName && (!w.host.isNew(s.change.Path.Dir) || naming.NearestIn(s.fromPath.String(), replaced) != "" || s.sourceStep.change.After != nil) {
			if err := w.placeFile(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveFile renames a file that cannot be linked. If the file at the new name is to be renamed, too, the two
// files exchange their names. The second file is later renamed from the name that it got.
func (w *writer) moveFile(s *step) error {
	source := s.sourceStep
	if source.original.exists && source.state < placed {
		if err := w.placer.checkAndTouch(source); err != nil {
			return err
		}
	}

	var other *step
	for _, x := range w.staged {
		if x != s && x.state < placed && x.placement == moveName && x.tempName == "" && x.fromPath.String() == s.change.Path.String() {
			other = x
		}
	}

	if err := w.moveTo(s, other != nil); err != nil {
		return err
	}

	s.file.path = s.change.Path
	if other != nil {
		other.fromPath = s.fromPath
	}

	switch {
	case source.change.After == nil:
		w.advance(source, placed)
	case other == nil:
		source.original = hostEntry{}
	case other == source:
		other.file.path = other.change.Path
		w.advance(other, placed)
	}

	return nil
}

// moveTo renames the file of a step from s.fromPath to its path, or to a temporary name if a directory is at the
// path. If exchange is set, the file at the path gets the name s.fromPath.
func (w *writer) moveTo(s *step, exchange bool) error {
	from, err := w.host.newDirFD(s.fromPath.Dir)
	if err != nil {
		return err
	}
	defer unix.Close(from)

	to, err := w.host.parentFD(s.change.Path)
	if err != nil {
		return err
	}

	switch name := s.change.Path.Name; {
	case exchange:
		err = unix.Renameat2(from, s.fromPath.Name, to, name, unix.RENAME_EXCHANGE)
	case s.original.isDir():
		temp := w.host.replacedName("", "") // without keys, so that sweepFile never removes the file
		if err = unix.Renameat(from, s.fromPath.Name, to, temp); err == nil {
			s.tempName = temp
		}

	case s.original.exists:
		err = unix.Renameat(from, s.fromPath.Name, to, name)
	default:
		if err = unix.Renameat2(from, s.fromPath.Name, to, name, unix.RENAME_NOREPLACE); lacksRenameFlags(err) {
			err = unix.Renameat(from, s.fromPath.Name, to, name)
		}
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) {
		return w.placer.changedError(s)
	}

	return err
}

// stageMoveDir stages the rename of a directory. It fails if the directory cannot be renamed. A directory
// that gets another parent must be writable itself.
func (w *writer) stageMoveDir(s *step) error {
	err := errors.Join(w.placer.checkReplaceable(s.sourceStep), w.checkParentWritable(s.fromPath), w.checkParentWritable(s.change.Path))
	if err == nil && s.fromPath.Dir.String() != s.change.Path.Dir.String() {
		err = w.checkParentWritable(s.fromPath.ChildUnchecked("."))
	}
	if err == nil {
		w.staged = append(w.staged, s)
	}

	return err
}
