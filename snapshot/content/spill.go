package content

import (
	"context"
	"fmt"
	"io"
)

// Spill stores the journal bytes of a frozen content as chunks. It is used for a file that cannot be sealed
// because other bytes of it cannot be read. The content then refers to the chunks in place of the journal, and so
// do newer versions after Rebase. Until Spill returns, the caller must keep the bytes in the journal.
func (z *Sealer) Spill(ctx context.Context, c *Content) error {
	c.sealMu.Lock()
	defer c.sealMu.Unlock()

	for c.SealedMap() == nil {
		l := c.layout.Load()
		b, err := FromReader(ctx, z, &journalReader{z.Src, l.journalExtents()})
		if err != nil {
			return fmt.Errorf("store bytes of the journal: %w", err)
		}
		if b.n == 0 || c.layout.CompareAndSwap(l, l.withSpilled(b)) {
			return nil
		}
	}

	return nil
}

// journalExtents returns the extents in the journal, in order.
func (l *layout) journalExtents() (out []extent) {
	l.ext.eachFrom(0, func(_ int64, e extent) bool {
		if e.inJournal() {
			out = append(out, e)
		}
		return true
	})
	return out
}

// withSpilled returns a copy of l in which the extents in the journal are replaced by extents in b, which has
// their bytes one after the other.
func (l *layout) withSpilled(b *ChunkMap) *layout {
	n := &layout{size: l.size, alloc: l.alloc, base: l.base, baseLen: l.baseLen}
	pos := int64(0)
	l.ext.eachFrom(0, func(off int64, e extent) bool {
		if e.inJournal() {
			e = extent{n: e.n, pos: pos, base: b}
			pos += e.n
		}

		n.ext.add(off, e)
		return true
	})

	return n
}

// journalReader reads the bytes of extents in the journal, one after the other.
type journalReader struct {
	src       *Source
	remaining []extent
}

func (r *journalReader) Read(p []byte) (int, error) {
	if len(r.remaining) == 0 {
		return 0, io.EOF
	}
	e := &r.remaining[0]
	n := min(int64(len(p)), e.n)
	if err := r.src.log.ReadAt(p[:n], e.pos, e.payloadPos); err != nil {
		return 0, err
	}
	if *e = e.sub(n, e.n-n); e.n == 0 {
		r.remaining = r.remaining[1:]
	}

	return int(n), nil
}
