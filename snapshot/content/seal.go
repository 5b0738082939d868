package content

import (
	"context"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas"
)

// ErrTurnOver means that Sealer.Spend ended a Seal. The next Seal continues where it ended.
var ErrTurnOver = errors.New("the turn is over")

// itemCost is the work, in bytes, for an item that is reused without being read and cut.
const itemCost = 4 << 10

// Sealer cuts files into chunks and stores them. One Sealer may seal several
// files, also at the same time.
type Sealer struct {
	Src       *Source
	Objects   ObjectStore
	FindHoles bool // FromReader makes holes of long runs of zeros
	Workers   int  // how many files and directories tree.Seal seals at a time; 0 is 1
	// Pace is called before each chunk of a file, and may wait. If it returns true, writers are active
	// and tree.Seal should use one worker. It may be nil.
	Pace     func() (alone bool)
	OnDamage func(bytes int64) // called for damaged bytes that cannot be sealed; may be nil
	// StoreSlots is a semaphore for the goroutines in which FromReader and BeginFile store chunks while they read
	// the next bytes. Its capacity limits the number of these goroutines. If StoreSlots is nil, FromReader and
	// BeginFile store each chunk before they continue to read.
	StoreSlots chan struct{}
	// Spend is called with the work since its last call, in bytes. It reports whether the turn is
	// over: Seal then returns ErrTurnOver. It may be nil.
	Spend func(bytes int64) (over bool)
}

// Seal cuts a frozen content into chunks, stores them, and records the
// ChunkMap in c. It reads only the parts that differ from the base: each from the beginning of
// the chunk that contains it to the next chunk boundary that old and new chunks have in
// common. The result is the same as if Seal had cut the whole file.
//
// If Seal returns early, c keeps the stored chunks, unless the store failed, and the next Seal, of any Sealer,
// continues after them. A gc between the two marks these chunks (see EachObject).
func (z *Sealer) Seal(ctx context.Context, c *Content) (*ChunkMap, error) {
	if b := c.SealedMap(); b != nil {
		return b, nil
	}

	c.sealMu.Lock()
	defer c.sealMu.Unlock()

	if b := c.SealedMap(); b != nil {
		return b, nil // another sealer has sealed it
	}

	b, err := z.cutContent(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("cut file into chunks: %w", err)
	}

	c.sealedMap.Store(b)
	c.layout.Store(baseLayout(b)) // this layout refers neither to the journal nor to older versions
	c.link.Store(nil)
	c.dropUnfinished()

	return b, nil
}

// cutContent cuts c into chunks, or continues an interrupted Seal. The caller holds c.sealMu.
func (z *Sealer) cutContent(ctx context.Context, c *Content) (*ChunkMap, error) {
	s := c.unfinishedSeal
	if s == nil {
		c.Rebase() // chunks of older versions need not be cut again

		// eachChunkMap relies on c.layout still being l just after sealLayout was set to l. If c.layout has changed,
		// set sealLayout again.
		l := c.layout.Load()
		for c.sealLayout.Store(l); c.layout.Load() != l; c.sealLayout.Store(l) {
			l = c.layout.Load()
		}
		if b := l.unchangedBase(); b != nil {
			return b, nil
		}

		s = &fileSealer{c: c, l: l}
	}

	c.unfinishedSeal = nil // so that s is not used again after a panic

	s.beginTurn(ctx, z)
	defer s.close()

	b, err := s.run()
	if err != nil {
		c.keepUnfinished(s)
		return nil, err
	}

	return b, nil
}

// keepUnfinished keeps s for the next Seal, unless its list builder lacks an item.
func (c *Content) keepUnfinished(s *fileSealer) {
	if s.list.failed {
		c.dropUnfinished()
		return
	}

	maps := s.list.partialMaps()
	c.partialMaps.Store(&maps)
	c.unfinishedSeal = s
}

// dropUnfinished drops the state of an unfinished Seal.
func (c *Content) dropUnfinished() {
	c.unfinishedSeal = nil
	c.sealLayout.Store(nil)
	c.partialMaps.Store(nil)
}

