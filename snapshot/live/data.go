package live

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// MaxFileSize is the largest offset in a file.
	MaxFileSize = 1<<62 - 1
	// The bytes of a write of at least minBlobSize bytes are journaled without the forest's lock, so that a small
	// write does not wait for a large one.
	minBlobSize = 64 << 10
	// maxRunsPerStep is the largest number of runs of a file that one step changes or copies under the forest's
	// lock. Other requests can take the lock between two steps.
	maxRunsPerStep = 4096
)

// ReadAt fills p with bytes of a file. It returns fewer than len(p) bytes only at the end of the file. If the bytes
// are in more than maxRunsPerStep runs, it reads them in steps, and changes of the file may occur between two
// steps.
func (r Reader) ReadAt(id NodeID, p []byte, off int64) (n int, err error) {
	var last content.Runs
	for {
		runs, err := readInode(r.trees, id, func(node *tree.Inode) (content.Runs, error) {
			if !node.IsRegular() {
				return nil, errs.Invalid
			}
			return content.RunsOf(node.Content, off+int64(n), len(p)-n, maxRunsPerStep), nil
		})
		if err != nil {
			return 0, err
		}

		got, err := runs.Read(r.trees.localSrc.Files, p[n:])
		n += got
		if err == nil && len(runs) < maxRunsPerStep {
			return n, nil
		}
		if err != nil && (errs.KindOf(err) != "" || runs.Equal(last)) {
			return 0, tree.LoadError(err)
		}
		// The cause of an error may be that the bytes were sealed or overwritten, and then removed from
		// these places. In this case the file now has other runs, and the read is repeated.
		last = runs
	}
}

// changeableFile returns the view and the inode of a regular file, for a change of its bytes. The caller holds the
// forest's lock.
func (t *trees) changeableFile(id NodeID) (*view, *tree.Inode, error) {
	v, n, err := t.changeableInode(id)
	switch {
	case err != nil:
	case n.IsDir():
		err = errs.IsDir
	case !n.IsRegular():
		err = errs.Invalid
	}

	return v, n, err
}

// Write writes all of p. killPriv clears the set-user-ID and set-group-ID
// bits and the file capabilities, as write(2) does for unprivileged callers.
func (w Writer) Write(id NodeID, p []byte, off int64, killPriv bool) (int, error) {
	if off < 0 || off+int64(len(p)) > MaxFileSize || off+int64(len(p)) < 0 {
		return 0, errs.TooBig
	}
	if err := w.trees.admit(id.View(), int64(len(p))); err != nil {
		return 0, err
	}

	r := record{kind: recWrite, view: id.View(), ino: id.Ino(), off: off, length: int64(len(p)), clearPriv: killPriv}
	data := p
	if len(p) >= minBlobSize {
		pos, done, err := w.trees.blobs.Write(recBlob, p, false)
		if err != nil {
			return 0, err
		}
		defer done()

		r.kind, r.dataPos, r.payloadPos, data = recWriteAt, pos, pos, nil
	}

	if err := w.change(id, func() error {
		v, _, err := w.trees.changeableFile(id)
		if err != nil {
			return err
		}

		r.time = now()
		return v.commit(&r, data)
	}); err != nil {
		return 0, err
	}

	return len(p), nil
}

// Fallocate is fallocate(2) with the modes 0, KEEP_SIZE, PUNCH_HOLE and
// ZERO_RANGE.
func (w Writer) Fallocate(id NodeID, off, n int64, mode uint32) error {
	if off < 0 || n <= 0 {
		return errs.Invalid
	}
	if off+n < 0 || off+n > MaxFileSize {
		return errs.TooBig
	}

	switch mode {
	case 0, unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE,
		unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE:
	default:
		return errs.NotSupported
	}

	reserved := int64(0)
	if mode&^unix.FALLOC_FL_KEEP_SIZE == 0 {
		reserved = n
	}

	for end := off + n; off < end; {
		to, err := w.fallocate(id, off, end, mode, reserved)
		if err != nil {
			return err
		}
		off, reserved = to, 0
	}

	return nil
}

// fallocate changes the first maxRunsPerStep runs of [off, end), and returns the end of the changed part. It calls
// Options.Admit with reserved, a number of bytes, plus the memory of the new extents.
func (w Writer) fallocate(id NodeID, off, end int64, mode uint32, reserved int64) (to int64, err error) {
	// The extents at both ends of the part may be split.
	if err := w.trees.admit(id.View(), reserved+2*content.ExtentBytes); err != nil {
		return 0, err
	}

	err = w.change(id, func() error {
		v, node, err := w.trees.changeableFile(id)
		if err != nil {
			return err
		}

		var runs int
		if to, runs = node.Content.CountRuns(off, end, maxRunsPerStep); to >= node.Size() {
			to = end
		}

		// Punching and zeroing join all runs in the range into one run, so with four runs or more the
		// number of extents does not grow. A reservation adds an extent for each hole.
		adds := runs < 4 || mode&^unix.FALLOC_FL_KEEP_SIZE == 0
		if adds && node.Content.ExtentCount() >= content.MaxExtents {
			return fmt.Errorf("%w: the file would have more than %d parts", errs.TooBig, content.MaxExtents)
		}

		r := record{kind: recFallocate, view: v.id, time: now(), ino: id.Ino(), off: off, length: to - off, flags: mode}
		return v.commit(&r, nil)
	})

	return to, err
}

