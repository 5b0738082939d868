package tree

import (
	"fmt"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
)

// page is a node of a table or of a directory.
//
// A page belongs to the epoch that made it. While that is the current one, the
// page has a single owner, who changes it in place under the owner's lock. From
// the next epoch on it is frozen: any number of states share it, and a change
// copies it first. Only two things still happen to a frozen page, both to its
// atomic fields and in this order: a sealer sets the hash or the text, then drops
// the body. So a reader that finds no body finds one of them, and loads by it.
type page struct {
	epoch  uint64
	n      int // directory pages: the number of entries beneath
	hash   atomic.Pointer[cas.Hash]
	inline atomic.Pointer[string] // the encoded entries of a directory so small that its inode's record has them
	mem    atomic.Pointer[body]
}

// body is the contents of a page. Exactly one of kids, leaf and ents is set. The body of a frozen
// page never changes.
type body struct {
	kind       byte
	fitsInline bool       // a loaded directory leaf so small that an inode's record could have it
	kids       []*page    // inner pages: fanout items, nil where nothing is
	leaf       *tableLeaf // table leaves
	ents       entries    // directory leaves
}

// newPage returns a page in memory that epoch may change.
func newPage(epoch uint64, b *body) *page {
	p := &page{epoch: epoch}
	p.mem.Store(b)
	return p
}

// sealedPage returns a page known by its hash only.
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

// seal records the hash and drops the body.
func (p *page) seal(h cas.Hash) {
	p.hash.Store(&h)
	p.mem.Store(nil)
}

// sealInline is seal for a page whose entries are inline.
func (p *page) sealInline(entries string) {
	p.inline.Store(&entries)
	p.mem.Store(nil)
}

// owned reports whether an epoch may change a page in place. A sealed page that is found in
// the cache may come from an epoch of the same number: each owner of a state has its own count.
func (p *page) owned(epoch uint64) bool { return p.epoch == epoch && !p.isSealed() }

// isSealed reports whether a page can be loaded again: it has a hash, or inline entries.
func (p *page) isSealed() bool { return p.hash.Load() != nil || p.inline.Load() != nil }

// load returns the body of a page that must be of one of two kinds.
func (p *page) load(src *Source, keep bool, kind, orKind byte) (*body, error) {
	b := p.mem.Load()
	if b == nil {
		var err error
		if text := p.inline.Load(); text != nil {
			b, err = decodeInline(*text, p.n)
		} else {
			b, err = src.body(*p.hash.Load(), keep)
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

// samePage reports whether two pages are known to be equal. Equal pages need not be known to be.
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

// weight estimates the bytes of memory that the body holds.
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
