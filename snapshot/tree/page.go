package tree

import (
	"fmt"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
)

// page is a node of a table or of a directory.
//
// A page belongs to the epoch that made it. During that epoch, one state has the
// page and changes it in place under the lock of the state's owner. From
// the next epoch on it is frozen: any number of states share it, and a change
// copies it first. A sealer changes only the atomic fields of a frozen page, in
// this order: it sets hash or inline, then it drops the body, mem. So a reader that
// finds mem nil finds hash or inline set, and loads the body from there.
type page struct {
	epoch  uint64
	n      int // directory pages: the number of entries on this page and below
	hash   atomic.Pointer[cas.Hash]
	inline atomic.Pointer[string] // the encoded entries of a small directory, see maxInlineSize
	mem    atomic.Pointer[body]   // nil if the page is not in memory
}

// body is the contents of a page. Exactly one of kids, leaf and ents is set. The body of a frozen
// page does not change.
type body struct {
	kind       byte
	fitsInline bool       // set for a loaded directory leaf of at most maxInlineSize bytes
	kids       []*page    // inner pages: tableFanout or dirFanout pages, nil in unused slots
	leaf       *tableLeaf // table leaves
	ents       entries    // directory leaves
}

// newPage returns a page in memory that epoch may change.
func newPage(epoch uint64, b *body) *page {
	p := &page{epoch: epoch}
	p.mem.Store(b)
	return p
}

// sealedPage returns a sealed page that is not in memory. n is its number of entries, 0 for a page of
// a table.
func sealedPage(h cas.Hash, n int) *page {
	p := &page{n: n}
	p.hash.Store(&h)
	return p
}

// id returns the hash of a sealed page.
func (p *page) id() (cas.Hash, bool) {
	if h := p.hash.Load(); h != nil {
		return *h, true
	}
	return cas.Hash{}, false
}

// seal sets the hash and drops the body.
func (p *page) seal(h cas.Hash) {
	p.hash.Store(&h)
	p.mem.Store(nil)
}

// sealInline sets the inline entries and drops the body.
func (p *page) sealInline(entries string) {
	p.inline.Store(&entries)
	p.mem.Store(nil)
}

// ownedBy reports whether an epoch may change a page in place. Comparing the numbers of epochs is not enough:
// each owner of states counts its own epochs, and owners may share a sealed page.
func (p *page) ownedBy(epoch uint64) bool { return p.epoch == epoch && !p.isSealed() }

// isSealed reports whether a page can be loaded again: it has a hash, or inline entries.
func (p *page) isSealed() bool { return p.hash.Load() != nil || p.inline.Load() != nil }

// load returns the body of a page, and checks that its kind is kind or orKind. keep is as in Source.loadBody.
func (p *page) load(src *Source, keep bool, kind, orKind byte) (*body, error) {
	b := p.mem.Load()
	if b == nil {
		var err error
		if text := p.inline.Load(); text != nil {
			b, err = decodeInline(*text, p.n)
		} else {
			b, err = src.loadBody(*p.hash.Load(), keep)
		}
		if err != nil {
			return nil, err
		}
	}
	if b.kind != kind && b.kind != orKind {
		return nil, fmt.Errorf("%w: page of kind %d where %d belongs", ErrMalformed, b.kind, kind)
	}

	return b, nil
}

// samePage reports whether two pages are known to be equal. If one of them is not sealed, it may return false for
// equal pages.
func samePage(a, b *page) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	if ta, tb := a.inline.Load(), b.inline.Load(); ta != nil && tb != nil {
		return *ta == *tb
	}

	ha, hb := a.hash.Load(), b.hash.Load()
	return ha != nil && hb != nil && *ha == *hb
}

// weight estimates the memory of the body in bytes.
func (b *body) weight() int64 {
	w := int64(128)
	const pageBytes = 8 + 24 + 32 + 16 // pointer, page, hash, rounding
	const entryBytes = 40              // without the name

	for _, k := range b.kids {
		if k != nil {
			w += pageBytes
		}
	}

	if b.leaf != nil {
		w += 600 + int64(len(b.leaf.raw))
	}
	for i := range b.ents {
		w += max(16, int64(len(b.ents[i].Name)))
	}

	return w + entryBytes*int64(cap(b.ents))
}