// Seek returns the offset of the next data or hole at or after off. whence is SEEK_DATA or
// SEEK_HOLE. The error is errs.NoData if the file has no data or hole there.
func (r Reader) Seek(id NodeID, off int64, whence int) (int64, error) {
	return readInode(r.trees, id, func(n *tree.Inode) (pos int64, err error) {
		switch {
		case !n.IsRegular():
			return 0, errs.Invalid
		case off < 0:
			return 0, errs.NoData
		case whence == unix.SEEK_DATA:
			pos, err = n.Content.SeekData(r.trees.residentSrc.Files, off, content.SeekBlockSize)
		case whence == unix.SEEK_HOLE:
			pos, err = n.Content.SeekHole(r.trees.residentSrc.Files, off, content.SeekBlockSize)
		default:
			return 0, errs.Invalid
		}
		return pos, tree.LoadError(err)
	})
}

// CopyRange copies bytes between files, which may be in different views: afterwards both files reference the same
// stored bytes. It returns the number of copied bytes, which is less than n if the range has many extents. If the
// target has too many extents, the error is errs.CrossDevice, and the caller can read and write the bytes instead.
func (w Writer) CopyRange(src NodeID, soff int64, dst NodeID, doff int64, n int64) (int64, error) {
	if soff < 0 || doff < 0 || n < 0 {
		return 0, errs.Invalid
	}
	n, cost, err := w.trees.planCopyStep(src, soff, dst, doff, n)
	if err != nil {
		return 0, err
	}
	if err := w.trees.admit(dst.View(), cost); err != nil {
		return 0, err
	}

	err = w.change(dst, func() error {
		from, err := w.trees.inode(src)
		if err != nil {
			return err
		}

		v, to, err := w.trees.changeableFile(dst)
		if err != nil {
			return err
		}
		if !from.IsRegular() {
			return errs.Invalid
		}

		if n = min(n, from.Size()-soff); n <= 0 {
			n = 0
			return nil
		}

		end, runs := from.Content.CountRuns(soff, soff+n, maxRunsPerStep)
		n = end - soff
		if to.Content.ExtentCount()+runs > content.MaxExtents {
			return errs.CrossDevice
		}

		r := record{kind: recClone, view: v.id, time: now(), ino: dst.Ino(), off: doff, cloneFrom: cloneSource{src.View(), src.Ino(), soff}, length: n}
		return v.commit(&r, nil)
	})

	return n, err
}

// planCopyStep returns the number of bytes that the next step of CopyRange copies. cost is the memory in bytes of
// the new extents except for the first one.
func (t *trees) planCopyStep(src NodeID, soff int64, dst NodeID, doff, n int64) (bytes, cost int64, err error) {
	err = t.withReadLock(func() error {
		from, err := t.inode(src)
		if err != nil {
			return err
		}

		to, err := t.inode(dst)
		if err != nil {
			return err
		}
		if n = min(n, from.Size()-soff); n <= 0 || !from.IsRegular() {
			return nil // CopyRange repeats this check and returns the error
		}
		if doff+n > MaxFileSize || doff+n < 0 {
			return errs.TooBig
		}
		if src == dst && soff < doff+n && doff < soff+n { // the ranges overlap
			return errs.Invalid
		}
		if end, _ := to.Content.CountRuns(doff, doff+n, maxRunsPerStep); end < to.Size() {
			n = end - doff
		}

		end, runs := from.Content.CountRuns(soff, soff+n, maxRunsPerStep)
		bytes, cost = end-soff, content.ExtentBytes*int64(runs-1)

		return nil
	})
	return bytes, cost, err
}

// applyToData applies the records that change the bytes of a file.
func (v *view) applyToData(n *tree.Inode, r *record) (err error) {
	c := n.Content.VersionFor(v.trees.mu.epoch)
	files := v.source().Files

	switch r.kind {
	case recWrite, recWriteAt:
		err = c.Write(files, r.off, r.length, r.dataPos, r.payloadPos)
	case recFallocate:
		err = applyFallocate(files, c, r)
	case recClone:
		var from *tree.Inode
		if from, err = v.trees.inode(Node(r.cloneFrom.view, r.cloneFrom.ino)); err != nil {
			return err
		}
		err = c.CloneRange(files, r.off, from.Content, r.cloneFrom.off, r.length)
	}
	if err != nil {
		return err
	}

	n.Content = c
	n.Mtime = r.time
	if r.clearPriv {
		n.ClearPriv()
	}

	return nil
}

// applyFallocate applies a recFallocate to the content c.
func applyFallocate(src *content.Source, c *content.Content, r *record) error {
	keep := r.flags&unix.FALLOC_FL_KEEP_SIZE != 0
	switch {
	case r.flags&unix.FALLOC_FL_PUNCH_HOLE != 0:
		return c.Punch(src, r.off, r.length)
	case r.flags&unix.FALLOC_FL_ZERO_RANGE != 0:
		return c.Zero(src, r.off, r.length, keep)
	}

	return c.Allocate(src, r.off, r.length, keep)
}