// fileSealer is the state of a Seal that is running or was interrupted. Its list builder has the chunks before off,
// and a new chunk begins at off.
type fileSealer struct {
	*chunkWriter
	c   *Content
	l   *layout // the layout of c when the Seal began, for planning; bytes are read through c's present layout
	off int64   // offset in the file

	dataEnd   int64 // [off, dataEnd) is known to be data
	dataEnded bool  // there is no data at dataEnd

	reuseCursor cursor // a cursor in reuseMap, from which chunks are reused
	reuseMap    *ChunkMap

	smallChunks map[journalRange]cas.Hash // chunks that were stored in this turn, see addSmallPart

	damaged []damagedPart
	work    int64 // in bytes, since the last call of Spend
}

// journalRange is the place of an extent in the journal.
type journalRange struct{ pos, n int64 }

// beginTurn prepares s for a Seal by z.
func (s *fileSealer) beginTurn(ctx context.Context, z *Sealer) {
	w := newChunkWriter(ctx, z)
	if s.chunkWriter != nil {
		w.list = s.list
		w.list.objects = z.Objects
	}
	s.chunkWriter, s.reuseMap, s.smallChunks = w, nil, nil
}

// run cuts the rest of the file and returns its ChunkMap.
func (s *fileSealer) run() (*ChunkMap, error) {
	for s.off < s.l.size {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.step(); err != nil {
			return nil, err
		}

		done := s.work
		s.work = 0
		if s.z.Spend != nil && s.z.Spend(done) && s.off < s.l.size {
			return nil, ErrTurnOver
		}
	}
	return s.list.finish()
}

// step reuses chunks at off from a ChunkMap, or adds a hole or a chunk.
func (s *fileSealer) step() error {
	e := s.l.extentAt(s.off)
	if e.inBase() {
		if reused, err := s.reuseChunks(e); reused || err != nil {
			return err
		}
	}

	if s.dataEnd <= s.off { // the kind of the bytes at off is not known yet
		if done, err := s.addSmallPart(e); done || err != nil {
			return err
		}

		s.dataEnd, s.dataEnded = s.off, false
		kind, err := s.kindAt(s.off)
		if err != nil {
			return err
		}

		if !kind.hasData() {
			s.work += itemCost
			s.off += kind.n
			return s.list.add(kind)
		}

		s.dataEnd += kind.n
	}

	if s.z.Pace != nil {
		s.z.Pace()
	}

	return s.cutChunk()
}

// maxSmallChunks is the largest number of entries of fileSealer.smallChunks.
const maxSmallChunks = 64 << 10

// addSmallPart adds the extent e at off as a chunk if e is small, in the journal and followed by a hole. It reports
// whether it did. A file may have a million small extents that are clones of a few: each range of the journal is
// read and stored only once.
func (s *fileSealer) addSmallPart(e extent) (done bool, err error) {
	if !e.inJournal() || e.n >= smallChunkLen {
		return false, nil
	}

	if end := s.off + e.n; end < s.l.size {
		kind, err := s.kindAt(end)
		if err != nil || kind.hasData() {
			return false, err
		}
	}

	at := journalRange{e.pos, e.n}
	h, found := s.smallChunks[at]
	if !found {
		data, err := s.window(s.off, e.n, e.n)
		if err != nil {
			return false, err
		}
		if _, damaged := s.firstDamagedIn(s.off, e.n); damaged {
			return false, nil
		}

		if h, err = s.z.Objects.Put(cas.KindData, data[:e.n]); err != nil {
			s.list.failed = true
			return false, fmt.Errorf("write a chunk: %w", err)
		}

		if s.smallChunks == nil || len(s.smallChunks) == maxSmallChunks {
			s.smallChunks = make(map[journalRange]cas.Hash)
		}

		s.smallChunks[at] = h
	}

	s.off += e.n
	s.work += itemCost
	return true, s.list.add(item{n: e.n, hash: h})
}

