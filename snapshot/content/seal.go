package content

import (
	"context"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas"
)

// ErrTurnOver means that Sealer.Spend ended a Seal. The next Seal continues where it ended.
var ErrTurnOver = errors.New("the turn is over")

// itemCost is the work, in bytes, for an item that is taken over without being read and cut.
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
	// Beside is a semaphore for the goroutines in which FromReader and Begin store chunks while they read the
	// next bytes. Its capacity limits the number of chunks. If it is nil, they store each chunk before they
	// continue to read.
	Beside chan struct{}
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
	if b := c.Sealed(); b != nil {
		return b, nil
	}

	c.sealing.Lock()
	defer c.sealing.Unlock()

	if b := c.Sealed(); b != nil {
		return b, nil // another sealer has sealed it
	}

	b, err := z.cut(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("cut file into chunks: %w", err)
	}

	c.sealed.Store(b)
	c.layout.Store(baseLayout(b)) // refers neither to the journal nor to older versions
	c.link.Store(nil)
	c.dropUnfinished()

	return b, nil
}

// cut cuts c into chunks, or continues an interrupted Seal. The caller holds c.sealing.
func (z *Sealer) cut(ctx context.Context, c *Content) (*ChunkMap, error) {
	s := c.unfinished
	if s == nil {
		c.Rebase() // chunks of older versions need not be cut again

		// eachChunkMap relies on sealLayout being set while it is equal to c.layout.
		l := c.layout.Load()
		for c.sealLayout.Store(l); c.layout.Load() != l; c.sealLayout.Store(l) {
			l = c.layout.Load()
		}
		if b := l.plain(); b != nil {
			return b, nil
		}

		s = &fileSealer{c: c, l: l}
	}

	c.unfinished = nil // so that s is not used again after a panic

	s.begin(ctx, z)
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
	c.unfinished = s
}

// dropUnfinished drops the state of an unfinished Seal.
func (c *Content) dropUnfinished() {
	c.unfinished = nil
	c.sealLayout.Store(nil)
	c.partialMaps.Store(nil)
}

// fileSealer is the state of a Seal that is running or was interrupted. Its list builder has the chunks before p,
// and a new chunk begins at p.
type fileSealer struct {
	*chunkWriter
	c *Content
	l *layout // the layout of c when the Seal began, for planning; bytes are read through c's present layout
	p int64   // offset in the file

	dataEnd int64 // [p, dataEnd) is known to be data
	ended   bool  // there is no data at dataEnd

	old   cursor // a cursor in oldOf, from which chunks are taken over
	oldOf *ChunkMap

	small map[journalRange]cas.Hash // chunks that were stored in this turn, see smallPart

	damaged []damagedPart
	work    int64 // in bytes, since the last call of Spend
}

// journalRange is the place of an extent in the journal.
type journalRange struct{ pos, n int64 }

// begin prepares s for a Seal by z.
func (s *fileSealer) begin(ctx context.Context, z *Sealer) {
	w := newChunkWriter(ctx, z)
	if s.chunkWriter != nil {
		w.list = s.list
		w.list.objects = z.Objects
	}
	s.chunkWriter, s.oldOf, s.small = w, nil, nil
}

// run cuts the rest of the file and returns its ChunkMap.
func (s *fileSealer) run() (*ChunkMap, error) {
	for s.p < s.l.size {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if err := s.step(); err != nil {
			return nil, err
		}

		done := s.work
		s.work = 0
		if s.z.Spend != nil && s.z.Spend(done) && s.p < s.l.size {
			return nil, ErrTurnOver
		}
	}
	return s.list.finish()
}

// step takes over chunks at p from a ChunkMap, or adds a hole or a chunk.
func (s *fileSealer) step() error {
	e := s.l.extentAt(s.p)
	if e.inBase() {
		if taken, err := s.takeOver(e); taken || err != nil {
			return err
		}
	}

	if s.dataEnd <= s.p { // the kind of the bytes at p is not known yet
		if done, err := s.addSmallPart(e); done || err != nil {
			return err
		}

		s.dataEnd, s.ended = s.p, false
		kind, err := s.kind(s.p)
		if err != nil {
			return err
		}

		if !kind.hasData() {
			s.work += itemCost
			s.p += kind.n
			return s.list.add(kind)
		}

		s.dataEnd += kind.n
	}

	if s.z.Pace != nil {
		s.z.Pace()
	}

	return s.cutOne()
}

// maxSmall is the largest number of entries of fileSealer.small.
const maxSmall = 64 << 10

