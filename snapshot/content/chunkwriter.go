package content

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/guard"
)

// slabSize is how much is read at a time and how much of a file is in memory for
// each chunk that is being stored, at most. Small files do with a small slab.
const (
	slabSize      = 1 << 20
	smallSlabSize = 64 << 10
)

// slab is memory that chunks are stored from. It is used again when all of them
// are.
type slab struct {
	buf  []byte
	refs atomic.Int32
}

var (
	slabs      = sync.Pool{New: func() any { return &slab{buf: make([]byte, slabSize)} }}
	smallSlabs = sync.Pool{New: func() any { return &slab{buf: make([]byte, smallSlabSize)} }}
)

func newSlab(n int64) *slab {
	pool := &slabs
	if n <= smallSlabSize {
		pool = &smallSlabs
	}
	s := pool.Get().(*slab)
	s.refs.Store(1)
	return s
}

func (s *slab) release() {
	switch {
	case s == nil || s.refs.Add(-1) > 0:
	case len(s.buf) == smallSlabSize:
		smallSlabs.Put(s)
	default:
		slabs.Put(s)
	}
}

// chunkWriter stores the chunks of one file, several at a time, and lists them
// in order.
type chunkWriter struct {
	ctx    context.Context
	z      *Sealer
	list   listBuilder
	cutter *cutter // nil until needed

	slab     *slab
	from, to int64 // the part of the file that slab holds

	parallel int  // chunks stored at a time; 1: by the caller
	alone    bool // the caller stores them for now
	queue    []*storing
}

// storing is a chunk on its way, or an item that waits for those before it.
type storing struct {
	item
	err  error
	done chan struct{}
}

func newChunkWriter(ctx context.Context, z *Sealer, size int64) *chunkWriter {
	w := &chunkWriter{ctx: ctx, z: z, parallel: 1}
	w.list.objects = z.Objects
	if size > maxChunk {
		w.parallel = max(1, z.Workers)
	}
	return w
}

// close waits for what is under way, and gives the memory back.
func (w *chunkWriter) close() {
	for _, s := range w.queue {
		<-s.done
	}
	w.queue = nil
	w.slab.release()
	w.slab = nil
	if w.cutter != nil {
		cutters.Put(w.cutter)
		w.cutter = nil
	}
}

// cut returns the length of the chunk that data begins with, as cutter.cut does.
func (w *chunkWriter) cut(data []byte) int {
	if len(data) <= minChunk {
		return len(data)
	}
	if w.cutter == nil {
		w.cutter = cutters.Get().(*cutter)
	}
	return w.cutter.cut(data)
}

// fill returns at least n bytes of the file at p, which never goes back. What is
// missing is read, and up to ahead bytes with it.
func (w *chunkWriter) fill(p, n, ahead int64, read func(b []byte, off int64) error) ([]byte, error) {
	if w.slab != nil && p >= w.from && p+n <= w.to {
		return w.slab.buf[p-w.from : w.to-w.from], nil
	}
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	size := max(n, min(ahead, slabSize))
	fresh := newSlab(size)
	have := int64(0)
	if w.slab != nil && p >= w.from && p < w.to {
		have = int64(copy(fresh.buf[:], w.slab.buf[p-w.from:w.to-w.from]))
	}
	w.slab.release()
	w.slab, w.from, w.to = fresh, p, p+size
	if err := read(fresh.buf[have:w.to-p], p+have); err != nil {
		return nil, err
	}
	return fresh.buf[:w.to-p], nil
}

// store stores a chunk, which lies in the slab, and adds it.
func (w *chunkWriter) store(data []byte) error {
	if w.parallel == 1 || w.alone {
		if err := w.drain(); err != nil {
			return err
		}
		it, err := w.put(data)
		if err != nil {
			return err
		}
		return w.list.add(it)
	}
	if err := w.shorten(2 * w.parallel); err != nil {
		return err
	}
	s := &storing{done: make(chan struct{})}
	w.queue = append(w.queue, s)
	from := w.slab
	from.refs.Add(1)
	go func() {
		defer close(s.done)
		defer from.release()
		s.err = guard.Do(func() (err error) {
			s.item, err = w.put(data)
			return err
		})
	}()
	return nil
}

func (w *chunkWriter) put(data []byte) (item, error) {
	h, err := w.z.Objects.Put(cas.KindData, data)
	if err != nil {
		return item{}, fmt.Errorf("write a chunk: %w", err)
	}
	if w.z.OnProgress != nil {
		w.z.OnProgress(int64(len(data)))
	}
	return item{n: int64(len(data)), hash: h}, nil
}

// add adds a chunk that is stored already, or a hole.
func (w *chunkWriter) add(it item) error {
	if len(w.queue) == 0 {
		return w.list.add(it)
	}
	s := &storing{item: it, done: make(chan struct{})}
	close(s.done)
	w.queue = append(w.queue, s)
	return w.shorten(8 * w.parallel)
}

// drain waits until all chunks are stored and listed.
func (w *chunkWriter) drain() error { return w.shorten(0) }

// shorten waits until at most n are left in the queue.
func (w *chunkWriter) shorten(n int) error {
	for len(w.queue) > n {
		s := w.queue[0]
		<-s.done
		if s.err != nil {
			return s.err
		}
		w.queue = w.queue[1:]
		if err := w.list.add(s.item); err != nil {
			return err
		}
	}
	return nil
}

func (w *chunkWriter) finish() (*ChunkMap, error) {
	if err := w.drain(); err != nil {
		return nil, err
	}
	return w.list.finish()
}

// FromReader stores what r holds as the content of a file, without holding more
// than a few chunks of it in memory. Zeros become data, not holes. Any number of
// calls may go on at a time.
func FromReader(ctx context.Context, z *Sealer, r io.Reader) (*ChunkMap, error) {
	w := newChunkWriter(ctx, z, 0)
	defer w.close()
	var p, end int64
	ended := false
	read := func(b []byte, off int64) error {
		if ended {
			return nil
		}
		n, err := io.ReadFull(r, b)
		end = off + int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			ended, err = true, nil
		}
		return err
	}
	n, ahead := int64(smallSlabSize), int64(smallSlabSize) // most files are small
	for {
		data, err := w.fill(p, n, ahead, read)
		if err != nil {
			return nil, fmt.Errorf("read at %d: %w", p, err)
		}
		if ended {
			if data = data[:end-p]; len(data) == 0 {
				return w.finish()
			}
		} else {
			w.parallel = max(1, z.Workers)
			if n, ahead = maxChunk, slabSize; int64(len(data)) < n {
				continue
			}
		}
		cut := w.cut(data[:min(len(data), firstLook)])
		if cut == firstLook {
			cut = w.cut(data[:min(len(data), maxChunk)])
		}
		p += int64(cut)
		if err := w.store(data[:cut]); err != nil {
			return nil, err
		}
		if ended {
			n = end - p
		}
	}
}
