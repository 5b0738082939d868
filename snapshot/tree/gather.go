package tree

import (
	"fmt"
	"sync"
)

// A program that writes little at a time leaves extents that lie in the journal
// one after the other, with a record header or what others wrote in between.
// gather reads those with one call. Its zero value is ready.
type gather struct {
	first []byte // where the bytes at from go, if there is only one part
	from  int64
	to    int64 // end of the last part
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

type gatherPart struct {
	dst []byte
	pos int64
}

var gatherBuffers = sync.Pool{New: func() any { return new(gathered) }}

// add has dst filled with the bytes at journal position pos, at the latest by
// flush.
func (g *gather) add(log Log, dst []byte, pos int64) error {
	if g.first != nil && (pos < g.to || pos-g.to > gatherGap || pos+int64(len(dst))-g.from > gatherMax) {
		if err := g.flush(log); err != nil {
			return err
		}
	}
	if g.first == nil {
		g.first, g.from, g.to = dst, pos, pos+int64(len(dst))
		return nil
	}
	if g.more == nil {
		g.more = gatherBuffers.Get().(*gathered)
		g.more.parts = append(g.more.parts[:0], gatherPart{g.first, g.from})
	}
	g.more.parts = append(g.more.parts, gatherPart{dst, pos})
	g.to = pos + int64(len(dst))
	return nil
}

// flush fills what is not filled yet.
func (g *gather) flush(log Log) error {
	first, more := g.first, g.more
	g.first, g.more = nil, nil
	switch {
	case first == nil:
		return nil
	case more == nil:
		return readLog(log, first, g.from)
	}
	defer func() {
		clear(more.parts)
		gatherBuffers.Put(more)
	}()
	buf := more.buf[:g.to-g.from]
	if err := log.ReadAt(buf, g.from); err == nil {
		for _, p := range more.parts {
			copy(p.dst, buf[p.pos-g.from:])
		}
		return nil
	}
	// Perhaps only what is in between cannot be read: the parts may be in two
	// segments of the journal.
	for _, p := range more.parts {
		if err := readLog(log, p.dst, p.pos); err != nil {
			return err
		}
	}
	return nil
}

func readLog(log Log, p []byte, pos int64) error {
	if err := log.ReadAt(p, pos); err != nil {
		return fmt.Errorf("read %d bytes at journal position %d: %w", len(p), pos, err)
	}
	return nil
}
