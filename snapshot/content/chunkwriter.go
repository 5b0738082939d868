package content

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/PlakarKorp/go-cdc-chunkers/chunkers/fastcdc"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/guard"
)

// Where a chunk ends depends on its data only: FastCDC chooses a length between minChunkSize
// and maxChunkSize bytes. These numbers and the algorithm, fastcdc-v1.0.0 of go-cdc-chunkers,
// are part of the format: with other chunk lengths the same file would have another hash.
const (
	minChunkSize = 16 << 10
	avgChunkSize = 64 << 10
	maxChunkSize = 256 << 10

	maskBefore = 0x9249249249249000 // bits of the hash that must be zero, before avgChunkSize
	maskAfter  = 0x8888888888888800 // bits of the hash that must be zero, after avgChunkSize
)

// firstChunkLen returns the length of the first chunk of data. If the result is less than len(data), it is final. If
// it is len(data), it is final only if the file ends there or data has maxChunkSize bytes: with more data the chunk might
// be longer.
//
// A chunk ends where a hash over its bytes and the next byte fulfils a condition. Bytes after the next byte have
// no influence. The library's own function takes a reader, and would copy all of data for each chunk.
func firstChunkLen(data []byte) int {
	data = data[:min(len(data), maxChunkSize)]
	if len(data) <= minChunkSize {
		return len(data)
	}

	average := min(len(data), avgChunkSize)
	n, hash := findChunkEnd(data[minChunkSize:average], 0, maskBefore)
	if end := minChunkSize + n; end < average {
		return end
	}

	n, _ = findChunkEnd(data[average:], hash, maskAfter)
	return average + n
}

// findChunkEnd returns the index of the first byte of data at which all bits of mask are zero in the hash. If there
// is no such byte, it returns len(data) and the hash after data. hash is the hash of the bytes before data.
func findChunkEnd(data []byte, hash, mask uint64) (n int, hashAfter uint64) {
	for ; n < len(data)-1; n += 2 { // two bytes at a time, so that the hash waits for one addition instead of two
		a, b := fastcdc.G[data[n]], fastcdc.G[data[n+1]]
		if (hash<<1+a)&mask == 0 {
			return n, 0
		}
		if hash = hash<<2 + (a<<1 + b); hash&mask == 0 {
			return n + 1, 0
		}
	}

	if n < len(data) {
		if hash = hash<<1 + fastcdc.G[data[n]]; hash&mask != 0 {
			n++
		}
	}

	return n, hash
}

// firstSearchLen is how many bytes are read at first to find the end of a chunk. Few chunks are longer.
const firstSearchLen = maxChunkSize / 2

// bufferSize is how many bytes of a file are read at a time.
const bufferSize = 1 << 20

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// chunkWriter stores the chunks of one file and lists them in order.
type chunkWriter struct {
	ctx  context.Context
	z    *Sealer
	list listBuilder

	buf              *[bufferSize]byte // nil until it is needed
	bufStart, bufEnd int64             // buf has the part [bufStart, bufEnd) of the file

	storeSlots  chan struct{}  // see Sealer.StoreSlots
	pending     []*pendingItem // in order
	batch       []*pendingItem // the items of pending whose chunks are in buf, and which no goroutine is storing yet
	batchStored chan struct{}  // closed when the items of batch are stored
}

// pendingItem is a chunk that a goroutine is storing, or a chunk or hole that waits for such a chunk: items are
// listed in order.
type pendingItem struct {
	item
	data []byte        // data of the chunk, until it is stored
	done chan struct{} // closed when the chunk is stored; nil for a hole
	err  error
}

// maxPending limits the number of items that wait while one chunk is stored. It is more than the number of items
// in a batch: in a buffer, each chunk has at least minChunkSize bytes, except chunks before holes, and each hole
// has at least minHoleSize bytes.
const maxPending = 256

