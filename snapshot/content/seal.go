package content

import (
	"context"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas"
)

// ErrTurnOver means that a Seal gave way to others. The next one goes on from there.
var ErrTurnOver = errors.New("the turn is over")

// itemCost is what an item that is taken over counts as, in bytes that are cut.
const itemCost = 4 << 10

// Sealer cuts files into chunks and stores them. One Sealer may seal several
// files, also at the same time.
type Sealer struct {
	Src       *Source
	Objects   ObjectStore
	FindHoles bool                // FromReader makes holes of long runs of zeros
	Workers   int                 // files and directories that tree.Seal seals at a time; 0 is 1
	Pace      func() (alone bool) // called before each chunk of a file; may wait. alone: tree.Seal is to use one worker; may be nil
	OnDamage  func(bytes int64)   // called for bytes that are damaged and cannot be sealed; may be nil
	// Beside has a place for each chunk that FromReader and Begin store while they go on reading.
	// If it is nil, they store one at a time.
	Beside chan struct{}
	// Spend is called with the work that was done, in bytes. It reports whether the turn is
	// over: Seal then returns ErrTurnOver. It may be nil.
	Spend func(bytes int64) (over bool)
}

// Seal cuts a frozen content into chunks, stores them, and records the
// result in c. Only what changed since the ChunkMap beneath it is read: from the
// chunk that the change begins in to where old and new chunks fall together
// again. What comes out is the same as if all of it had been cut.
//
// A Seal that returns before the end keeps in c what it has done, unless the store failed,
// and the next one goes on from there, whoever calls it. A collection between the two
// marks that (see EachObject).
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
	c.layout.Store(baseLayout(b)) // it needs the journal no more, nor older versions
	c.link.Store(nil)
	c.forget()
	return b, nil
}

// cut is Seal with c.sealing held.
func (z *Sealer) cut(ctx context.Context, c *Content) (*ChunkMap, error) {
	s := c.begun
	if s == nil {
		c.Rebase() // what an older version has stored need not be cut again
		l := c.layout.Load()
		for c.cutting.Store(l); c.layout.Load() != l; c.cutting.Store(l) {
			l = c.layout.Load()
		}
		if b := l.plain(); b != nil {
			return b, nil
		}
		s = &fileSealer{c: c, l: l}
	}
	c.begun = nil // a panic leaves s as it may be
	s.begin(ctx, z)
	defer s.close()
	err := s.run()
	if err == nil {
		var b *ChunkMap
		if b, err = s.list.finish(); err == nil {
			return b, nil
		}
	}
	if s.list.failed {
		c.forget()
		return nil, err
	}
	made := s.list.made()
	c.cutOff.Store(&made)
	c.begun = s
	return nil, err
}

// forget drops what a Seal has begun.
func (c *Content) forget() {
	c.begun = nil
	c.cutting.Store(nil)
	c.cutOff.Store(nil)
}

// fileSealer is one Seal under way, or one that is to go on. At p, where it stands, a chunk
// begins whatever came before; list has what lies before p.
type fileSealer struct {
	*chunkWriter
	c *Content
	l *layout // what it plans by. Bytes are read through c, whose layout may move on
	p int64

	dataEnd int64 // [p, dataEnd) is known to be data
	ended   bool  // and at dataEnd there is none

	old   cursor // in oldOf, for chunks to take over
	oldOf *ChunkMap

	small map[place]cas.Hash // chunks that were stored in this turn, see smallPart

	damaged []damagedPart
	work    int64 // since the last call of Spend
}

// place is where an extent is in the journal.
type place struct{ pos, n int64 }

// begin has it go on for a Seal.
func (s *fileSealer) begin(ctx context.Context, z *Sealer) {
	w := newChunkWriter(ctx, z)
	if s.chunkWriter != nil {
		w.list = s.list
		w.list.objects = z.Objects
	}
	s.chunkWriter, s.oldOf, s.small = w, nil, nil
}

func (s *fileSealer) run() error {
	for s.p < s.l.size {
		err := s.ctx.Err()
		if err == nil {
			err = s.step()
		}
		if err != nil {
			return err
		}
		done := s.work
		s.work = 0
		if s.z.Spend != nil && s.z.Spend(done) && s.p < s.l.size {
			return ErrTurnOver
		}
	}
	return nil
}

