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
	objects       ObjectStore
	log           Log
	cache         *Cache[cachedObject]
	checkedChunks *Cache[checkedChunk] // see readPart
	loading       singleflight.Group   // chunks, by hash
}

// entryBytes is the approximate memory in bytes of an entry of the cache, without the object.
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
	return &Source{objects: o, log: l, cache: NewCache[cachedObject](cacheBytes), checkedChunks: NewCache[checkedChunk](cacheBytes / 2)}
}

// WithObjects returns a source with the same cache. It reads objects that are not in the cache from o.
func (s *Source) WithObjects(o ObjectStore) *Source {
	return &Source{objects: o, log: s.log, cache: s.cache, checkedChunks: s.checkedChunks}
}

// WithLog returns a source with the same cache. It reads unsealed bytes from the log that wrap returns; the
// argument of wrap is the log of s.
func (s *Source) WithLog(wrap func(Log) Log) *Source {
	return &Source{objects: s.objects, log: wrap(s.log), cache: s.cache, checkedChunks: s.checkedChunks}
}

// CacheBytes returns the present size of the cache in bytes.
func (s *Source) CacheBytes() int64 { return s.cache.Weight() + s.checkedChunks.Weight() }

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

	s.cacheObject(h, cachedObject{raw: raw})

	return raw, nil
}

func (s *Source) cacheObject(h cas.Hash, v cachedObject) {
	s.cache.Put(h, v, entryBytes+int64(cap(v.raw)))
}

// loadList returns the list object of an item. It checks all items of the list, and that their sum equals the item.
// With noCache, a list that was read is not put into the cache.
func (s *Source) loadList(it *item, level uint8, noCache bool) ([]byte, error) {
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
		if !noCache {
			s.cacheObject(it.hash, v)
		}
	}
	if v.sum.n != it.n || v.sum.holeBytes != it.holeBytes || v.sum.unwrittenBytes != it.unwrittenBytes {
		return nil, fmt.Errorf("load chunk list %s: %w: it is for %d bytes, not for %d", it.hash, wire.ErrMalformed, v.sum.n, it.n)
	}

	return v.raw, nil
}

// smallChunkLen is less than the size of most chunks. Smaller chunks of a file with lists come from small
// extents, which are often equal. So they are always put into the cache.
const smallChunkLen = 4096

// readChunk fills p with bytes of a chunk, beginning at the offset off in the chunk. It puts the chunk into the
// cache if cacheWhole is set, or if p is only a part of the chunk.
func (s *Source) readChunk(it *item, p []byte, off int64, cacheWhole bool) error {
	if v, ok := s.cache.Get(it.hash); ok && int64(len(v.raw)) == it.n {
		copy(p, v.raw[off:])
		return nil
	}

	if cacheWhole || int64(len(p)) < it.n {
		if s.readPart(it, p, off) {
			return nil
		}

		plain, err := s.loadShared(it)
		if err != nil {
			return err
		}

		copy(p, plain[off:])
		return nil
	}

	plain, err := s.loadChunk(it, p[:0:len(p)])
	if err != nil {
		return err
	}
	if &plain[0] != &p[0] { // loadChunk used another buffer than p
		copy(p, plain)
	}

	return nil
}

// A partStore is an ObjectStore that can read parts of objects. *cas.Store is one.
type partStore interface {
	PlainPlace(h cas.Hash) (cas.PlainPlace, bool)
	ReadPlain(from cas.PlainPlace, p []byte, at int64) bool
}

// checkedChunk is a chunk that was compared with its hash: its place, and the CRC-32C of each block of checkedBlockSize
// bytes.
type checkedChunk struct {
	place cas.PlainPlace
	sums  []uint32
}

const checkedBlockSize = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readPart fills p with bytes of a chunk that loadShared has loaded before, beginning at the offset off in the
// chunk. It reads only the blocks that p needs, and compares them with the checksums that rememberChecksums stored
// at that time. So random reads of a large file need not read and hash whole chunks. It returns false if the chunk
// must be loaded.
func (s *Source) readPart(it *item, p []byte, off int64) bool {
	parts, ok := s.objects.(partStore)
	c, known := s.checkedChunks.Get(it.hash)
	begin := off - off%checkedBlockSize
	end := (off + int64(len(p)) + checkedBlockSize - 1) / checkedBlockSize * checkedBlockSize
	if !ok || !known || end/checkedBlockSize > int64(len(c.sums)) {
		return false
	}

	blocks := make([]byte, min(end, it.n)-begin)
	if !parts.ReadPlain(c.place, blocks, begin) || !slices.Equal(checksums(blocks), c.sums[begin/checkedBlockSize:end/checkedBlockSize]) {
		return false
	}

	copy(p, blocks[off-begin:])

	return true
}

// rememberChecksums stores the checksums of a chunk with these bytes, for readPart.
func (s *Source) rememberChecksums(h cas.Hash, plain []byte) {
	parts, ok := s.objects.(partStore)
	if !ok || len(plain) <= checkedBlockSize {
		return
	}

	if place, ok := parts.PlainPlace(h); ok {
		sums := checksums(plain)
		s.checkedChunks.Put(h, checkedChunk{place, sums}, entryBytes+4*int64(cap(sums)))
	}
}

// checksums returns the CRC-32C of each block.
func checksums(b []byte) (sums []uint32) {
	for block := range slices.Chunk(b, checkedBlockSize) {
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

		plain, err := s.loadChunk(it, make([]byte, 0, it.n))
		if err != nil {
			return nil, err
		}

		s.cacheObject(it.hash, cachedObject{raw: plain})
		s.rememberChecksums(it.hash, plain)

		return plain, nil
	})
	if err != nil {
		return nil, err
	}
	return plain.([]byte), nil
}

// loadChunk reads a whole chunk, into buf if it is large enough.
func (s *Source) loadChunk(it *item, buf []byte) ([]byte, error) {
	plain, err := s.objects.Get(it.hash, buf)
	if err != nil {
		return nil, fmt.Errorf("load chunk %s: %w", it.hash, err)
	}
	if int64(len(plain)) != it.n {
		return nil, fmt.Errorf("load chunk %s: %w: it has %d bytes, not %d", it.hash, wire.ErrMalformed, len(plain), it.n)
	}

	return plain, nil
}
