package hostdir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// maxMergedTexts is how many bytes of merged texts an apply has in memory.
const maxMergedTexts = 128 << 20

// goesOn reports whether the workspace has another version of the base's file at the path of a step, and
// not another file that was moved there.
func (a *applying) goesOn(s *applyStep) bool {
	f := a.files[s.change.After.Ino]
	return (s.text != nil || f.at == nil) && (f.was == nil || f.was.Ino == s.change.Before.Ino)
}

// areFiles reports whether the base, the directory and the workspace have something other than a
// directory at the path of a step, which is not in a directory that is taken as a whole.
func (a *applying) areFiles(s *applyStep) bool {
	was, n := s.change.Before, s.change.After
	return s.seen.exists && !s.seen.isDir() && was != nil && !was.IsDir() && n != nil && !n.IsDir() && !inSet(s.change.Path, a.whole)
}

// mergeFile plans a file of which the base, the directory and the workspace have a version. conflict
// reports that both sides changed it, other than by lines that merge.
func (a *applying) mergeFile(s *applyStep) (conflict bool, err error) {
	c := s.change
	if err := a.readHere(s, c.Before); err != nil {
		return false, err
	}
	m, err := threeway.MergeFile(c.Before, s.here, c.After, func(x, y *tree.Inode) (bool, error) { return a.sameData(s, x, y) })
	if err != nil {
		return false, err
	}
	if !m.OK || m.Taken && !a.goesOn(s) {
		return true, nil
	}
	a.takeAttrs(s, m.Node)
	if m.Lines {
		clean, err := a.mergeText(s)
		return !clean, err
	}
	s.todo = m.Changed
	return false, nil
}

// sameData compares the data of two inodes, of which one may be that of the directory. A file that an
// apply was killed in while it overwrote it has the data of the base.
func (a *applying) sameData(s *applyStep, x, y *tree.Inode) (bool, error) {
	switch s.here {
	case y:
		x, y = y, x
	case x:
	default:
		return tree.SameData(a.o.Source, x, y)
	}
	same, err := a.host.sameData(a.o.Source, s.change.Path, s.seen, y)
	if err == nil && !same && y == s.change.Before {
		same, err = a.halfWritten(s)
	}
	return same, err
}

// mergeText merges the lines of a regular file of which the directory, the workspace and perhaps the
// base have different versions. It reports whether that left no conflict. s.marked has the lines with conflict
// markers, if it is a text.
func (a *applying) mergeText(s *applyStep) (clean bool, err error) {
	c, p := s.change, s.change.Path
	if a.o.MergeLines == nil || c.After == nil || !s.seen.exists || inSet(p, a.whole) || !c.After.IsRegular() || s.seen.st.Mode&unix.S_IFMT != unix.S_IFREG || max(s.seen.st.Size, c.After.Size()) > threeway.MaxMerged {
		return false, nil
	}
	ours, err := a.host.file(p)
	if errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %q: %w", p.Short(), err)
	}
	defer ours.Close()

	in := threeway.Input{Base: section(nil), Ours: io.NewSectionReader(ours, 0, s.seen.st.Size), Theirs: c.After.Content.Reader(a.o.Source.Files)}
	if c.Before != nil {
		in.Base = c.Before.Content.Reader(a.o.Source.Files)
	}
	if s.text != nil {
		in.Theirs = section(s.text)
	}
	err = a.o.MergeLines(a.ctx, in, func(m threeway.Merged) error {
		if a.mergedBytes += int64(len(m.Text)); a.mergedBytes > maxMergedTexts {
			return nil
		}
		if clean = m.Clean; clean {
			a.takeText(s, m.Text)
		} else {
			s.marked = m.Text
		}
		return nil
	})
	if k := errs.ScriptKind(err); err != nil && (k == errs.NotExist || k == errs.Damaged) {
		return false, nil // the base's version cannot be read
	}
	if err != nil {
		return false, fmt.Errorf("reading %q: %w", p.Short(), err)
	}
	return clean, nil
}

func section(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}

// takeText has a step write a text with the changes of both sides.
func (a *applying) takeText(s *applyStep, text []byte) {
	n := *s.change.After
	n.UID, n.GID, n.Mtime = s.seen.st.Uid, s.seen.st.Gid, time.Now().UnixNano()
	s.change.After = &n
	s.change.What |= tree.Data
	s.merged, s.todo = text, true
}

// readHere reads the version of a step's file that the directory has. Extended attributes that may not
// be read are those of was.
func (a *applying) readHere(s *applyStep, was *tree.Inode) error {
	st := s.seen.st
	s.was, s.here = was, &tree.Inode{Ino: was.Ino, Mode: st.Mode, UID: st.Uid, GID: st.Gid, Mtime: timeOf(st.Mtim), Xattrs: was.Xattrs}
	if s.attrsOnly && tree.SameXattrs(was, s.change.After) {
		return nil // they stay
	}
	has, err := a.host.xattrs(s.change.Path)
	if errors.Is(err, unix.EACCES) {
		return nil
	}
	s.here.Xattrs = has
	return err
}

// takeAttrs gives the file of a step its merged attributes.
func (a *applying) takeAttrs(s *applyStep, merged tree.Inode) {
	n := *s.change.After
	n.Mode, n.UID, n.GID, n.Xattrs = n.Mode&unix.S_IFMT|merged.Mode&^unix.S_IFMT, merged.UID, merged.GID, merged.Xattrs
	if s.attrsOnly && s.change.Before != nil && s.change.Before.Mtime == n.Mtime {
		n.Mtime = s.here.Mtime
	}
	s.change.After = &n
}

// judgeAttrs plans the attributes of a file that stays. was is its version in the base, nil if that is
// not known.
func (a *applying) judgeAttrs(s *applyStep, was *tree.Inode) (conflict bool, err error) {
	n := s.change.After
	if was == nil || was.Type() != n.Type() {
		return s.seen.st.Mode != n.Mode, nil
	}
	if err := a.readHere(s, was); err != nil {
		return false, err
	}
	merged, changed, ok := threeway.MergeAttrs(was, s.here, n, threeway.RefuseConflicts)
	if !ok {
		return true, nil
	}
	if s.todo = changed; changed {
		a.takeAttrs(s, merged)
	}
	return false, nil
}

// force has a step replace what the directory changed. Attributes that the workspace did not change
// stay as the directory has them.
func (a *applying) force(s *applyStep) {
	s.todo, s.forced = s.change.After != nil || s.seen.exists, true
	if s.here != nil {
		merged, _, _ := threeway.MergeAttrs(s.was, s.here, s.change.After, threeway.TakeTheirs)
		a.takeAttrs(s, merged)
	}
}
