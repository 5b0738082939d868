package tree

import (
	"fmt"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Source loads the parts of states that are not in memory, and caches them. It is safe for concurrent
// use.
type Source struct {
	Files       *content.Source // the bytes of files
	objects     content.ObjectStore
	pages       *content.Cache[*body]  // decoded pages of tables and directories
	inodes      *content.Cache[*Inode] // decoded long records
	copiedBytes *atomic.Int64          // see CountingCopies
}

// longRecordBytes is the size of the cache of long records. It is enough for a record with the maximum number of
// names.
const longRecordBytes = 32 << 20

// NewSource returns a source whose caches take about cacheBytes bytes. An eighth of them is for file
// data, which the kernel caches too. The rest is for decoded pages: a listing of a large directory
// with attributes needs all table pages of its inodes again and again.
func NewSource(o content.ObjectStore, l content.Log, cacheBytes int64) *Source {
	return &Source{
		Files:       content.NewSource(o, l, cacheBytes/8),
		objects:     o,
		pages:       content.NewCache[*body](cacheBytes - cacheBytes/8),
		inodes:      content.NewCache[*Inode](longRecordBytes),
		copiedBytes: new(atomic.Int64),
	}
}

// CacheBytes returns the present size of the caches in bytes.
func (s *Source) CacheBytes() int64 {
	return s.pages.Weight() + s.inodes.Weight() + s.Files.CacheBytes()
}

// loadBody returns the decoded page with the hash h. If keep is set, it caches a page that it has read. Callers
// that read every page once pass false, so that the cache keeps the pages of other callers.
func (s *Source) loadBody(h cas.Hash, keep bool) (*body, error) {
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

// WithObjects returns a source that has the same caches, and reads from other objects.
func (s *Source) WithObjects(o content.ObjectStore) *Source {
	c := *s
	c.objects, c.Files = o, s.Files.WithObjects(o)
	return &c
}

// WithLog returns a source with the log that wrap returns for the present log, as content.Source.WithLog does.
func (s *Source) WithLog(wrap func(content.Log) content.Log) *Source {
	c := *s
	c.Files = s.Files.WithLog(wrap)
	return &c
}

// CountingCopies returns a source that adds to n the approximate number of bytes of pages and inodes that are
// copied in order to change them.
func (s *Source) CountingCopies(n *atomic.Int64) *Source {
	c := *s
	c.copiedBytes = n
	return &c
}
