package live

import (
	"errors"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// postponeFrom is how many bytes of journal a file has at least that is postponed: of
	// small ones there may be many, and each costs a record.
	postponeFrom = 1 << 20
	// postponeRecord bounds that record in bytes: the lock is held while it is written.
	postponeRecord = 1 << 20
)

// A Young is a file of a view that has been written since the last capture, and of
// which nothing is sealed.
type Young struct {
	Bytes int64 // of it in the journal
	Low   int64 // the lowest position of these
	ino   uint64
	c     *content.Content
}

// Young returns the large files of a view that have been written since the last capture,
// all their bytes from a position of the journal on.
func (tx *Tx) Young(id uint32, from int64) (young []Young) {
	v, ok := tx.f.mu.views[id]
	if !ok {
		return nil
	}
	v.state.EachChanged(tx.f.mu.epoch, func(ino uint64, c *content.Content) {
		if c.Size() < postponeFrom || c.MinPos() < from {
			return
		}
		if bytes, only := c.InLogOnly(); only && bytes >= postponeFrom {
			young = append(young, Young{Bytes: bytes, Low: c.MinPos(), ino: ino, c: c})
		}
	})
	return young
}

// CapturePostponing is Capture for a checkpoint that leaves files out: what it returns
// has them empty, and a record of the journal has the content of each. So recovery from
// here on finds them in the journal, from Young.Low on, and nothing of them needs to be
// sealed. In the present state they are as before.
func (tx *Tx) CapturePostponing(id uint32, young []Young) (st *tree.State, err error) {
	v, ok := tx.f.mu.views[id]
	if !ok {
		return nil, ErrStale
	}
	for i := range young {
		r := record{kind: recContent, view: id, time: now(), ino: young[i].ino, content: young[i].c}
		r.encode(tx.f.mu.enc)
		if tx.f.mu.enc.Len() > postponeRecord || tx.Append(recContent, tx.f.mu.enc.Out()) != nil {
			young = young[:i] // the others are sealed
			break
		}
	}
	fill := func(content func(y Young) *content.Content) error {
		for _, y := range young {
			r := record{ino: y.ino, content: content(y)}
			if err := tx.f.applyContent(v, &r); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(func(Young) *content.Content { return nil }); err != nil {
		return nil, err
	}
	if st, err = tx.Capture(id); err != nil {
		return nil, err
	}
	return st, fill(func(y Young) *content.Content {
		// One that knows of no versions before it: nobody seals those, so a file that is
		// written over for ever would keep them all.
		c := content.New(tx.f.mu.epoch)
		_ = c.CloneRange(nil, 0, y.c, 0, y.c.Size()) // nothing is read for a whole file
		return c
	})
}

// applyContent gives a file another content, and changes nothing else of it.
func (f *Forest) applyContent(v *view, r *record) error {
	n, err := f.own(v, r.ino)
	if errors.Is(err, ErrStale) {
		return nil // an orphan, met in recovery
	}
	if err != nil {
		return err
	}
	v.state.Bytes += r.content.Size() - n.Size()
	n.Content = r.content
	return nil
}
