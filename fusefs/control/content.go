package control

import (
	"bytes"
	"slices"

	"github.com/amberfs/amberfs/snapshot"
)

// A content is the bytes of a file. It never changes. The nil content is empty.
type content struct {
	blocks [][]byte
	size   int64
}

// newContent returns a content of one block.
func newContent(b []byte) *content { return &content{blocks: [][]byte{b}, size: int64(len(b))} }

func (c *content) Size() int64 {
	if c == nil {
		return 0
	}
	return c.size
}

// ReadAt reads up to len(p) bytes at an offset. At the end of the content it reads fewer.
func (c *content) ReadAt(p []byte, off int64) (n int) {
	if off >= c.Size() {
		return 0
	}

	for _, b := range c.blocks {
		if off >= int64(len(b)) {
			off -= int64(len(b))
			continue
		}

		n += copy(p[n:], b[off:])
		off = 0
		if n == len(p) {
			break
		}
	}

	return n
}

// equal reports whether two contents that a contentWriter wrote have the same bytes. It compares block by
// block: equal bytes are divided into equal blocks.
func (c *content) equal(o *content) bool {
	if c.Size() != o.Size() || c.Size() == 0 {
		return c.Size() == o.Size()
	}
	return slices.EqualFunc(c.blocks, o.blocks, bytes.Equal)
}

const (
	firstBlockSize = 512
	maxBlockSize   = 64 << 10
)

// A contentWriter collects the bytes of a content. They are reserved in the tenant's part of the cache before
// they are allocated. The caller calls releaseLocked or discard at the end.
type contentWriter struct {
	cache         *cache
	tenant        *tenant
	reservedBytes int64
	content
}

// newContentWriter returns a writer of a content for a file of the workspace.
func (c *cache) newContentWriter(ws *snapshot.Workspace) *contentWriter {
	return &contentWriter{cache: c, tenant: c.tenant(ws)}
}

func (w *contentWriter) Write(p []byte) (int, error) {
	if need := w.size + int64(len(p)); need > w.reservedBytes {
		// Reserve more than is needed now, so that not each of many small writes locks cache.mu.
		more := need - w.reservedBytes
		if need > maxBlockSize {
			more = max(more, maxBlockSize)
		}
		if err := w.reserve(more); err != nil {
			return 0, err
		}
	}

	n := len(p)

	for len(p) > 0 {
		last := len(w.blocks) - 1
		if last < 0 || len(w.blocks[last]) == cap(w.blocks[last]) {
			w.blocks = append(w.blocks, make([]byte, 0, min(max(w.size, firstBlockSize), maxBlockSize)))
			last++
		}

		b := w.blocks[last]
		part := p[:min(len(p), cap(b)-len(b))]
		w.blocks[last] = append(b, part...)
		w.size += int64(len(part))
		p = p[len(part):]
	}

	return n, nil
}

// reserve reserves addedBytes, see cache.reserve.
func (w *contentWriter) reserve(addedBytes int64) error {
	if err := w.cache.reserve(w.tenant, w.reservedBytes, addedBytes); err != nil {
		return err
	}
	w.reservedBytes += addedBytes
	return nil
}

// discard releases the reserved bytes. It does nothing after releaseLocked.
func (w *contentWriter) discard() {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()

	w.releaseLocked()
}

// releaseLocked releases the reserved bytes, and returns the content. The caller adds it to a node, which is
// charged for it, before it unlocks cache.mu.
func (w *contentWriter) releaseLocked() *content {
	w.cache.chargeLocked(w.tenant, -w.reservedBytes)
	w.tenant.reservedBytes -= w.reservedBytes
	w.reservedBytes = 0
	return &w.content
}

// copyBytes returns a copy of all bytes of the content.
func (c *content) copyBytes() []byte {
	if c == nil {
		return nil
	}
	return bytes.Join(c.blocks, nil)
}
