package content

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/tests/must"
)

// rotten is a log of which some bytes are damaged.
type rotten struct {
	*byteLog
	from, to int64
	err      error
}

func (l *rotten) ReadAt(p []byte, pos, _ int64) error {
	if pos < l.to && l.from < pos+int64(len(p)) {
		return l.err
	}
	return l.byteLog.ReadAt(p, pos, 0)
}

type rot struct{ lost bool }

func (e rot) Error() string { return "rotten" }
func (e rot) Lost() bool    { return e.lost }

// TestSealDamaged: what is damaged before it is sealed is lost alone; a disk that
// fails to read makes a seal fail, and the next one tries again.
func TestSealDamaged(t *testing.T) {
	for _, size := range []int64{3000, 300_000, 3_000_000} {
		for _, at := range []int64{0, size / 3, size - 1} {
			b := newBench()
			data := b.noise(size)
			c := New(1)
			b.write(t, c, 0, data)
			pos := int64(len(b.log.b)) - size + at
			log := &rotten{b.log, pos, pos + 1, rot{false}}
			b.src = NewSource(b.store, log, 8<<20)
			var lost int64
			b.z = &Sealer{Src: b.src, Objects: b.store, OnDamage: func(n int64) { lost += n }}
			if _, err := b.z.Seal(context.Background(), c); !errors.Is(err, log.err) {
				t.Fatalf("the disk cannot be read, and sealing says: %v", err)
			}
			log.err = rot{true}
			base := b.seal(t, c)
			if base.n != size || lost == 0 || lost > minChunkSize {
				t.Fatalf("sealed as %d bytes, %d of them lost; want %d, a part lost", base.n, lost, size)
			}
			log.from, log.to = 0, 0
			for off := int64(0); off < size; off += 1000 {
				p := make([]byte, min(1000, size-off))
				_, err := c.ReadAt(b.src, p, off)
				in := off < min(size, (at/minChunkSize+1)*minChunkSize) && off+int64(len(p)) > at/minChunkSize*minChunkSize
				if in != errors.Is(err, cas.ErrNotFound) || !in && (err != nil || !bytes.Equal(p, data[off:off+int64(len(p))])) {
					t.Fatalf("%d bytes, damaged at %d: reading at %d: %v", size, at, off, err)
				}
			}
		}
	}
}

// rottenStore is a store of which some objects are damaged.
type rottenStore struct {
	*byteStore
	bad map[cas.Hash]bool
}

func (s rottenStore) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if s.bad[h] {
		return nil, &cas.Damage{Hash: h}
	}
	return s.byteStore.Get(h, dst)
}

// TestSealBesideDamage: a file is sealed around a damaged chunk or list of chunks. The
// chunk is taken over by its hash; where it is overwritten in part, or the lists end
// elsewhere, the rest is lost.
func TestSealBesideDamage(t *testing.T) {
	for _, test := range []struct {
		name  string
		write int64 // offset in the damaged chunk
		list  bool
		lost  bool
	}{
		{"in the chunk before", -3, false, false},
		{"in the chunk", 100, false, true},
		{"in the list", 100, true, true},
		{"before the list", -3, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench()
			data := b.noise(20 << 20)
			old := b.file(t, data).SealedMap()
			c := old.cursor(b.src)
			must.OK(t, c.seek(10<<20))
			from, bad := c.off, c.cur.hash
			if test.list {
				c = old.cursor(b.src)
				for c.level > 1 || c.end() <= 10<<20 {
					step := c.next
					if c.end() > 10<<20 {
						step = c.enter
					}
					must.OK(t, step())
				}
				from, bad = c.off, c.cur.hash
			}
			end := c.end()
			store := rottenStore{b.store, map[cas.Hash]bool{bad: true}}
			b.src = NewSource(store, b.log, 8<<20)
			var lost int64
			b.z = &Sealer{Src: b.src, Objects: store, OnDamage: func(n int64) { lost += n }}
			f := FromChunkMap(old).VersionFor(1)
			b.write(t, f, from+test.write, []byte("new"))
			copy(data[from+test.write:], "new")
			m := b.seal(t, f)
			if m.n != int64(len(data)) || (lost > 0) != test.lost || lost > end-from+maxChunkSize {
				t.Fatalf("sealed as %d bytes, %d of them lost", m.n, lost)
			}
			// What can be read is right; what was only damaged is good again when the store is.
			for _, healed := range []bool{false, true} {
				if healed {
					delete(store.bad, bad)
				}
				for off := int64(0); off < m.n; off += 1000 {
					p := make([]byte, min(1000, m.n-off))
					_, err := f.ReadAt(b.src, p, off)
					may := off < end+maxChunkSize && off+int64(len(p)) > from-maxChunkSize && (!healed || lost > 0)
					if err == nil && !bytes.Equal(p, data[off:off+int64(len(p))]) || err != nil && !may {
						t.Fatalf("reading at %d, healed %t: %v", off, healed, err)
					}
				}
			}
		})
	}
}

// TestSealAway: what cannot be read at the moment is not lost, wherever new chunks end.
func TestSealAway(t *testing.T) {
	b := newBench()
	data := make([]byte, 1<<20) // a chunk ends where it is as long as may be
	for i := range data {
		data[i] = byte(i / 977)
	}
	old := b.file(t, data)
	for seed := range int64(20) {
		c := old.VersionFor(uint64(seed + 1))
		b.write(t, c, seed*50_000, b.noise(30_000))
		for ok := 0; c.SealedMap() == nil; ok++ {
			left := ok % 100
			src := NewSource(awayStore{b.store, func() error {
				if left--; left < 0 {
					return errors.New("away")
				}
				return nil
			}}, b.log, 0)
			z := &Sealer{Src: src, Objects: b.store, OnDamage: func(n int64) { t.Fatalf("%d bytes are lost", n) }}
			_, _ = z.Seal(t.Context(), c)
			if ok > 10_000 {
				t.Fatal("it does not get on")
			}
		}
	}
}
