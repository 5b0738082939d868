package tree

import (
	"fmt"

	"github.com/amberfs/amberfs/cas"
)

// ObjectStore keeps the sealed objects; *cas.Store is one.
type ObjectStore interface {
	// Put stores b and returns its hash.
	Put(kind cas.Kind, b []byte) (cas.Hash, error)
	// Get appends the bytes of h to dst[:0] and returns them.
	Get(h cas.Hash, dst []byte) ([]byte, error)
}

// Log holds the bytes of unsealed files; *journal.Journal is one.
type Log interface {
	// ReadAt fills p with the bytes at journal position pos.
	ReadAt(p []byte, pos int64) error
}

// Source is where states load from whatever is not in memory: the object store
// for sealed pages and chunks, the journal for unsealed bytes. It caches what it
// loads, and is safe for concurrent use.
type Source struct {
	objects ObjectStore
	log     Log
	pages   *lru[*body]  // decoded pages of tables and directories
	chunks  *lru[[]byte] // plain chunks of files
}

// NewSource returns a source whose caches hold about cacheBytes bytes, half of
// them decoded pages and half of them plain file data.
func NewSource(o ObjectStore, l Log, cacheBytes int64) *Source {
	return &Source{
		objects: o,
		log:     l,
		pages:   newLRU[*body](cacheBytes / 2),
		chunks:  newLRU[[]byte](cacheBytes / 2),
	}
}

// CacheBytes returns how many bytes the caches hold at present.
func (s *Source) CacheBytes() int64 { return s.pages.weight() + s.chunks.weight() }

// body returns the decoded page h. With keep it stays in the cache; a caller
// that looks at every page once passes false, so as not to drive out what
// others use.
func (s *Source) body(h cas.Hash, keep bool) (*body, error) {
	if b, ok := s.pages.get(h); ok {
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
		s.pages.put(h, b, b.weight())
	}
	return b, nil
}
