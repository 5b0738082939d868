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

// Where data is cut into chunks depends on the data only: FastCDC looks for a
// place of its own liking between minChunk and maxChunk bytes. These numbers and
// the algorithm, fastcdc-v1.0.0 of go-cdc-chunkers, are part of the format: other cuts
// would make other hashes of the same file.
const (
	minChunk = 16 << 10
	avgChunk = 64 << 10
	maxChunk = 256 << 10

	maskBefore = 0x9249249249249000 // what must be zero of the hash before avgChunk
	maskAfter  = 0x8888888888888800 // and after it
)

// cut returns the length of the chunk that data begins with, as far as data
// goes. It is final if data is all that follows, or has maxChunk bytes, or if it
// is less than len(data).
//
// A chunk ends where a hash over its bytes and the one behind its end fulfils a
// condition; what comes after that byte does not matter. The library's own function has
// this loop, too, but takes a reader: it would copy all of data for each chunk.
func cut(data []byte) int {
	data = data[:min(len(data), maxChunk)]
	hash, mask := uint64(0), uint64(maskBefore)
	for i := minChunk; i < len(data); i++ {
		if i == avgChunk {
			mask = maskAfter
		}
		if hash = hash<<1 + fastcdc.G[data[i]]; hash&mask == 0 {
			return i
		}
	}
	return len(data)
}

// firstLook is how much data is read at first to cut a chunk. Few chunks are longer.
const firstLook = maxChunk / 2

// bufferSize is how much of a file is read at a time.
const bufferSize = 1 << 20

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// chunkWriter stores the chunks of one file and lists them in order.
type chunkWriter struct {
	ctx  context.Context
	z    *Sealer
	list listBuilder

	buf      *[bufferSize]byte // nil until needed
	from, to int64             // the part of the file that is in it

	beside  chan struct{} // see Sealer.Beside
	waiting []*waiting    // in order
}

// waiting is a chunk that is being stored, or what follows such a chunk.
type waiting struct {
	item
	stored chan struct{} // closed when the chunk is stored; nil for a hole
	err    error
}

// maxWaiting bounds what waits for one chunk that takes long to be stored.
const maxWaiting = 64

var chunks = sync.Pool{New: func() any { return new([maxChunk]byte) }}

func newChunkWriter(ctx context.Context, z *Sealer) *chunkWriter {
	return &chunkWriter{ctx: ctx, z: z, list: listBuilder{objects: z.Objects}}
}

// close gives the memory back.
func (w *chunkWriter) close() {
	if w.buf != nil {
		buffers.Put(w.buf)
		w.buf = nil
	}
}

// fill returns at least n bytes of the file at p, which never goes back. What is
// missing is read, and up to ahead bytes with it.
func (w *chunkWriter) fill(p, n, ahead int64, read func(b []byte, off int64) error) ([]byte, error) {
	if p+n <= w.to {
		return w.buf[p-w.from : w.to-w.from], nil
	}
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	if w.buf == nil {
		w.buf = buffers.Get().(*[bufferSize]byte)
	}
	have := int64(0)
	if p < w.to {
		have = int64(copy(w.buf[:], w.buf[p-w.from:w.to-w.from]))
	}
	w.from, w.to = p, p+max(n, min(ahead, bufferSize))
	data := w.buf[:w.to-p]
	if err := read(data[have:], p+have); err != nil {
		return nil, err
	}
	return data, nil
}

// store stores a chunk and adds it.
func (w *chunkWriter) store(data []byte) error {
	c := &waiting{item: item{n: int64(len(data))}}
	if w.beside == nil {
		c.hash, c.err = w.z.Objects.Put(cas.KindData, data)
		return w.add(c)
	}
	c.stored = make(chan struct{})
	w.beside <- struct{}{}
	b := chunks.Get().(*[maxChunk]byte)
	n := copy(b[:], data)
	go func() {
		defer func() { <-w.beside }()
		defer chunks.Put(b)
		defer close(c.stored)
		c.err = guard.Do(func() (err error) {
			c.hash, err = w.z.Objects.Put(cas.KindData, b[:n])
			return err
		})
	}()
	return w.add(c)
}