// reuseChunks adds the chunks and lists of a ChunkMap that begin at off. e is the run at off, and is in the
// ChunkMap. It reports whether it added any.
//
// Where a chunk or a list ends depends on its bytes and the next byte. So the next byte must be in the
// run, too, unless the file ends there.
func (s *fileSealer) reuseChunks(e extent) (reused bool, err error) {
	shift := s.off - e.pos  // offset in the file minus offset in the ChunkMap
	cleanEnd := s.off + e.n // chunks that end below cleanEnd are equal in the ChunkMap
	if cleanEnd == s.l.size {
		cleanEnd++
	}
	if s.reuseMap != e.base || s.reuseCursor.off > e.pos {
		s.reuseMap, s.reuseCursor = e.base, e.base.cursor(s.z.Src)
	}

	c := &s.reuseCursor
	for !c.atEnd() {
		at := s.off - shift // offset of s.off in the ChunkMap
		fits := c.off == at && s.off+c.cur.n < cleanEnd
		switch {
		case c.end() <= at:
			err = c.next()
		case fits && c.level == 0:
			err = s.list.add(c.cur)
		case fits && s.list.canAddList(c.level):
			err = s.list.addList(c.level, c.cur)
		case c.level > 0:
			fits, err = false, c.enter()
		default:
			return reused, nil
		}
		if err != nil {
			return reused, ignoreLost(err)
		}
		if !fits {
			continue
		}

		s.off += c.cur.n
		s.work += itemCost
		reused = true
		if err = c.next(); err != nil || s.work >= bufferSize {
			return reused, ignoreLost(err)
		}
	}

	return reused, nil
}

// kindAt returns the data, hole or reservation at p, without a hash. The result may be shorter than the data, hole
// or reservation. If the lists of chunks cannot be read, it is data: readPastDamage then finds the damaged parts.
func (s *fileSealer) kindAt(p int64) (item, error) {
	e := s.l.extentAt(p)
	it := e.asItem()
	if !e.inBase() {
		return it, nil
	}

	err := e.base.eachKind(s.z.Src, e.pos, e.pos+e.n, false, func(_ int64, first item) bool {
		it = first
		return false
	})

	return it, ignoreLost(err)
}

// extendData moves dataEnd forward, to limit or further, or to the end of the data.
func (s *fileSealer) extendData(limit int64) error {
	for s.dataEnd < min(limit, s.l.size) && !s.dataEnded {
		kind, err := s.kindAt(s.dataEnd)
		if err != nil {
			return err
		}
		if s.dataEnded = !kind.hasData(); !s.dataEnded {
			s.dataEnd += kind.n
		}
	}
	return nil
}

// cutChunk stores the chunk at off, where the file has data.
func (s *fileSealer) cutChunk() error {
	for searchLen := int64(firstSearchLen); ; searchLen = maxChunkSize { // the end of the chunk is searched in searchLen bytes
		if err := s.extendData(s.off + searchLen); err != nil {
			return err
		}

		n := min(searchLen, s.dataEnd-s.off)

		ahead := n

		if !s.l.extentAt(s.off + n - 1).inBase() {
			// Read more at a time, but only up to the next part that is in a base: the chunks of such a part may be
			// reused without reading it.
			for s.dataEnd < min(s.off+bufferSize, s.l.size) && !s.dataEnded && !s.l.extentAt(s.dataEnd-1).inBase() {
				if err := s.extendData(s.dataEnd + 1); err != nil {
					return err
				}
			}

			ahead = s.dataEnd - s.off
		}

		data, err := s.window(s.off, n, ahead)
		if err != nil {
			return err
		}

		if d, ok := s.firstDamagedIn(s.off, n); ok {
			if d.off <= s.off {
				return s.addDamaged(d)
			}
			n = d.off - s.off
			searchLen = maxChunkSize // a chunk ends at the damaged part at the latest
		}

		chunk := data[:firstChunkLen(data[:n])]
		if int64(len(chunk)) < n || n < searchLen || searchLen == maxChunkSize {
			s.off += int64(len(chunk))
			s.work += int64(len(chunk))
			return s.store(chunk)
		}
	}
}

// window returns at least n bytes of the file from p on. If it has to read, it reads up to the offset p+ahead.
func (s *fileSealer) window(p, n, ahead int64) ([]byte, error) {
	return s.fill(p, n, ahead, func(b []byte, off int64) error {
		got, err := s.c.ReadAt(s.z.Src, b, off)
		if err != nil {
			return s.readPastDamage(b, off)
		}
		if got < len(b) {
			return fmt.Errorf("file ends at %d, not at %d", off+int64(got), s.l.size)
		}

		return nil
	})
}
