package tree

import (
	"fmt"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Source is where states load from whatever is not in memory. It caches what it
// loads, and is safe for concurrent use.
type Source struct {
	Files   *content.Source // the bytes of files
	objects content.ObjectStore
	pages   *content.Cache[*body]  // decoded pages of tables and directories
	inodes  *content.Cache[*Inode] // decoded long records
	copied  *atomic.Int64          // see Counting
}

// longBytes is the size of the cache of long records. One with the maximum of names fits.
const longBytes = 32 << 20

// NewSource returns a source whose caches hold about cacheBytes bytes, an eighth of
// them file data, which the kernel keeps too, and the rest decoded pages: a listing of a large
// directory with attributes needs all of the inodes' pages again and again.
func NewSource(o content.ObjectStore, l content.Log, cacheBytes int64) *Source {
	return &Source{
		Files:   content.NewSource(o, l, cacheBytes/8),
		objects: o,
		pages:   content.NewCache[*body](cacheBytes - cacheBytes/8),
		inodes:  content.NewCache[*Inode](longBytes),
		copied:  new(atomic.Int64),
	}
}

// CacheBytes returns how many bytes the caches hold at present.
func (s *Source) CacheBytes() int64 {
	return s.pages.Weight() + s.inodes.Weight() + s.Files.CacheBytes()
}

// body returns the decoded page h. With keep it is cached. A caller that reads every page once
// passes false, so that the pages that others use stay cached.
func (s *Source) body(h cas.Hash, keep bool) (*body, error) {
	if b, ok := s.pages.Get(h); ok {
		return b, nil
	}
	raw, err := s.objects.Get(h, nil)
	if err != nil {
		return nil, fmt.Errorf("load page %s: %w", h, err)
	}
	b, err := decodeBody(raw)
	if err != nil {
		return nil, fmt.Errorf("load page %s: %w", h, err)
	}
	if keep {
		s.pages.Put(h, b, b.weight())
	}
	return b, nil
}

// With returns a source with the same caches that reads from other objects.
func (s *Source) With(o content.ObjectStore) *Source {
	c := *s
	c.objects, c.Files = o, s.Files.With(o)
	return &c
}

// Counting returns a source that adds to n about how many bytes of pages were copied in order to
// change them.
func (s *Source) Counting(n *atomic.Int64) *Source {
	c := *s
	c.copied = n
	return &c
}
