package content

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
)

// Content is what a regular file holds: a sealed ChunkMap, overlaid with extents for
// what was written since. Extents point into the journal, so a write copies
// nothing, and clones share bytes.
//
// A Content belongs to the epoch that made it and is changed in place while that
// is the current one. Once the epoch is past it is frozen, and Own makes the
// next version. Two things still happen to a frozen Content; neither changes
// what it holds, and both are safe while others read it without a lock:
//
//   - a sealer cuts it into chunks and records the ChunkMap. From then on it reads
//     from there and needs the journal no more;
//   - Rebase lets a version follow the version before it, when that was sealed.
//
// Owning and changing contents that are related (versions of one another, or
// source and target of CloneRange) needs one lock over all of them. A frozen
// Content is read, sealed and rebased without it. A nil *Content is an empty
// file.
type Content struct {
	epoch  uint64
	layout atomic.Pointer[layout]   // never nil; replaced by Rebase and by sealing
	sealed atomic.Pointer[ChunkMap] // set once, by a sealer
	link   atomic.Pointer[ancestry]

	sealing sync.Mutex  // held by the sealer at work
	begun   *fileSealer // of a Seal that did not come to an end, guarded by sealing
	// cutting is what it cuts up, nil if none is at work. Its ChunkMap keeps lending
	// chunks, even if the layout of the Content has moved on, so a collection marks it.
	cutting atomic.Pointer[layout]
	// cutOff are the chunks and lists that it had when it last returned before the end.
	cutOff atomic.Pointer[[]*ChunkMap]
}

// ancestry is what a Content that is not sealed was made from.
type ancestry struct {
	prev *Content // the version before
	from *layout  // a layout of prev; c was a copy of it but for what was changed since
}

// noEpoch owns contents that were sealed from the start.
const noEpoch = math.MaxUint64

// New returns an empty file that epoch may change.
func New(epoch uint64) *Content {
	c := &Content{epoch: epoch}
	c.layout.Store(&layout{})
	return c
}

// Of returns the content of a sealed file. No epoch may change it.
func Of(b *ChunkMap) *Content {
	c := &Content{epoch: noEpoch}
	c.layout.Store(baseLayout(b))
	c.sealed.Store(b)
	return c
}

// Own returns c if epoch may change it, else a new version that epoch may change
// and that holds the same. c, which may be nil, is frozen from then on.
func (c *Content) Own(epoch uint64) *Content {
	switch {
	case c == nil:
		return New(epoch)
	case c.epoch == epoch:
		return c
	}
	n := &Content{epoch: epoch}
	if b := c.sealed.Load(); b != nil {
		n.layout.Store(baseLayout(b))
		return n
	}
	from := c.layout.Load()
	n.layout.Store(from.clone())
	n.link.Store(&ancestry{prev: c, from: from})
	return n
}

// Frozen reports whether epoch may not change c: it can be read without a lock.
func (c *Content) Frozen(epoch uint64) bool { return c == nil || c.epoch != epoch }

// Size returns the length of the file in bytes.
func (c *Content) Size() int64 {
	if c == nil {
		return 0
	}
	return c.layout.Load().size
}

// Allocated returns how many bytes of the file are data or reserved.
func (c *Content) Allocated() int64 {
	if c == nil {
		return 0
	}
	return c.layout.Load().alloc
}

// Sealed returns the ChunkMap once the content is sealed, else nil.
func (c *Content) Sealed() *ChunkMap {
	if c == nil {
		return emptyChunkMap
	}
	return c.sealed.Load()
}

var emptyChunkMap = &ChunkMap{}

// InLog reports whether is returns true for any part of c that is in the journal, n bytes at pos.
func (c *Content) InLog(is func(pos, n int64) bool) (found bool) {
	if c == nil {
		return false
	}
	c.layout.Load().ext.from(0, func(_ int64, e extent) bool {
		found = e.inJournal() && is(e.pos, e.n)
		return !found
	})
	return found
}

// MinPos returns the lowest journal position that c refers to, MaxInt64 if it
// needs nothing of the journal.
func (c *Content) MinPos() int64 {
	low := int64(math.MaxInt64)
	c.InLog(func(pos, _ int64) bool {
		low = min(low, pos)
		return false
	})
	return low
}

// eachChunkMap calls fn for every ChunkMap whose chunks c reads or may come to share:
// the one beneath, those that parts were cloned from, those of the older versions
// that a Rebase would follow, those that a sealer at work takes chunks from, and what a
// Seal that returned before the end has made. A collection that marks all of them keeps what c needs, whatever
// Rebase and the sealer do meanwhile.
func (c *Content) eachChunkMap(fn func(b *ChunkMap) error) error {
	for c != nil {
		// Rebase replaces the layout before the link. A sealer sets sealing while that is
		// the layout, and unsets it when the result has become the layout. So if the
		// layout is the same before and after all was looked at, no ChunkMap slips
		// through in between.
		link, l := c.link.Load(), c.layout.Load()
		if err := l.eachChunkMap(fn); err != nil {
			return err
		}
		if err := c.cutting.Load().eachChunkMap(fn); err != nil {
			return err
		}
		if made := c.cutOff.Load(); made != nil {
			for _, b := range *made {
				if err := fn(b); err != nil {
					return err
				}
			}
		}
		if c.layout.Load() != l {
			continue
		}
		if link == nil {
			return nil
		}
		c = link.prev
	}
	return nil
}

