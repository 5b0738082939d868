package hostdir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
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
func (pl *planner) goesOn(d *decision) bool {
	f := pl.files[d.change.After.Ino]
	return (d.text != nil || f.at == nil) && (f.was == nil || f.was.Ino == d.change.Before.Ino)
}

// areFiles reports whether the base, the directory and the workspace have something other than a
// directory at the path of a step, which is not in a directory that is taken as a whole.
func (pl *planner) areFiles(d *decision) bool {
	was, n := d.change.Before, d.change.After
	return d.seen.exists && !d.seen.isDir() && was != nil && !was.IsDir() && n != nil && !n.IsDir() && !inSet(d.change.Path, pl.whole)
}

// mergeFile plans a file of which the base, the directory and the workspace have a version. conflict
// reports that both sides changed it, other than by lines that merge.
func (pl *planner) mergeFile(d *decision) (conflict bool, err error) {
	c := d.change
	if err := pl.readHere(d, c.Before); err != nil {
		return false, err
	}

	m, err := threeway.MergeFile(c.Before, d.here, c.After, func(x, y *tree.Inode) (bool, error) { return pl.sameData(d, x, y) })
	if err != nil {
		return false, err
	}
	if !m.OK || m.Taken && !pl.goesOn(d) {
		return true, nil
	}

	pl.takeAttrs(d, m.Node)

	if m.Lines {
		clean, err := pl.mergeText(d)
		return !clean, err
	}

	if m.Changed {
		d.action = write
	}

	return false, nil
}

// sameData compares the data of two inodes, of which one may be that of the directory. A file that an
// apply was killed in while it overwrote it has the data of the base.
func (pl *planner) sameData(d *decision, x, y *tree.Inode) (bool, error) {
	switch d.here {
	case y:
		x, y = y, x
	case x:
	default:
		return tree.SameData(pl.o.Source, x, y)
	}

	same, err := pl.host.sameData(pl.o.Source, d.change.Path, d.seen, y)
	if err == nil && !same && y == d.change.Before {
		same, err = pl.halfWritten(d.step)
	}

	return same, err
}