// step takes over what can be taken over at p, or adds a hole or a chunk.
func (s *fileSealer) step() error {
	e := s.l.at(s.p)
	if e.inBase() {
		if taken, err := s.takeOver(e); taken || err != nil {
			return err
		}
	}
	if s.dataEnd <= s.p {
		if done, err := s.smallPart(e); done || err != nil {
			return err
		}
		s.dataEnd, s.ended = s.p, false
		kind, err := s.kind(s.p)
		if err != nil {
			return err
		}
		if !kind.data() {
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

// maxSmall is how many stored chunks smallPart remembers.
const maxSmall = 64 << 10

// smallPart adds a small extent of the journal between holes, which is a chunk, and reports whether
// it did. A file may have a million of them that are copies of a few, which are read and stored
// once.
func (s *fileSealer) smallPart(e extent) (done bool, err error) {
	if !e.inJournal() || e.n >= smallChunk {
		return false, nil
	}
	if end := s.p + e.n; end < s.l.size {
		kind, err := s.kind(end)
		if err != nil || kind.data() {
			return false, err
		}
	}
	at := place{e.pos, e.n}
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
			s.small = make(map[place]cas.Hash)
		}
		s.small[at] = h
	}
	s.p += e.n
	s.work += itemCost
	return true, s.list.add(item{n: e.n, hash: h})
}

// takeOver adds the chunks and lists that begin at p and are in a ChunkMap, e being
// the run at p. It says whether there were any.
//
// Where a chunk ends depends on its bytes and the one behind it, so that one must
// lie within the run too, unless the file ends there. The same goes for a list.
func (s *fileSealer) takeOver(e extent) (taken bool, err error) {
	shift := s.p - e.pos
	clean := s.p + e.n // positions below it are as in the ChunkMap
	if clean == s.l.size {
		clean++
	}
	if s.oldOf != e.base || s.old.off > e.pos {
		s.oldOf, s.old = e.base, e.base.cursor(s.z.Src)
	}
	c := &s.old
	for !c.done() {
		at := s.p - shift
		switch {
		case c.end() <= at:
			err = c.next()
		case c.off < at && c.level > 0:
			err = c.enter()
		case c.off < at:
			return taken, nil
		default:
			ok := s.p+c.cur.n < clean
			if c.level > 0 && ok {
				ok = s.list.aligned(c.level)
			}
			switch {
			case ok && c.level > 0:
				err = s.list.addList(c.level, c.cur)
			case ok:
				err = s.list.add(c.cur)
			case c.level > 0:
				if err = c.enter(); err == nil {
					continue
				}
			default:
				return taken, nil
			}
			if err != nil {
				return taken, unlessGone(err)
			}
			s.p += c.cur.n
			s.work += itemCost
			taken = true
			if err = c.next(); s.work >= bufferSize {
				return taken, unlessGone(err)
			}
		}
		if err != nil {
			return taken, unlessGone(err)
		}
	}
	return taken, nil
}

// kind returns what is at p, without a hash, up to where that may end. If it cannot be
// read, it counts as data: readAround finds out what is damaged.
func (s *fileSealer) kind(p int64) (item, error) {
	e := s.l.at(p)
	it := e.kind()
	if !e.inBase() {
		return it, nil
	}
	err := e.base.kinds(s.z.Src, e.pos, e.pos+e.n, false, func(_ int64, first item) bool {
		it = first
		return false
	})
	return it, unlessGone(err)
}

// extend moves dataEnd on, until it is past upto or the data ends.
func (s *fileSealer) extend(upto int64) error {
	for s.dataEnd < min(upto, s.l.size) && !s.ended {
		kind, err := s.kind(s.dataEnd)
		if err != nil {
			return err
		}
		if s.ended = !kind.data(); !s.ended {
			s.dataEnd += kind.n
		}
	}
	return nil
}

// cutOne stores the chunk at p, where data is.
func (s *fileSealer) cutOne() error {
	for look := int64(firstLook); ; look = maxChunk {
		if err := s.extend(s.p + look); err != nil {
			return err
		}
		n := min(look, s.dataEnd-s.p)
		ahead := n
		if !s.l.at(s.p + n - 1).inBase() {
			// As long as there is nothing to take over, read more at a time.
			for s.dataEnd < min(s.p+bufferSize, s.l.size) && !s.ended && !s.l.at(s.dataEnd-1).inBase() {
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
			look = maxChunk // the data ends there
		}
		chunk := data[:cut(data[:n])]
		if int64(len(chunk)) < n || n < look || look == maxChunk {
			s.p += int64(len(chunk))
			s.work += int64(len(chunk))
			return s.store(chunk)
		}
	}
}

// window returns at least n of the bytes at p, reading ahead if it must read.
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
