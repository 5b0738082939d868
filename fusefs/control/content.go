package control

import (
	"bytes"
	"slices"

	"github.com/amberfs/amberfs/snapshot"
)

// A content is what a file shows. It never changes; the nil content is empty.
type content struct {
	blocks [][]byte
	size   int64
}

func small(b []byte) *content { return &content{blocks: [][]byte{b}, size: int64(len(b))} }

func (c *content) Size() int64 {
	if c == nil {
		return 0
	}
	return c.size
}

// ReadAt reads up to len(p) bytes, less at the end.
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

// equal reports whether two contents have the same blocks, as those have that were
// written with the same bytes.
func (c *content) equal(o *content) bool {
	if c.Size() != o.Size() || c.Size() == 0 {
		return c.Size() == o.Size()
	}
	return slices.EqualFunc(c.blocks, o.blocks, bytes.Equal)
}

const (
	firstBlock = 512
	maxBlock   = 64 << 10
)

// A contentWriter collects a content. Its bytes are reserved in the tenant's part of the
// cache before they are allocated. Either publish or discard ends it.
type contentWriter struct {
	t        *Tree
	tenant   *tenant
	reserved int64
	content
}

func (t *Tree) newContent(ws *snapshot.Workspace) *contentWriter {
	return &contentWriter{t: t, tenant: t.tenant(ws)}
}

func (w *contentWriter) Write(p []byte) (int, error) {
	if need := w.size + int64(len(p)); need > w.reserved {
		// In steps, so that many small writes do not take the lock each.
		more := need - w.reserved
		if need > maxBlock {
			more = max(more, maxBlock)
		}
		if err := w.t.reserve(w.tenant, w.reserved, more); err != nil {
			return 0, err
		}
		w.reserved += more
	}
	n := len(p)
	for len(p) > 0 {
		last := len(w.blocks) - 1
		if last < 0 || len(w.blocks[last]) == cap(w.blocks[last]) {
			w.blocks = append(w.blocks, make([]byte, 0, min(max(w.size, firstBlock), maxBlock)))
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

func (w *contentWriter) discard() {
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	w.releaseLocked()
}

// releaseLocked gives back what is reserved, and returns the content.
func (w *contentWriter) releaseLocked() *content {
	w.t.chargeLocked(w.tenant, -w.reserved)
	w.tenant.reserved -= w.reserved
	w.reserved = 0
	return &w.content
}

func (c *content) all() []byte {
	if c == nil {
		return nil
	}
	return bytes.Join(c.blocks, nil)
}
