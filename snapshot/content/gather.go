package content

import (
	"fmt"
	"sync"
)

// A program that writes little at a time leaves extents that lie in the journal
// one after the other, with a record header or what others wrote in between.
// gather reads those with one call. Its zero value is ready.
type gather struct {
	first gatherPart // at from, if there is only one part
	to    int64      // end of the last part
	more  *gathered
}

const (
	gatherMax = 128 << 10 // bytes read with one call
	gatherGap = 1 << 10   // bytes in between that are cheaper to read than to leave out
)

type gathered struct {
	parts []gatherPart
	buf   [gatherMax]byte
}

// A gatherPart is bytes at a position, and where the payload of its record begins.
type gatherPart struct {
	dst          []byte
	pos, payload int64
}

var gatherBuffers = sync.Pool{New: func() any { return new(gathered) }}

// add has a part filled, at the latest by flush.
func (g *gather) add(log Log, p gatherPart) error {
	end := p.pos + int64(len(p.dst))
	if g.first.dst != nil && (p.pos < g.to || p.pos-g.to > gatherGap || end-g.first.pos > gatherMax) {
		if err := g.flush(log); err != nil {
			return err
		}
	}
	g.to = end
	if g.first.dst == nil {
		g.first = p
		return nil
	}
	if g.more == nil {
		g.more = gatherBuffers.Get().(*gathered)
		g.more.parts = append(g.more.parts[:0], g.first)
	}
	g.more.parts = append(g.more.parts, p)
	return nil
}

// flush fills what is not filled yet.
func (g *gather) flush(log Log) error {
	first, more := g.first, g.more
	g.first, g.more = gatherPart{}, nil
	switch {
	case first.dst == nil:
		return nil
	case more == nil:
		return first.read(log)
	}
	defer func() {
		clear(more.parts)
		gatherBuffers.Put(more)
	}()
	buf := more.buf[:g.to-first.pos]
	if err := log.ReadAt(buf, first.pos, first.payload); err == nil {
		for _, p := range more.parts {
			copy(p.dst, buf[p.pos-first.pos:])
		}
		return nil
	}
	// Perhaps only what is in between cannot be read: the parts may be in two
	// segments of the journal.
	for _, p := range more.parts {
		if err := p.read(log); err != nil {
			return err
		}
	}
	return nil
}

func (p gatherPart) read(log Log) error {
	if err := log.ReadAt(p.dst, p.pos, p.payload); err != nil {
		return fmt.Errorf("read %d bytes at journal position %d: %w", len(p.dst), p.pos, err)
	}
	return nil
}