func newChunkWriter(ctx context.Context, z *Sealer) *chunkWriter {
	return &chunkWriter{ctx: ctx, z: z, list: listBuilder{objects: z.Objects}}
}

// close returns the buffer to the pool.
func (w *chunkWriter) close() {
	if w.buf != nil {
		buffers.Put(w.buf)
		w.buf = nil
	}
}

// fill returns at least n bytes of the file, from the offset p on. If some of them are not in the buffer, fill
// calls read for these, and for further bytes up to p+ahead. p must not be lower than in earlier calls.
func (w *chunkWriter) fill(p, n, ahead int64, read func(b []byte, off int64) error) ([]byte, error) {
	if p+n <= w.bufEnd {
		return w.buf[p-w.bufStart : w.bufEnd-w.bufStart], nil
	}
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	if w.buf == nil {
		w.buf = buffers.Get().(*[bufferSize]byte)
	}

	next := w.buf
	if len(w.batch) > 0 {
		next = buffers.Get().(*[bufferSize]byte)
	}

	// Keep the bytes from p on that were read before.
	have := int64(0)
	if p < w.bufEnd {
		have = int64(copy(next[:], w.buf[p-w.bufStart:w.bufEnd-w.bufStart]))
	}

	w.storeBatch()
	w.buf = next

	w.bufStart, w.bufEnd = p, p+max(n, min(ahead, bufferSize))
	data := w.buf[:w.bufEnd-p]
	if err := read(data[have:], p+have); err != nil {
		return nil, err
	}

	return data, nil
}

// store stores a chunk, or adds it to the batch if w.storeSlots is set, and lists it. data is in the buffer.
func (w *chunkWriter) store(data []byte) error {
	c := &pendingItem{item: item{n: int64(len(data))}}
	if w.storeSlots == nil {
		c.hash, c.err = w.z.Objects.Put(cas.KindData, data)
		return w.add(c)
	}

	if len(w.batch) == 0 {
		w.batchStored = make(chan struct{})
	}
	c.data, c.done = data, w.batchStored
	w.batch = append(w.batch, c)

	return w.add(c)
}

// storeBatch stores the chunks of the batch in a goroutine, which takes over the buffer.
func (w *chunkWriter) storeBatch() {
	if len(w.batch) == 0 {
		return
	}

	batch, buf, stored := w.batch, w.buf, w.batchStored
	w.batch, w.buf = nil, nil
	w.storeSlots <- struct{}{}
	go func() {
		defer func() { <-w.storeSlots }()
		defer buffers.Put(buf)
		defer close(stored)

		for _, c := range batch {
			c.err = guard.Do(func() (err error) {
				c.hash, err = w.z.Objects.Put(cas.KindData, c.data)
				return err
			})
			c.data = nil
		}
	}()
}

// add adds a chunk or a hole after the pending items.
func (w *chunkWriter) add(c *pendingItem) error {
	w.pending = append(w.pending, c)
	if w.storeSlots == nil {
		return w.awaitPending(0)
	}
	return w.awaitPending(maxPending)
}

// awaitPending waits until at most limit items are pending. It adds each item that is no longer pending to the
// list.
func (w *chunkWriter) awaitPending(limit int) error {
	for len(w.pending) > limit {
		c := w.pending[0]
		if w.pending = w.pending[1:]; c.done != nil {
			<-c.done
		}

		if c.err != nil {
			w.list.failed = true
			return fmt.Errorf("write a chunk: %w", c.err)
		}

		if err := w.list.add(c.item); err != nil {
			return err
		}
	}
	return nil
}

// FromReader makes a hole of a run of zeros that begins at a multiple of zeroBlockSize and has at least
// minHoleSize bytes.
const (
	zeroBlockSize = 4 << 10
	minHoleSize   = 16 * zeroBlockSize
)

var zeros [zeroBlockSize]byte

