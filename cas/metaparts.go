package cas

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas/vfs"
)

// maxMetaRecord is how many bytes of entries one metadata record gets. What a
// commit has beyond, goes before it into records of its own, which count only
// together with it.
const maxMetaRecord = 8 << 20

// split cuts a batch into what one record holds each. The last one tells how many
// there are before it.
func (m *metaBatch) split(limit int) []*metaBatch {
	var list []*metaBatch
	rest := m.entries
	for {
		n, size := 0, 0
		for n < len(rest) && (n == 0 || size+rest[n].size() <= limit) {
			size += rest[n].size()
			n++
		}
		part := &metaBatch{durablePack: m.durablePack, durableOff: m.durableOff, entries: rest[:n:n]}
		list = append(list, part)
		if rest = rest[n:]; len(rest) == 0 {
			part.parts = len(list) - 1
			return list
		}
	}
}

func (e *metaItem) size() int { return len(e.key) + len(e.value) + 20 }

// batchParts are those of a batch, as they are read.
type batchParts struct {
	seq  uint64
	list []*metaBatch
}

func (p *batchParts) add(seq uint64, b *metaBatch) {
	if seq != p.seq {
		p.list = nil
	}
	p.seq, p.list = seq, append(p.list, b)
}

var errParts = errors.New("parts of the batch are missing")

// join puts the parts before the entries of the last record.
func (p *batchParts) join(seq uint64, b *metaBatch) error {
	list := p.list
	p.list = nil
	if b.parts == 0 {
		return nil
	}
	if seq != p.seq || len(list) != b.parts {
		return errParts
	}
	var entries []metaItem
	for _, part := range list {
		entries = append(entries, part.entries...)
	}
	b.entries = append(entries, b.entries...)
	return nil
}

// afterParts is the offset behind the whole parts from off on.
func afterParts(f vfs.File, id uint64, off, size int64) (int64, error) {
	stop := errors.New("no part")
	sc := &scan{r: f, id: id, from: off, to: size, bodies: true}
	err := sc.run(context.Background(), func(it *item) error {
		if it.bad != "" || it.kind != kindPart {
			return stop
		}
		off = it.off + it.length
		return nil
	})
	if errors.Is(err, stop) {
		err = nil
	}
	return off, err
}