// add adds a chunk or a hole behind those that are waiting.
func (w *chunkWriter) add(c *waiting) error {
	w.waiting = append(w.waiting, c)
	if w.beside == nil {
		return w.await(0)
	}
	return w.await(maxWaiting)
}

// await returns when no more than most are waiting.
func (w *chunkWriter) await(most int) error {
	for len(w.waiting) > most {
		c := w.waiting[0]
		if w.waiting = w.waiting[1:]; c.stored != nil {
			<-c.stored
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

const (
	zeroBlock = 4 << 10
	minHole   = 16 * zeroBlock
)

var zeros [zeroBlock]byte

// untilHole returns how many bytes of data, which begins at p in its file, come before
// the first hole: minHole bytes of zeros or more, at a multiple of zeroBlock. n is the
// length of the hole, 0 if there is none.
func untilHole(data []byte, p int64) (before, n int) {
	for at := int(-p & (zeroBlock - 1)); at < len(data); {
		block := data[at:min(len(data), at+zeroBlock)]
		at += len(block)
		switch {
		case bytes.Equal(block, zeros[:len(block)]):
			n += len(block)
			continue
		case n >= minHole:
			return at - len(block) - n, n
		}
		n = 0
	}
	if n >= minHole {
		return len(data) - n, n
	}
	return len(data), 0
}

// FromReader stores what r returns as the content of a file, and has no more than a few
// chunks of it in memory. Any number of calls may run at a time.
func FromReader(ctx context.Context, z *Sealer, r io.Reader) (*ChunkMap, error) {
	s, err := Begin(ctx, z, r, math.MaxInt64, []Part{{0, math.MaxInt64}})
	if err != nil {
		return nil, err
	}
	return s.Finish()
}

// A Part is where a file with holes has data.
type Part struct{ Off, N int64 }

// A Storing is a file that was read. Of its chunks some may still be on their way to the store.
type Storing struct {
	Size int64 // of the file
	w    *chunkWriter
}

// Finish returns the content when all is stored.
func (s *Storing) Finish() (*ChunkMap, error) {
	if err := s.w.await(0); err != nil {
		return nil, err
	}
	return s.w.list.finish()
}

// Begin is FromReader for a file of some size of which r returns only the parts. They are in
// order. If r ends early, the file is shorter. Begin returns when all is read.
func Begin(ctx context.Context, z *Sealer, r io.Reader, size int64, parts []Part) (*Storing, error) {
	w := newChunkWriter(ctx, z)
	w.beside = z.Beside
	defer w.close()
	at, whole := int64(0), true
	hole := func(to int64) (err error) {
		if to > at && whole {
			err = w.add(&waiting{item: item{n: to - at, holes: to - at}})
			at = to
		}
		return err
	}
	for _, p := range parts {
		if err := hole(p.Off); err != nil {
			return nil, err
		}
		end, err := w.readAll(io.LimitReader(r, p.N), p.Off)
		if err != nil {
			return nil, err
		}
		at = end
		if whole = end == p.Off+p.N; !whole {
			break
		}
	}
	if err := hole(size); err != nil {
		return nil, err
	}
	return &Storing{at, w}, nil
}

// readAll stores what r returns from p on, and returns where it ends.
func (w *chunkWriter) readAll(r io.Reader, p int64) (end int64, err error) {
	w.from, w.to, end = p, p, p
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
	n := int64(maxChunk)
	for {
		data, err := w.fill(p, n, bufferSize, read)
		if err != nil {
			return 0, fmt.Errorf("read at %d: %w", p, err)
		}
		if ended {
			if data = data[:end-p]; len(data) == 0 {
				return end, nil
			}
		}
		data = data[:min(len(data), maxChunk)]
		before, hole := len(data), 0
		if w.z.FindHoles {
			before, hole = untilHole(data, p)
		}
		if before == 0 && hole > 0 {
			p += int64(hole)
			if err := w.add(&waiting{item: item{n: int64(hole), holes: int64(hole)}}); err != nil {
				return 0, err
			}
		} else {
			chunk := data[:cut(data[:before])]
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