func (l *layout) eachChunkMap(fn func(b *ChunkMap) error) (err error) {
	if l == nil {
		return nil
	}
	if l.base != nil {
		err = fn(l.base)
	}
	if err == nil {
		l.ext.from(0, func(_ int64, e extent) bool {
			if e.inBase() {
				err = fn(e.base)
			}
			return err == nil
		})
	}
	return err
}

// EachObject calls fn for every object that c needs: lists come before what they
// name, and below a list for which fn returns false nothing is visited.
func (c *Content) EachObject(src *Source, fn func(h cas.Hash, isList bool) (descend bool, err error)) error {
	return c.eachChunkMap(func(b *ChunkMap) error { return b.eachHash(src, fn) })
}

const (
	// MaxExtents is how many extents a file may get by changes that bring no bytes.
	MaxExtents = 1 << 20
	// ExtentBytes is what an extent is counted as, about what it takes in memory.
	ExtentBytes = 128
)

// Extents is how many extents lie over the ChunkMap.
func (c *Content) Extents() int {
	if c == nil {
		return 0
	}
	return c.layout.Load().ext.count()
}

// Unsealed is how many extents a version that is made of c begins with.
func (c *Content) Unsealed() int64 {
	if c == nil || c.sealed.Load() != nil {
		return 0
	}
	return int64(c.layout.Load().ext.count())
}

// Reach returns how far [off, end) goes with at most so many runs of one place or kind, and
// how many there are.
func (c *Content) Reach(off, end int64, most int) (to int64, runs int) {
	if c == nil {
		return end, 0
	}
	to = end
	c.layout.Load().runs(off, end, func(at int64, e extent) bool {
		if runs++; runs == most {
			to = at + e.n
		}
		return runs < most
	})
	return to, runs
}

// ReachBack is Reach from the end on: it returns where [from, end of file) begins if it is
// to have at most so many extents.
func (c *Content) ReachBack(from int64, most int) int64 {
	if c == nil {
		return from
	}
	return max(from, c.layout.Load().ext.nthLast(most))
}

// Preload reads of the chunk lists what a change of [off, off+n) needs to know.
// The change itself does not fail then.
func (c *Content) Preload(src *Source, off, n int64) error {
	if c == nil {
		return nil
	}
	l := c.layout.Load()
	if off >= l.size {
		return nil
	}
	_, err := l.allocated(src, off, off+min(n, l.size-off))
	return err
}

// Write notes that the n bytes at off are those at journal position pos, in the
// record whose payload begins at payload. The file grows if need be.
func (c *Content) Write(src *Source, off, n, pos, payload int64) error {
	if n <= 0 {
		return nil
	}
	return c.layout.Load().place(src, off, extent{n: n, pos: pos, payload: payload})
}

// Truncate cuts the file to size bytes, or grows it with a hole.
func (c *Content) Truncate(src *Source, size int64) error {
	if err := c.layout.Load().truncate(src, size); err != nil {
		return err
	}
	if size == 0 {
		c.link.Store(nil) // nothing of the older version is left to share
	}
	return nil
}

// Punch makes a hole of [off, off+n). The size stays.
func (c *Content) Punch(src *Source, off, n int64) error {
	return c.layout.Load().fill(src, off, n, posHole, true)
}

// Zero makes [off, off+n) read as zeros and reserves its blocks. With keepSize
// what lies behind the end of the file is left out.
func (c *Content) Zero(src *Source, off, n int64, keepSize bool) error {
	return c.layout.Load().fill(src, off, n, posUnwritten, keepSize)
}

func (l *layout) fill(src *Source, off, n, pos int64, keepSize bool) error {
	if keepSize {
		n = min(n, l.size-off)
	}
	if n <= 0 {
		return nil
	}
	return l.place(src, off, extent{n: n, pos: pos})
}

// Allocate reserves blocks for the holes of [off, off+n); data stays. With
// keepSize what lies behind the end of the file is left out: there are no blocks
// to reserve ahead of the end of a file.
func (c *Content) Allocate(src *Source, off, n int64, keepSize bool) error {
	l := c.layout.Load()
	end := off + n
	if keepSize {
		end = min(end, l.size)
	}
	if off >= end {
		return nil
	}
	holes, err := l.holes(src, off, min(end, l.size))
	if err != nil {
		return err
	}
	if end > l.size {
		holes = append(holes, span{max(off, l.size), end})
	}
	for _, h := range holes {
		l.set(h.off, extent{n: h.end - h.off, pos: posUnwritten})
		l.alloc += h.end - h.off
	}
	return nil
}

// CloneRange makes the n bytes at dstOff those that from has at off, holes
// included, without copying any. What lies behind the end of from is left out;
// the file grows if need be. from may be c itself.
func (c *Content) CloneRange(src *Source, dstOff int64, from *Content, off, n int64) error {
	n = min(n, from.Size()-off)
	if n <= 0 {
		return nil
	}
	l, f := c.layout.Load(), from.layout.Load()
	if l.size == 0 && dstOff == 0 && off == 0 && n == f.size {
		c.layout.Store(f.clone())
		c.link.Store(nil)
		return nil
	}
	gone, err := l.allocated(src, dstOff, dstOff+n)
	if err != nil {
		return err
	}
	fresh, err := f.allocated(src, off, off+n)
	if err != nil {
		return err
	}
	var runs []extent // all of them first: c may be from
	f.runs(off, off+n, func(_ int64, e extent) bool {
		runs = append(runs, e)
		return true
	})
	for _, e := range runs {
		l.set(dstOff, e)
		dstOff += e.n
	}
	l.alloc += fresh - gone
	return nil
}
