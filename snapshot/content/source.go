package content

import (
	"fmt"

	"golang.org/x/sync/singleflight"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
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
	// ReadAt fills p with the bytes at journal position pos, which lies in the
	// record whose payload begins at the second position.
	ReadAt(p []byte, pos, payload int64) error
}

// Source is where the bytes of files are read from: the object store for sealed
// chunks, the journal for unsealed bytes. It caches plain chunks and is safe for
// concurrent use.
type Source struct {
	objects ObjectStore
	log     Log
	cache   *Cache[cached]
	loading singleflight.Group // chunks, by hash
}

// entryBytes is about what an entry of the cache takes without the object.
const entryBytes = 200

// cached is an object as it is in the cache: a chunk, a list of chunks that was
// checked, or something else.
type cached struct {
	raw   []byte
	level uint8 // of a list, 0 for what is none
	sum   item  // of a list: what its items add up to
}

// NewSource returns a source whose cache holds about cacheBytes bytes.
func NewSource(o ObjectStore, l Log, cacheBytes int64) *Source {
	return &Source{objects: o, log: l, cache: NewCache[cached](cacheBytes)}
}

// With returns a source with the same cache that reads what is not there from other
// objects.
func (s *Source) With(o ObjectStore) *Source {
	return &Source{objects: o, log: s.log, cache: s.cache}
}

// CacheBytes returns how many bytes the cache holds at present.
func (s *Source) CacheBytes() int64 { return s.cache.Weight() }

// Object returns the bytes of an object other than a chunk, which must not be
// changed. It stays in the cache.
func (s *Source) Object(h cas.Hash) ([]byte, error) {
	if v, ok := s.cache.Get(h); ok {
		return v.raw, nil
	}
	raw, err := s.objects.Get(h, nil)
	if err == nil {
		s.keep(h, cached{raw: raw})
	}
	return raw, err
}

func (s *Source) keep(h cas.Hash, v cached) { s.cache.Put(h, v, entryBytes+int64(cap(v.raw))) }

// list returns the list object that it names, whole and found to fit. With once
// it is not put in the cache.
func (s *Source) list(it *item, level uint8, once bool) ([]byte, error) {
	v, ok := s.cache.Get(it.hash)
	if !ok || v.level != level {
		raw, err := s.objects.Get(it.hash, nil)
		if err == nil {
			v = cached{raw: raw, level: level}
			v.sum, err = checkList(raw, level)
		}
		if err != nil {
			return nil, fmt.Errorf("load chunk list %s: %w", it.hash, err)
		}
		if !once {
			s.keep(it.hash, v)
		}
	}
	if v.sum.n != it.n || v.sum.holes != it.holes || v.sum.unwritten != it.unwritten {
		return nil, fmt.Errorf("load chunk list %s: %w: it is for %d bytes, not for %d", it.hash, wire.ErrMalformed, v.sum.n, it.n)
	}
	return v.raw, nil
}

// smallChunk is less than most chunks have. A file with lists of smaller ones was made of small
// extents, which are often alike.
const smallChunk = 4096

// chunk fills p with the bytes of a chunk from its byte at on. A chunk that is
// read in parts, or is to be kept, is kept in the cache.
func (s *Source) chunk(it *item, p []byte, at int64, keep bool) error {
	if v, ok := s.cache.Get(it.hash); ok && int64(len(v.raw)) == it.n {
		copy(p, v.raw[at:])
		return nil
	}
	if keep || int64(len(p)) < it.n {
		plain, err := s.shared(it)
		if err == nil {
			copy(p, plain[at:])
		}
		return err
	}
	plain, err := s.load(it, p[:0:len(p)])
	if err == nil && &plain[0] != &p[0] {
		copy(p, plain)
	}
	return err
}

// shared returns a chunk that others, too, want a part of: a reader that continues where this
// part ends, for one. It is expanded once for all of them, and stays in the cache.
func (s *Source) shared(it *item) ([]byte, error) {
	plain, err, _ := s.loading.Do(string(it.hash[:]), func() (any, error) {
		if v, ok := s.cache.Get(it.hash); ok && int64(len(v.raw)) == it.n {
			return v.raw, nil
		}
		plain, err := s.load(it, make([]byte, 0, it.n))
		if err == nil {
			s.keep(it.hash, cached{raw: plain})
		}
		return plain, err
	})
	if err != nil {
		return nil, err
	}
	return plain.([]byte), nil
}

// load reads a whole chunk, into buf if that is large enough.
func (s *Source) load(it *item, buf []byte) ([]byte, error) {
	plain, err := s.objects.Get(it.hash, buf)
	if err != nil {
		return nil, fmt.Errorf("load chunk %s: %w", it.hash, err)
	}
	if int64(len(plain)) != it.n {
		return nil, fmt.Errorf("load chunk %s: %w: it has %d bytes, not %d", it.hash, wire.ErrMalformed, len(plain), it.n)
	}
	return plain, nil
}
