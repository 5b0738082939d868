package content

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
)

// Content is one version of the bytes of a regular file: a sealed ChunkMap, overlaid with extents
// that were written later. Extents refer to the journal, so a write copies no
// bytes, and clones share bytes.
//
// A Content belongs to the epoch that made it, and is changed in place during that
// epoch. When the epoch is over the Content is frozen, and VersionFor makes the
// next version. A frozen Content still changes in two ways. Neither changes the
// bytes of the file, and both are safe while others read it without a lock:
//
//   - a sealer cuts the file into chunks and records the ChunkMap. Afterwards the
//     Content reads from the ChunkMap and no longer needs the journal;
//   - Rebase replaces the parts that a version shares with an older version, when the
//     older version was sealed: they then refer to its chunks.
//
// The caller needs one lock over related contents (versions of one another, or
// source and target of CloneRange) to call VersionFor and to change them. A frozen
// Content is read, sealed and rebased without the lock. A nil *Content is an empty
// file.
type Content struct {
	epoch     uint64
	layout    atomic.Pointer[layout]   // never nil; replaced by Rebase and by sealing
	sealedMap atomic.Pointer[ChunkMap] // set once, by a sealer
	link      atomic.Pointer[ancestry]

	sealMu         sync.Mutex  // held by Seal and Spill
	unfinishedSeal *fileSealer // the state of an interrupted Seal; guarded by sealMu
	// sealLayout is the layout that a running or interrupted Seal cuts, else nil. The Seal reuses chunks of the
	// ChunkMaps of this layout even after the Content has another layout, so a gc marks these ChunkMaps.
	sealLayout atomic.Pointer[layout]
	// partialMaps refer to the chunks and lists that an interrupted Seal has stored.
	partialMaps atomic.Pointer[[]*ChunkMap]
}

// ancestry is the origin of a Content that is not sealed.
type ancestry struct {
	prev       *Content // the previous version
	prevLayout *layout  // a layout of prev, of which the Content's layout is a copy with later changes
}

// noEpoch is the epoch of contents that FromChunkMap returned.
const noEpoch = math.MaxUint64

// New returns an empty file that epoch may change.
func New(epoch uint64) *Content {
	c := &Content{epoch: epoch}
	c.layout.Store(&layout{})
	return c
}

// FromChunkMap returns the content of a sealed file. No epoch may change it.
func FromChunkMap(b *ChunkMap) *Content {
	c := &Content{epoch: noEpoch}
	c.layout.Store(baseLayout(b))
	c.sealedMap.Store(b)
	return c
}

// VersionFor returns c if epoch may change it. Otherwise it makes and returns a new version with the
// same bytes, which epoch may change; then c is frozen. c may be nil.
func (c *Content) VersionFor(epoch uint64) *Content {
	switch {
	case c == nil:
		return New(epoch)
	case c.epoch == epoch:
		return c
	}

	n := &Content{epoch: epoch}
	if b := c.sealedMap.Load(); b != nil {
		n.layout.Store(baseLayout(b))
		return n
	}

	origin := c.layout.Load()
	n.layout.Store(origin.clone())
	n.link.Store(&ancestry{prev: c, prevLayout: origin})

	return n
}

// Frozen reports whether epoch must not change c, so that c can be read without a lock.
func (c *Content) Frozen(epoch uint64) bool { return c == nil || c.epoch != epoch }

// Size returns the length of the file in bytes.
func (c *Content) Size() int64 {
	if c == nil {
		return 0
	}
	return c.layout.Load().size
}

// Allocated returns the number of bytes of the file that are data or reserved.
func (c *Content) Allocated() int64 {
	if c == nil {
		return 0
	}
	return c.layout.Load().alloc
}

// SealedMap returns the ChunkMap of a sealed content, else nil.
func (c *Content) SealedMap() *ChunkMap {
	if c == nil {
		return emptyChunkMap
	}
	return c.sealedMap.Load()
}

var emptyChunkMap = &ChunkMap{}

// AnyInJournal reports whether match returns true for any part of c in the journal. A part is n bytes at the
// journal position pos.
func (c *Content) AnyInJournal(match func(pos, n int64) bool) (found bool) {
	if c == nil {
		return false
	}
	c.layout.Load().ext.eachFrom(0, func(_ int64, e extent) bool {
		found = e.inJournal() && match(e.pos, e.n)
		return !found
	})

	return found
}

// MinJournalPos returns the lowest journal position that c refers to, MaxInt64 if c does
// not refer to the journal.
func (c *Content) MinJournalPos() int64 {
	low := int64(math.MaxInt64)
	c.AnyInJournal(func(pos, _ int64) bool {
		low = min(low, pos)
		return false
	})
	return low
}