// addSmallPart adds the extent e at p as a chunk if e is small, in the journal and followed by a hole. done is
// set if it did. A file may have a million small extents that are clones of a few: each range of the journal is
// read and stored only once.
func (s *fileSealer) addSmallPart(e extent) (done bool, err error) {
	if !e.inJournal() || e.n >= smallChunk {
		return false, nil
	}

	if end := s.p + e.n; end < s.l.size {
		kind, err := s.kind(end)
		if err != nil || kind.hasData() {
			return false, err
		}
	}

	at := journalRange{e.pos, e.n}
	h, found := s.small[at]
	if !found {
		data, err := s.window(s.p, e.n, e.n)
		if err != nil {
			return false, err
		}
		if _, damaged := s.damagedIn(s.p, e.n); damaged {
			return false, nil
		}

		if h, err = s.z.Objects.Put(cas.KindData, data[:e.n]); err != nil {
			s.list.failed = true
			return false, fmt.Errorf("write a chunk: %w", err)
		}

		if s.small == nil || len(s.small) == maxSmall {
			s.small = make(map[journalRange]cas.Hash)
		}

		s.small[at] = h
	}

	s.p += e.n
	s.work += itemCost
	return true, s.list.add(item{n: e.n, hash: h})
}

// takeOver adds the chunks and lists of a ChunkMap that begin at p. e is the run at p, and is in the ChunkMap.
// taken is set if it added any.
//
// Where a chunk or a list ends depends on its bytes and the next byte. So the next byte must be in the
// run, too, unless the file ends there.
func (s *fileSealer) takeOver(e extent) (taken bool, err error) {
	shift := s.p - e.pos // offset in the file minus offset in the ChunkMap
	clean := s.p + e.n   // chunks that end below clean are equal in the ChunkMap
	if clean == s.l.size {
		clean++
	}
	if s.oldOf != e.base || s.old.off > e.pos {
		s.oldOf, s.old = e.base, e.base.cursor(s.z.Src)
	}

	c := &s.old
	for !c.done() {
		at := s.p - shift // p in the ChunkMap
		fits := c.off == at && s.p+c.cur.n < clean
		switch {
		case c.end() <= at:
			err = c.next()
		case fits && c.level == 0:
			err = s.list.add(c.cur)
		case fits && s.list.aligned(c.level):
			err = s.list.addList(c.level, c.cur)
		case c.level > 0:
			fits, err = false, c.enter()
		default:
			return taken, nil
		}
		if err != nil {
			return taken, ignoreLost(err)
		}
		if !fits {
			continue
		}

		s.p += c.cur.n
		s.work += itemCost
		taken = true
		if err = c.next(); err != nil || s.work >= bufferSize {
			return taken, ignoreLost(err)
		}
	}

	return taken, nil
}

// kind returns the data, hole or reservation at p, without a hash. It may return only the beginning of it. If the
// lists of chunks cannot be read, it returns data: readAround then finds the damaged parts.
func (s *fileSealer) kind(p int64) (item, error) {
	e := s.l.extentAt(p)
	it := e.kind()
	if !e.inBase() {
		return it, nil
	}

	err := e.base.eachKind(s.z.Src, e.pos, e.pos+e.n, false, func(_ int64, first item) bool {
		it = first
		return false
	})

	return it, ignoreLost(err)
}

// extend moves dataEnd forward, to upto or further, or to the end of the data.
func (s *fileSealer) extend(upto int64) error {
	for s.dataEnd < min(upto, s.l.size) && !s.ended {
		kind, err := s.kind(s.dataEnd)
		if err != nil {
			return err
		}
		if s.ended = !kind.hasData(); !s.ended {
			s.dataEnd += kind.n
		}
	}
	return nil
}

// cutOne stores the chunk at p, which is data.
func (s *fileSealer) cutOne() error {
	for look := int64(firstLook); ; look = maxChunk { // look is the number of bytes in which the end of the chunk is searched
		if err := s.extend(s.p + look); err != nil {
			return err
		}

		n := min(look, s.dataEnd-s.p)

		ahead := n

		if !s.l.extentAt(s.p + n - 1).inBase() {
			// Read more at a time, but only to the next part in a base, which may be taken over without reading
			// it.
			for s.dataEnd < min(s.p+bufferSize, s.l.size) && !s.ended && !s.l.extentAt(s.dataEnd-1).inBase() {
				if err := s.extend(s.dataEnd + 1); err != nil {
					return err
				}
			}

			ahead = s.dataEnd - s.p
		}

		data, err := s.window(s.p, n, ahead)
		if err != nil {
			return err
		}

		if d, ok := s.damagedIn(s.p, n); ok {
			if d.off <= s.p {
				return s.addDamaged(d)
			}
			n = d.off - s.p
			look = maxChunk // a chunk ends at the damaged part at the latest
		}

		chunk := data[:cut(data[:n])]
		if int64(len(chunk)) < n || n < look || look == maxChunk {
			s.p += int64(len(chunk))
			s.work += int64(len(chunk))
			return s.store(chunk)
		}
	}
}

// window returns at least n bytes of the file from p on. If it has to read, it reads up to ahead bytes.
func (s *fileSealer) window(p, n, ahead int64) ([]byte, error) {
	return s.fill(p, n, ahead, func(b []byte, off int64) error {
		got, err := s.c.ReadAt(s.z.Src, b, off)
		if err != nil {
			return s.readAround(b, off)
		}
		if got < len(b) {
			return fmt.Errorf("file ends at %d, not at %d", off+int64(got), s.l.size)
		}

		return nil
	})
}