// findHole returns the number of bytes of data before the first hole, and the length of the hole, which is 0 if
// there is none. data begins at the offset p of its file.
func findHole(data []byte, p int64) (before, n int) {
	for at := int(-p & (zeroBlockSize - 1)); at < len(data); {
		block := data[at:min(len(data), at+zeroBlockSize)]
		at += len(block)
		switch {
		case bytes.Equal(block, zeros[:len(block)]):
			n += len(block)
			continue
		case n >= minHoleSize:
			return at - len(block) - n, n
		}

		n = 0
	}
	if n >= minHoleSize {
		return len(data) - n, n
	}
	return len(data), 0
}

// FromReader stores the bytes of r as the content of a file. It has only a few chunks in memory at a
// time. Any number of calls may run at the same time.
func FromReader(ctx context.Context, z *Sealer, r io.Reader) (*ChunkMap, error) {
	s, err := BeginFile(ctx, z, r, math.MaxInt64, []DataRange{{0, math.MaxInt64}})
	if err != nil {
		return nil, err
	}
	return s.Finish()
}

// A DataRange is a range of N bytes of a file, from the offset Off on, that is data and no hole.
type DataRange struct{ Off, N int64 }

// A PendingFile is a file that was read completely. Some of its chunks may not be stored yet.
type PendingFile struct {
	Size int64 // size of the file
	w    *chunkWriter
}

// Finish waits until all chunks are stored, and returns the content.
func (s *PendingFile) Finish() (*ChunkMap, error) {
	if err := s.w.awaitPending(0); err != nil {
		return nil, err
	}
	return s.w.list.finish()
}

// BeginFile reads a file, as FromReader does. size is the size of the file. r returns the bytes of parts only, in
// order; the other bytes of the file are in holes. If r ends early, the file ends there. BeginFile returns when r has
// been read completely. It does not wait until all chunks are stored.
func BeginFile(ctx context.Context, z *Sealer, r io.Reader, size int64, parts []DataRange) (*PendingFile, error) {
	w := newChunkWriter(ctx, z)
	w.storeSlots = z.StoreSlots
	defer w.close()

	pos, complete := int64(0), true // complete is set unless r ended early
	addHole := func(to int64) error {
		if to <= pos || !complete {
			return nil
		}
		n := to - pos
		pos = to
		return w.add(&pendingItem{item: item{n: n, holeBytes: n}})
	}

	for _, p := range parts {
		if err := addHole(p.Off); err != nil {
			return nil, err
		}

		end, err := w.readAll(io.LimitReader(r, p.N), p.Off)
		if err != nil {
			return nil, err
		}

		pos = end
		if complete = end == p.Off+p.N; !complete {
			break
		}
	}

	if err := addHole(size); err != nil {
		return nil, err
	}

	return &PendingFile{pos, w}, nil
}

// readAll stores the bytes of r as the part of the file from p on, and returns the end of the part.
func (w *chunkWriter) readAll(r io.Reader, p int64) (end int64, err error) {
	w.bufStart, w.bufEnd, end = p, p, p
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

	n := int64(maxChunkSize)

	for {
		data, err := w.fill(p, n, bufferSize, read)
		if err != nil {
			return 0, fmt.Errorf("read at %d: %w", p, err)
		}

		if ended { // the bytes of data after end were not read
			if data = data[:end-p]; len(data) == 0 {
				w.storeBatch()
				return end, nil
			}
		}

		data = data[:min(len(data), maxChunkSize)]
		before, hole := len(data), 0
		if w.z.FindHoles {
			before, hole = findHole(data, p)
		}

		if before == 0 && hole > 0 {
			p += int64(hole)
			if err := w.add(&pendingItem{item: item{n: int64(hole), holeBytes: int64(hole)}}); err != nil {
				return 0, err
			}
		} else {
			chunk := data[:firstChunkLen(data[:before])]
			p += int64(len(chunk))
			if err := w.store(chunk); err != nil {
				return 0, err
			}
		}

		if ended {
			n = end - p
		}
	}
}
