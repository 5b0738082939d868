package content

import (
	"fmt"
	"hash/crc32"
	"slices"

	"golang.org/x/sync/singleflight"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// ObjectStore stores the sealed objects. *cas.Store is one.
type ObjectStore interface {
	// Put stores b and returns its hash.
	Put(kind cas.Kind, b []byte) (cas.Hash, error)
	// Get appends the bytes of h to dst[:0] and returns them.
	Get(h cas.Hash, dst []byte) ([]byte, error)
}

// Log stores the bytes of unsealed files. *journal.Journal is one.
type Log interface {
	// ReadAt fills p with the bytes at journal position pos, in the record whose
	// payload begins at position payload.
	ReadAt(p []byte, pos, payload int64) error
}

// Source reads the bytes of files: sealed chunks from the object store, unsealed bytes
// from the journal. It caches chunks and lists, and is safe for concurrent use.
type Source struct {
	objects ObjectStore
	log     Log
	cache   *Cache[cachedObject]
	checked *Cache[checked]    // see part
	loading singleflight.Group // chunks, by hash
}

// entryBytes is the approximate memory of an entry of the cache without the object.
const entryBytes = 200

// cachedObject is an object in the cache: a chunk, a list of chunks that was
// checked, or another object (see Object).
type cachedObject struct {
	raw   []byte
	level uint8 // the level of a list, 0 for other objects
	sum   item  // the sum of the items of a list
}

// NewSource returns a source with a cache of about cacheBytes bytes.
func NewSource(o ObjectStore, l Log, cacheBytes int64) *Source {
	return &Source{objects: o, log: l, cache: NewCache[cachedObject](cacheBytes), checked: NewCache[checked](cacheBytes / 2)}
}

// With returns a source with the same cache that reads objects which are not in the cache from o.
func (s *Source) With(o ObjectStore) *Source {
	return &Source{objects: o, log: s.log, cache: s.cache, checked: s.checked}
}

// WithLog returns a source that has the same cache and reads unsealed bytes from the log that over returns. The
// argument of over is the log of s.
func (s *Source) WithLog(over func(Log) Log) *Source {
	return &Source{objects: s.objects, log: over(s.log), cache: s.cache, checked: s.checked}
}

// CacheBytes returns the present size of the cache in bytes.
func (s *Source) CacheBytes() int64 { return s.cache.Weight() + s.checked.Weight() }

// Object returns the bytes of an object other than a chunk and puts it into the cache. The caller must
// not change the bytes.
func (s *Source) Object(h cas.Hash) ([]byte, error) {
	if v, ok := s.cache.Get(h); ok {
		return v.raw, nil
	}

	raw, err := s.objects.Get(h, nil)
	if err != nil {
		return nil, err
	}

	s.keep(h, cachedObject{raw: raw})

	return raw, nil
}

func (s *Source) keep(h cas.Hash, v cachedObject) { s.cache.Put(h, v, entryBytes+int64(cap(v.raw))) }

// list returns the list object of an item. It checks all items of the list, and that their sum equals the item.
// With once, a list that was read is not put into the cache.
func (s *Source) list(it *item, level uint8, once bool) ([]byte, error) {
	v, ok := s.cache.Get(it.hash)
	if !ok || v.level != level {
		raw, err := s.objects.Get(it.hash, nil)
		if err != nil {
			return nil, fmt.Errorf("load chunk list %s: %w", it.hash, err)
		}

		v = cachedObject{raw: raw, level: level}
		if v.sum, err = checkList(raw, level); err != nil {
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

// smallChunk is less than the size of most chunks. A file with lists of smaller chunks consists of small extents,
// which are often equal.
const smallChunk = 4096

// chunk fills p with the bytes of a chunk from its byte at on. It puts the chunk into the cache if keep
// is set, or if p is only a part of it.
func (s *Source) chunk(it *item, p []byte, at int64, keep bool) error {
	if v, ok := s.cache.Get(it.hash); ok && int64(len(v.raw)) == it.n {
		copy(p, v.raw[at:])
		return nil
	}

	if keep || int64(len(p)) < it.n {
		if s.part(it, p, at) {
			return nil
		}

		plain, err := s.loadShared(it)
		if err != nil {
			return err
		}

		copy(p, plain[at:])
		return nil
	}

	plain, err := s.load(it, p[:0:len(p)])
	if err != nil {
		return err
	}
	if &plain[0] != &p[0] { // load used another buffer than p
		copy(p, plain)
	}

	return nil
}

// A partStore is an ObjectStore that can read parts of objects. *cas.Store is one.
type partStore interface {
	PlainPlace(h cas.Hash) (cas.PlainPlace, bool)
	ReadPlain(from cas.PlainPlace, p []byte, at int64) bool
}

// checked is a chunk that was compared with its hash: its place, and the CRC-32C of each block of checkedBlock
// bytes.
type checked struct {
	place cas.PlainPlace
	sums  []uint32
}

const checkedBlock = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// part fills p with the bytes of a chunk from its byte at on, if loadShared has loaded the chunk before. It reads
// only the blocks that p needs, and compares them with the checksums that remember stored at that time. So random
// reads of a large file need not read and hash whole chunks. It returns false if the chunk must be loaded.
func (s *Source) part(it *item, p []byte, at int64) bool {
	parts, ok := s.objects.(partStore)
	c, known := s.checked.Get(it.hash)
	begin := at - at%checkedBlock
	end := (at + int64(len(p)) + checkedBlock - 1) / checkedBlock * checkedBlock
	if !ok || !known || end/checkedBlock > int64(len(c.sums)) {
		return false
	}

	blocks := make([]byte, min(end, it.n)-begin)
	if !parts.ReadPlain(c.place, blocks, begin) || !slices.Equal(checksums(blocks), c.sums[begin/checkedBlock:end/checkedBlock]) {
		return false
	}

	copy(p, blocks[at-begin:])

	return true
}

// remember stores the checksums of a chunk with these bytes, which part needs.
func (s *Source) remember(h cas.Hash, plain []byte) {
	parts, ok := s.objects.(partStore)
	if !ok || len(plain) <= checkedBlock {
		return
	}

	if place, ok := parts.PlainPlace(h); ok {
		sums := checksums(plain)
		s.checked.Put(h, checked{place, sums}, entryBytes+4*int64(cap(sums)))
	}
}

// checksums returns the CRC-32C of each block.
func checksums(b []byte) (sums []uint32) {
	for block := range slices.Chunk(b, checkedBlock) {
		sums = append(sums, crc32.Checksum(block, castagnoli))
	}
	return sums
}

// loadShared returns a whole chunk and puts it into the cache. Goroutines that read parts of one
// chunk at the same time, such as parallel reads of one file, load it once.
func (s *Source) loadShared(it *item) ([]byte, error) {
	plain, err, _ := s.loading.Do(string(it.hash[:]), func() (any, error) {
		if v, ok := s.cache.Get(it.hash); ok && int64(len(v.raw)) == it.n {
			return v.raw, nil
		}

		plain, err := s.load(it, make([]byte, 0, it.n))
		if err != nil {
			return nil, err
		}

		s.keep(it.hash, cachedObject{raw: plain})
		s.remember(it.hash, plain)

		return plain, nil
	})
	if err != nil {
		return nil, err
	}
	return plain.([]byte), nil
}

// load reads a whole chunk, into buf if it is large enough.
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
