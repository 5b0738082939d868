package live

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Memory is the account of what changes take in memory until they are sealed.
type Memory interface {
	// Take charges a view with the lock held: for what was taken already and, unless that is
	// more than the view may have, which it reports, for what will be taken. With urgent, a
	// little more can be had.
	Take(view uint32, taken, more int64, urgent bool) bool
	// Await returns, without the lock, when Take could charge a view for so much more. Errors:
	// errs.Quota.
	Await(ctx context.Context, view uint32, more int64, urgent bool) error
	// Relieve is called during a recovery without the lock. It seals what was replayed if that
	// takes too much memory. SealEdit does that, with the lock held, for the state of an edit
	// that takes so many bytes, and reports whether it did.
	Relieve() error
	SealEdit(view uint32, st *tree.State, bytes int64) (sealed bool, err error)
}

// unbounded is a Memory without bounds.
type unbounded struct{}

func (unbounded) Take(uint32, int64, int64, bool) bool                         { return true }
func (unbounded) Await(context.Context, uint32, int64, bool) error             { return nil }
func (unbounded) Relieve() error                                               { return nil }
func (unbounded) SealEdit(uint32, *tree.State, int64) (sealed bool, err error) { return false, nil }

// A shortError is a cas.Delay until there is memory for a change.
type shortError struct {
	memory Memory
	view   uint32
	more   int64
	urgent bool
}

func (s *shortError) Error() string { return "not enough memory for the change" }

func (s *shortError) Await(ctx context.Context) error {
	return s.memory.Await(ctx, s.view, s.more, s.urgent)
}

const (
	// InodeBytes is about what a new inode takes in memory, with its entry and its part of a page.
	InodeBytes = 1 << 10
	// nameBytes is about what a name takes beside its text, which the directory and the inode have.
	nameBytes = 128
	// contentBytes is about what a version of a content takes beside its extents.
	contentBytes = 256
)

// charge charges the view for a change: for the pages that prepare copied and, unless they are
// more than the view may have, for what the change is going to add. The lock is held.
func (v *view) charge(r *record) error {
	more, urgent, err := v.growth(r)
	if err == nil && !v.trees.memory.Take(v.id, v.trees.pages.Swap(0), more, urgent) {
		err = &shortError{v.trees.memory, v.id, more, urgent}
	}
	return err
}

// growth returns about how many bytes of memory a change adds to what is not sealed, and whether it
// may give disk space or memory back. A version of a content is charged with all its extents: it
// keeps them when the version before is sealed.
func (v *view) growth(r *record) (bytes int64, urgent bool, err error) {
	switch r.kind {
	case recCreate:
		bytes = InodeBytes + r.create.bytes() + 2*int64(len(r.name))
	case recLink:
		bytes = nameBytes + 2*int64(len(r.name))
	case recUnlink:
		return 0, true, nil
	case recRename:
		bytes, urgent = nameBytes+2*int64(len(r.name2)), true
		if r.flags&unix.RENAME_WHITEOUT != 0 {
			bytes, urgent = bytes+InodeBytes, false
		}
	case recSetXattr:
		bytes = nameBytes + int64(len(r.name)+len(r.value))
	case recRemoveXattr:
		return 0, true, nil
	case recSetAttr:
		switch {
		case r.set.Size == nil:
			urgent = true // it may be the second change of a request, of which the first is made
		case *r.set.Size == 0:
			return contentBytes, true, nil
		default:
			bytes, err = v.growthOfContent(r, 1)
		}
	default:
		bytes, err = v.growthOfData(r)
	}
	return bytes, urgent, err
}

// growthOfData is growth for a change of the bytes of a file.
func (v *view) growthOfData(r *record) (bytes int64, err error) {
	extents := 2 // a new one in the middle of another
	switch {
	case r.kind == recFallocate && r.flags&^unix.FALLOC_FL_KEEP_SIZE == 0:
		n, err := v.inode(r.ino)
		if err != nil {
			return 0, err
		}
		_, runs := n.Content.Reach(r.off, r.off+r.n, content.MaxExtents)
		extents += runs
	case r.kind == recClone:
		from, err := v.trees.inode(Node(r.view2, r.ino2))
		if err != nil {
			return 0, err
		}
		_, runs := from.Content.Reach(r.off2, r.off2+r.n, content.MaxExtents)
		extents += runs
	}
	return v.growthOfContent(r, extents)
}

// growthOfContent is growth for a change that adds extents to a file.
func (v *view) growthOfContent(r *record, extents int) (bytes int64, err error) {
	n, err := v.inode(r.ino)
	if err != nil {
		return 0, err
	}
	bytes = int64(extents) * content.ExtentBytes
	if n.Content.Frozen(v.trees.mu.epoch) {
		bytes += contentBytes + n.Content.Unsealed()*content.ExtentBytes
	}
	return bytes, nil
}

// bytes is about what a new inode takes beside InodeBytes.
func (c *Create) bytes() int64 {
	n := len(c.Target)
	for _, x := range c.Xattrs {
		n += nameBytes + len(x.Name) + len(x.Value)
	}
	return int64(n)
}

// recharge charges the view for a record that recovery replays: it is not refused.
func (v *view) recharge(r *record) {
	more, _, err := v.growth(r)
	if err != nil {
		more = 0 // the record fails, or a salvage leaves it out
	}
	v.trees.memory.Take(v.id, v.trees.pages.Swap(0)+more, 0, true)
}