// mergeText merges the lines of a regular file of which the directory, the workspace and perhaps the
// base have different versions. It reports whether that left no conflict. d.marked has the lines with conflict
// markers, if it is a text.
func (pl *planner) mergeText(d *decision) (clean bool, err error) {
	c, p := d.change, d.change.Path
	if pl.o.MergeLines == nil || c.After == nil || !d.seen.exists || inSet(p, pl.whole) || !c.After.IsRegular() || d.seen.st.Mode&unix.S_IFMT != unix.S_IFREG || max(d.seen.st.Size, c.After.Size()) > threeway.MaxMerged {
		return false, nil
	}

	ours, err := pl.host.file(p)
	if errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %q: %w", p.Short(), err)
	}
	defer ours.Close()

	in := threeway.Input{Base: section(nil), Ours: io.NewSectionReader(ours, 0, d.seen.st.Size), Theirs: c.After.Content.Reader(pl.o.Source.Files), Path: p.String()}
	if c.Before != nil {
		in.Base = c.Before.Content.Reader(pl.o.Source.Files)
	}
	if d.text != nil {
		in.Theirs = section(d.text)
	}

	err = pl.o.MergeLines(pl.ctx, in, func(m threeway.Merged) error {
		if pl.mergedBytes += int64(len(m.Text)); pl.mergedBytes > maxMergedTexts {
			return nil
		}

		if clean = m.Clean; clean {
			pl.takeText(d, m.Text)
		} else {
			d.marked = m.Text
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
func (pl *planner) takeText(d *decision, text []byte) {
	n := *d.change.After
	n.UID, n.GID, n.Mtime = d.seen.st.Uid, d.seen.st.Gid, time.Now().UnixNano()
	d.change.After = &n
	d.change.What |= tree.Data
	d.text, d.action = text, write
}

// readHere reads the version of a step's file that the directory has. Extended attributes that may not
// be read are those of was.
func (pl *planner) readHere(d *decision, was *tree.Inode) error {
	st := d.seen.st
	d.base, d.here = was, &tree.Inode{Ino: was.Ino, Mode: st.Mode, UID: st.Uid, GID: st.Gid, Mtime: timeOf(st.Mtim), Xattrs: was.Xattrs}
	if d.sameFile && tree.SameXattrs(was, d.change.After) {
		return nil // they stay
	}

	has, err := pl.host.xattrs(d.change.Path)
	if errors.Is(err, unix.EACCES) {
		return nil
	}

	d.here.Xattrs = has

	return err
}

// takeAttrs gives the file of a step its merged attributes.
func (pl *planner) takeAttrs(d *decision, merged tree.Inode) {
	n := *d.change.After
	n.Mode, n.UID, n.GID, n.Xattrs = n.Mode&unix.S_IFMT|merged.Mode&^unix.S_IFMT, merged.UID, merged.GID, merged.Xattrs
	if d.sameFile && d.change.Before != nil && d.change.Before.Mtime == n.Mtime {
		n.Mtime = d.here.Mtime
	}
	d.change.After = &n
}

// judgeAttrs plans the attributes of a file that stays. was is its version in the base, nil if that is
// not known.
func (pl *planner) judgeAttrs(d *decision, was *tree.Inode) (conflict bool, err error) {
	n := d.change.After
	if was == nil || was.Type() != n.Type() {
		return d.seen.st.Mode != n.Mode, nil
	}
	if err := pl.readHere(d, was); err != nil {
		return false, err
	}

	merged, changed, ok := threeway.MergeAttrs(was, d.here, n, threeway.RefuseConflicts)
	if !ok {
		return true, nil
	}

	if changed {
		d.action = attributes
		pl.takeAttrs(d, merged)
	}

	return false, nil
}

// force has a step replace what the directory changed. Attributes that the workspace did not change
// stay as the directory has them.
func (pl *planner) force(d *decision) {
	d.replace()
	if d.here != nil {
		merged, _, _ := threeway.MergeAttrs(d.base, d.here, d.change.After, threeway.TakeTheirs)
		pl.takeAttrs(d, merged)
	}
}

// replace gives a path what the workspace has, whatever the directory changed.
func (d *decision) replace() {
	d.forced = true
	switch {
	case d.sameFile:
		d.action = attributes
	case d.change.After != nil || d.seen.exists:
		d.action = actionFor(d.change)
	}
}

// halfWritten reports whether an apply was interrupted while it overwrote a file.
func (pl *planner) halfWritten(s *step) (bool, error) {
	c, st := s.change, s.seen.st
	if os.Geteuid() == 0 || c.Before == nil || c.After == nil || c.Before.Ino != c.After.Ino || !c.After.IsRegular() || !s.seen.exists || s.text != nil ||
		st.Mode != c.Before.Mode || st.Size > max(c.Before.Size(), c.After.Size()) || st.Size < min(c.Before.Size(), c.After.Size()) {
		return false, nil
	}
	if dir, err := pl.host.dirOf(c.Path); err != nil || st.Uid == uint32(os.Geteuid()) && !lockedDir(dir) {
		return false, err
	}

	f, err := pl.host.file(c.Path)
	if err != nil {
		return false, errs.Except(err, unix.EACCES)
	}
	defer f.Close()

	was, now := c.Before.Content.Reader(pl.o.Source.Files), c.After.Content.Reader(pl.o.Source.Files)
	var here, x, y [64 << 10]byte

	for off := int64(0); off < st.Size; off += int64(len(here)) {
		n, err := f.ReadAt(here[:], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}

		i, err := was.ReadAt(x[:], off)
		j, jerr := now.ReadAt(y[:], off)
		for _, err := range []error{err, jerr} {
			if err != nil && !errors.Is(err, io.EOF) {
				return false, nil
			}
		}

		for k, b := range here[:n] {
			if (k >= i || b != x[k]) && (k >= j || b != y[k]) {
				return false, nil
			}
		}
	}

	return true, nil
}