// eachChunkMap calls fn for every ChunkMap whose chunks c reads or may read later:
//
//   - the base of its layout, and the ChunkMaps of cloned ranges;
//   - the ChunkMaps of older versions, to which a Rebase may move parts of c;
//   - the ChunkMaps whose chunks a sealer reuses;
//   - the chunks and lists that an interrupted Seal has stored.
//
// A gc that marks all of them keeps every object that c needs, even if Rebase and a sealer run at the
// same time.
func (c *Content) eachChunkMap(fn func(b *ChunkMap) error) error {
	for c != nil {
		// Rebase replaces the layout before the link. A sealer sets sealLayout to the present layout, and clears
		// sealLayout after the result has become the layout. So no ChunkMap is missed if layout is unchanged at the
		// end of the loop.
		link, l := c.link.Load(), c.layout.Load()
		if err := l.eachChunkMap(fn); err != nil {
			return err
		}
		if err := c.sealLayout.Load().eachChunkMap(fn); err != nil {
			return err
		}

		if made := c.partialMaps.Load(); made != nil {
			for _, b := range *made {
				if err := fn(b); err != nil {
					return err
				}
			}
		}
		if c.layout.Load() != l {
			continue // the layout has changed: visit c again
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
		if err := fn(l.base); err != nil {
			return err
		}
	}

	l.ext.eachFrom(0, func(_ int64, e extent) bool {
		if e.inBase() {
			err = fn(e.base)
		}
		return err == nil
	})

	return err
}

// EachObject calls fn for every object that c reads or may read later, and for a list before its
// items. It visits the items of a list only if fn returns true for the list.
func (c *Content) EachObject(src *Source, fn func(h cas.Hash, isList bool) (descend bool, err error)) error {
	return c.eachChunkMap(func(b *ChunkMap) error { return b.eachHash(src, fn) })
}

const (
	// MaxExtents is the limit of the extents of a file for changes that write no bytes, such as
	// clones and holes.
	MaxExtents = 1 << 20
	// ExtentBytes is the approximate memory of an extent in bytes.
	ExtentBytes = 128
)

// ExtentCount returns the number of extents above the base.
func (c *Content) ExtentCount() int {
	if c == nil {
		return 0
	}
	return c.layout.Load().ext.count()
}

// UnsealedExtents returns the number of extents that VersionFor would copy into the next version. For a sealed
// content it is 0.
func (c *Content) UnsealedExtents() int64 {
	if c == nil || c.sealedMap.Load() != nil {
		return 0
	}
	return int64(c.layout.Load().ext.count())
}

// CountRuns counts the runs of [off, end), at most limit of them. It returns the end of the last counted run and the
// number of counted runs. If there are fewer than limit runs, runsEnd is end. For runs see layout.extentAt.
func (c *Content) CountRuns(off, end int64, limit int) (runsEnd int64, runs int) {
	if c == nil {
		return end, 0
	}
	runsEnd = end
	c.layout.Load().eachRun(off, end, func(at int64, e extent) bool {
		if runs++; runs == limit {
			runsEnd = at + e.n
		}
		return runs < limit
	})

	return runsEnd, runs
}

// StartOfLastExtents returns the offset at which the last limit extents of the file begin, or least if that is
// higher.
func (c *Content) StartOfLastExtents(least int64, limit int) int64 {
	if c == nil {
		return least
	}
	return max(least, c.layout.Load().ext.nthLast(limit))
}

// Preload reads the chunk lists that a change of [off, off+n) needs, so that the change reads no
// object and cannot fail.
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

// Write makes the n bytes at off refer to the journal position pos. payloadPos is the position at which the payload
// of the record begins. A write beyond the end extends the file.
func (c *Content) Write(src *Source, off, n, pos, payloadPos int64) error {
	if n <= 0 {
		return nil
	}
	return c.layout.Load().replace(src, off, extent{n: n, pos: pos, payloadPos: payloadPos})
}

// Truncate cuts the file to size bytes, or extends it with a hole.
func (c *Content) Truncate(src *Source, size int64) error {
	if err := c.layout.Load().truncate(src, size); err != nil {
		return err
	}
	if size == 0 {
		c.link.Store(nil) // c shares no bytes with the older version
	}

	return nil
}

// Punch makes a hole of [off, off+n). The size of the file does not change.
func (c *Content) Punch(src *Source, off, n int64) error {
	return c.layout.Load().fill(src, off, n, posHole, true)
}

// Zero makes [off, off+n) read as zeros and reserves its blocks. With keepSize it changes only the part before
// the end of the file, else it may extend the file.
func (c *Content) Zero(src *Source, off, n int64, keepSize bool) error {
	return c.layout.Load().fill(src, off, n, posUnwritten, keepSize)
}

// fill makes a hole or a reservation of [off, off+n). pos is posHole or posUnwritten.
func (l *layout) fill(src *Source, off, n, pos int64, keepSize bool) error {
	if keepSize {
		n = min(n, l.size-off)
	}
	if n <= 0 {
		return nil
	}
	return l.replace(src, off, extent{n: n, pos: pos})
}

// Allocate reserves blocks for the holes of [off, off+n). Data is not changed. With keepSize only the part before
// the end of the file is changed: no blocks can be reserved beyond the end of a file.
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

// CloneRange replaces n bytes of c, beginning at dstOff, by n bytes of from, beginning at off. It copies no bytes,
// and clones holes, too. It stops at the end of from, and may extend c. from may be c itself.
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

	replaced, err := l.allocated(src, dstOff, dstOff+n)
	if err != nil {
		return err
	}

	added, err := f.allocated(src, off, off+n)
	if err != nil {
		return err
	}

	var runs []extent // read before l changes, because f may be l
	f.eachRun(off, off+n, func(_ int64, e extent) bool {
		runs = append(runs, e)
		return true
	})

	for _, e := range runs {
		l.set(dstOff, e)
		dstOff += e.n
	}

	l.alloc += added - replaced

	return nil
}
