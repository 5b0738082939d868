package content

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/tests/must"
)

// byteStore is an object store in memory that counts bytes.
type byteStore struct {
	mu       sync.Mutex
	objects  map[cas.Hash][]byte
	read     int64 // bytes of objects got
	gets     int
	put      int64 // bytes of objects put
	putNew   int64 // of them not there before
	putCount int
}

func newByteStore() *byteStore { return &byteStore{objects: make(map[cas.Hash][]byte)} }

func (m *byteStore) Put(_ cas.Kind, b []byte) (cas.Hash, error) {
	h := cas.Sum(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put += int64(len(b))
	m.putCount++
	if m.objects[h] == nil {
		m.objects[h] = bytes.Clone(b)
		m.putNew += int64(len(b))
	}
	return h, nil
}

func (m *byteStore) Get(h cas.Hash, dst []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.objects[h]
	if !ok {
		return nil, fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
	}
	m.read += int64(len(b))
	m.gets++
	return append(dst[:0], b...), nil
}

// byteLog is a journal in memory. What is dropped reads as garbage, so that who
// reads it shows.
type byteLog struct {
	mu      sync.Mutex
	b       []byte
	dropped int64 // what is below is garbage
	reads   int64 // bytes read
}

// add appends a record header and p, and returns the position of p.
func (l *byteLog) add(p []byte, header int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, make([]byte, header)...)
	l.b = append(l.b, p...)
	return int64(len(l.b) - len(p))
}

func (l *byteLog) dropBefore(pos int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos = min(pos, int64(len(l.b))); pos > l.dropped {
		copy(l.b[l.dropped:pos], bytes.Repeat([]byte{0xee}, int(pos-l.dropped)))
		l.dropped = pos
	}
}

func (l *byteLog) ReadAt(p []byte, pos, _ int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos < 0 || pos+int64(len(p)) > int64(len(l.b)) {
		return fmt.Errorf("journal position %d is not there", pos)
	}
	l.reads += int64(len(p))
	copy(p, l.b[pos:])
	return nil
}

// bench is what a test of contents needs.
type bench struct {
	store *byteStore
	log   *byteLog
	src   *Source
	z     *Sealer
	rnd   *rand.Rand
}

func newBench() *bench {
	b := &bench{store: newByteStore(), log: &byteLog{}, rnd: rand.New(rand.NewPCG(1, 2))}
	b.src = NewSource(b.store, b.log, 8<<20)
	b.z = &Sealer{Src: b.src, Objects: b.store}
	return b
}

// noise returns n bytes that cannot be compressed or guessed.
func (b *bench) noise(n int64) []byte {
	p := make([]byte, n)
	fillNoise(b.rnd, p)
	return p
}

func fillNoise(r *rand.Rand, p []byte) {
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, r.Uint64())
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], r.Uint64())
	copy(p, last[:])
}

func (b *bench) write(t testing.TB, c *Content, off int64, p []byte) {
	t.Helper()
	must.OK(t, c.Write(b.src, off, int64(len(p)), b.log.add(p, 9), 0))
}

func (b *bench) seal(t testing.TB, c *Content) *ChunkMap {
	t.Helper()
	base, err := b.z.Seal(context.Background(), c)
	must.OK(t, err)
	return base
}

// file returns a frozen, sealed content of the given bytes.
func (b *bench) file(t testing.TB, p []byte) *Content {
	t.Helper()
	base, err := FromReader(context.Background(), b.z, bytes.NewReader(p))
	must.OK(t, err)
	return FromChunkMap(base)
}

func (b *bench) wantBytes(t testing.TB, c *Content, want []byte) {
	t.Helper()
	got := make([]byte, len(want)+1)
	n, err := c.ReadAt(b.src, got, 0)
	must.OK(t, err)
	if !bytes.Equal(got[:n], want) {
		i := 0
		for i < min(n, len(want)) && got[i] == want[i] {
			i++
		}
		t.Fatalf("read %d bytes, want %d; first difference at %d", n, len(want), i)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
