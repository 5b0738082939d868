package live

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Memory limits the memory of changes that are not sealed yet.
type Memory interface {
	// Take charges a view for usedBytes, which are in use already, and for moreBytes, which a change will use. If
	// moreBytes exceed the limit of the view, Take charges only usedBytes and returns false. If urgent is set, the
	// limit is a little higher. The caller holds the forest's lock.
	Take(view uint32, usedBytes, moreBytes int64, urgent bool) bool
	// Await waits until Take would return true for moreBytes. The caller does not hold the forest's lock. The
	// error is errs.Quota, or the error of ctx.
	Await(ctx context.Context, view uint32, moreBytes int64, urgent bool) error
	// SealIfNearlyFull seals the replayed changes if they take too much memory. Recovery calls it without the
	// forest's lock.
	SealIfNearlyFull() error
	// SealEdit seals the state of an edit if it takes too much memory, and reports whether it has sealed
	// the state. bytes is the memory of the state. Recovery calls SealEdit with the forest's lock held.
	SealEdit(view uint32, st *tree.State, bytes int64) (sealed bool, err error)
}

// A memoryShortage is the error of a change that needs more memory than is free. It is a cas.DelayError.
type memoryShortage struct {
	memory Memory
	view   uint32
	bytes  int64
	urgent bool
}

func (s *memoryShortage) Error() string { return "not enough memory for the change" }

func (s *memoryShortage) Await(ctx context.Context) error {
	return s.memory.Await(ctx, s.view, s.bytes, s.urgent)
}

const (
	// InodeBytes is the approximate memory of a new inode, with its entry and its share of a page.
	InodeBytes = 1 << 10
	// nameBytes is the approximate memory of a name, without its text in the directory and in the inode.
	nameBytes = 128
	// contentBytes is the approximate memory of a version of a content, without its extents.
	contentBytes = 256
)

// charge charges the view for the pages that prepare has copied, and for the memory that a change will
// add. The error is a memoryShortage if the change would exceed the view's limit. The caller holds the
// forest's lock.
func (v *view) charge(r *record) error {
	more, urgent, err := v.growthBytes(r)
	if err != nil {
		return err
	}
	if !v.trees.memory.Take(v.id, v.trees.copiedPageBytes.Swap(0), more, urgent) {
		return &memoryShortage{v.trees.memory, v.id, more, urgent}
	}

	return nil
}

// growthBytes returns the approximate memory in bytes that a change uses until it is sealed. urgent reports whether
// the change may free disk space or memory. A new version of a content is charged for all its extents, even for
// those copied from the previous version: it keeps them in memory after the previous version was sealed.
func (v *view) growthBytes(r *record) (bytes int64, urgent bool, err error) {
	switch r.kind {
	case recCreate:
		bytes = InodeBytes + r.create.extraBytes() + 2*int64(len(r.name))
	case recLink:
		bytes = nameBytes + 2*int64(len(r.name))
	case recUnlink:
		return 0, true, nil
	case recRename:
		bytes, urgent = nameBytes+2*int64(len(r.newLink.Name)), true
		if r.flags&unix.RENAME_WHITEOUT != 0 {
			bytes, urgent = bytes+InodeBytes, false
		}

	case recSetXattr:
		bytes = nameBytes + int64(len(r.name)+len(r.value))
	case recRemoveXattr:
		return 0, true, nil
	case recSetAttr:
		switch {
		case r.setAttr.Size == nil:
			urgent = true // the change must not fail: it may be the second one of a request whose first change is already made
		case *r.setAttr.Size == 0:
			return contentBytes, true, nil
		default:
			bytes, err = v.contentGrowthBytes(r, 1)
		}

	default:
		bytes, err = v.dataGrowthBytes(r)
	}
	return bytes, urgent, err
}

// dataGrowthBytes does the work of growthBytes for a change of the bytes of a file.
func (v *view) dataGrowthBytes(r *record) (bytes int64, err error) {
	extents := 2 // the new extent, and one more because it may split an existing extent

	switch {
	case r.kind == recFallocate && r.flags&^unix.FALLOC_FL_KEEP_SIZE == 0:
		n, err := v.inode(r.ino)
		if err != nil {
			return 0, err
		}
		_, runs := n.Content.CountRuns(r.off, r.off+r.length, content.MaxExtents)
		extents += runs

	case r.kind == recClone:
		from, err := v.trees.inode(Node(r.cloneFrom.view, r.cloneFrom.ino))
		if err != nil {
			return 0, err
		}
		_, runs := from.Content.CountRuns(r.cloneFrom.off, r.cloneFrom.off+r.length, content.MaxExtents)
		extents += runs
	}

	return v.contentGrowthBytes(r, extents)
}

// contentGrowthBytes does the work of growthBytes for a change that adds the given number of extents to a file.
func (v *view) contentGrowthBytes(r *record, extents int) (bytes int64, err error) {
	n, err := v.inode(r.ino)
	if err != nil {
		return 0, err
	}

	bytes = int64(extents) * content.ExtentBytes
	if n.Content.Frozen(v.trees.mu.epoch) {
		bytes += contentBytes + n.Content.UnsealedExtents()*content.ExtentBytes
	}

	return bytes, nil
}

// extraBytes returns the approximate memory in bytes of a new inode in addition to InodeBytes.
func (c *NewNode) extraBytes() int64 {
	n := len(c.Target)
	for _, x := range c.Xattrs {
		n += nameBytes + len(x.Name) + len(x.Value)
	}
	return int64(n)
}

// chargeReplayed charges the view, without a limit, for a record that recovery replays.
func (v *view) chargeReplayed(r *record) {
	more, _, err := v.growthBytes(r)
	if err != nil {
		more = 0 // ignore the error: apply fails with it, too
	}
	v.trees.memory.Take(v.id, v.trees.copiedPageBytes.Swap(0)+more, 0, true)
}
