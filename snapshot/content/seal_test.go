package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/tests/must"
)

// TestChunkBoundaries pins where data is cut: other cuts would make all that is
// stored new.
func TestChunkBoundaries(t *testing.T) {
	b := newBench()
	data := b.noise(1 << 20)
	copy(data[700<<10:], make([]byte, 300<<10)) // no place to cut but the maximum
	base := b.file(t, data).SealedMap()
	var got []int64
	for c := base.cursor(b.src); !c.atEnd(); {
		if c.level > 0 {
			must.OK(t, c.enter())
			continue
		}
		got = append(got, c.cur.n)
		must.OK(t, c.next())
	}
	want := []int64{94533, 68052, 91086, 71380, 80694, 69698, 72697, 97244, 69124, 262144, 71924}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("chunks of %d bytes, want %d", got, want)
	}
	if got, want := base.hash.String(), "0e159d2807b0307fd01c8efca55cf368bb9ce4346de8673380019d5c2a258e5e"; got != want {
		t.Errorf("list %s, want %s", got, want)
	}
}

// TestCut: chunks end where the library ends them, also the last one of a file of any length.
func TestCut(t *testing.T) {
	b := newBench()
	all := append(b.noise(5<<20), make([]byte, 1<<20)...)
	o := &chunkers.ChunkerOpts{MinSize: minChunkSize, NormalSize: avgChunkSize, MaxSize: maxChunkSize}
	for _, size := range []int{1, minChunkSize, minChunkSize + 1, avgChunkSize - 1, avgChunkSize, avgChunkSize + 1, 1<<20 - 1, 1 << 20, 5<<20 - 1, 6 << 20} {
		data := all[:size]
		c, err := chunkers.NewChunker("fastcdc-v1.0.0", bytes.NewReader(data), o)
		must.OK(t, err)
		for len(data) > 0 {
			want, err := c.Next()
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
			n := firstChunkLen(data)
			if n != len(want) {
				t.Fatalf("%d bytes: a chunk of %d bytes, want %d", size, n, len(want))
			}
			if n < len(data) && firstChunkLen(data[:n+1]) != n {
				t.Fatalf("a chunk of %d bytes is %d bytes if one byte follows", n, firstChunkLen(data[:n+1]))
			}
			data = data[n:]
		}
	}
}

// TestSealSizes: files of all sizes around the limits come back, and are cut the
// same way from the journal and from a reader.
func TestSealSizes(t *testing.T) {
	b := newBench()
	all := b.noise(3 * bufferSize)
	for _, n := range []int{0, 1, 100, minChunkSize - 1, minChunkSize, minChunkSize + 1, avgChunkSize, firstSearchLen, firstSearchLen + 1,
		maxChunkSize - 1, maxChunkSize, maxChunkSize + 1, bufferSize - 1, bufferSize, bufferSize + 1, 3 * bufferSize} {
		data := all[:n]
		c := New(1)
		for off := 0; off < n; off += 300_000 {
			b.write(t, c, int64(off), data[off:min(n, off+300_000)])
		}
		base := b.seal(t, c)
		b.wantBytes(t, c, data)
		if n <= minChunkSize && n > 0 && len(base.chunks) != 1 {
			t.Errorf("%d bytes make %d chunks", n, len(base.chunks))
		}
		for name, r := range map[string]io.Reader{
			"reader": bytes.NewReader(data), "halves": iotest.HalfReader(bytes.NewReader(data)),
			"error with data": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			read, err := FromReader(context.Background(), b.z, r)
			must.OK(t, err)
			if !read.equal(base) {
				t.Errorf("%d bytes: %s makes other chunks than the journal", n, name)
			}
		}
	}
}

// TestSealOneByte: of a big sealed file in which one byte changes, little is read
// and little stored.
func TestSealOneByte(t *testing.T) {
	b := newBench()
	b.src = NewSource(b.store, b.log, 0) // no cache: all reading shows
	b.z.Src = b.src
	data := b.noise(64 << 20)
	c := b.file(t, data)
	for i, off := range []int64{0, 1, 20 << 20, 33_333_333, 64<<20 - 1, 64 << 20} {
		c = c.VersionFor(uint64(i + 1))
		b.write(t, c, off, []byte{^data[min(off, 64<<20-1)]})
		if off == 64<<20 {
			data = append(data, 0)
		}
		data[off] = ^data[min(off, 64<<20-1)]
		read, put, logs := b.store.read, b.store.put, b.log.reads
		b.seal(t, c)
		if n := b.store.read - read; n > 4*maxChunkSize {
			t.Errorf("byte %d: read %d bytes of the store", off, n)
		}
		if n := b.store.put - put; n > 2*maxChunkSize {
			t.Errorf("byte %d: stored %d bytes", off, n)
		}
		if n := b.log.reads - logs; n > maxChunkSize {
			t.Errorf("byte %d: read %d bytes of the journal", off, n)
		}
	}
	fresh := b.file(t, data)
	if c.SealedMap().equal(fresh.SealedMap()) {
		return
	}
	t.Errorf("sealed as %+v, want %+v", c.SealedMap(), fresh.SealedMap())
}

// TestSealNext: a version is sealed from where it differs from the one before,
// also if that was sealed only just now.
func TestSealNext(t *testing.T) {
	b := newBench()
	data := b.noise(8 << 20)
	old := New(1)
	b.write(t, old, 0, data)
	c := old.VersionFor(2)
	b.write(t, c, 3<<20, []byte("change"))
	copy(data[3<<20:], "change")
	b.seal(t, old)
	reads := b.log.reads
	b.seal(t, c)
	if n := b.log.reads - reads; n > maxChunkSize {
		t.Errorf("read %d bytes of the journal", n)
	}
	b.wantBytes(t, c, data)
}

// TestSealInsertion: chunks move with what they hold. A file rewritten with a
// few bytes more at its front is stored with few new bytes.
func TestSealInsertion(t *testing.T) {
	b := newBench()
	data := b.noise(16 << 20)
	b.file(t, data)
	before := b.store.putNew
	b.file(t, append([]byte("something new in front"), data...))
	if n := b.store.putNew - before; n > 4*maxChunkSize {
		t.Errorf("stored %d bytes for 22 new ones", n)
	}
}

// TestSealHuge: one change in a file whose chunks take lists of lists costs a few
// lists, however big the file is.
func TestSealHuge(t *testing.T) {
	b := newBench()
	// 50,000 chunks of 9 bytes with holes in between.
	const chunks, step = 50_000, 1 << 21
	l := listBuilder{objects: b.store}
	for range chunks {
		p := b.noise(1)
		h, err := b.store.Put(cas.KindData, append(p, b.noise(8)...))
		must.OK(t, err)
		must.OK(t, errors.Join(l.add(item{n: 9, hash: h}), l.add(item{n: step - 9, holeBytes: step - 9})))
	}
	base, err := l.finish()
	must.OK(t, err)
	if base.n != chunks*step || base.n-base.holeBytes != chunks*9 || base.depth < 3 {
		t.Fatalf("base %+v", base)
	}
	// Other places to end lists would make all lists new.
	if got, want := base.hash.String(), "a104d3591cad846448da69de13b111c65437d19e920562628fb18815c15cb9d9"; got != want {
		t.Errorf("topmost list %s, want %s", got, want)
	}
	c := FromChunkMap(base)
	for i, off := range []int64{0, chunks / 2 * step, (chunks - 1) * step, 12345*step + 9, 777*step + 100} {
		b.src = NewSource(b.store, b.log, 0)
		b.z.Src = b.src
		c = c.VersionFor(uint64(i + 1))
		read, put := b.store.read, b.store.put
		b.write(t, c, off, []byte("new"))
		b.seal(t, c)
		if n := b.store.read - read; n > 200<<10 {
			t.Errorf("change at %d: read %d bytes", off, n)
		}
		if n := b.store.put - put; n > 100<<10 {
			t.Errorf("change at %d: stored %d bytes", off, n)
		}
		p := make([]byte, 4)
		if _, err := c.ReadAt(b.src, p, off); err != nil || string(p[:3]) != "new" {
			t.Errorf("change at %d reads %q, %v", off, p, err)
		}
	}
	read := b.store.read
	same, err := c.Equal(b.src, FromChunkMap(base))
	if err != nil || same {
		t.Errorf("Equal = %v, %v", same, err)
	}
	if n := b.store.read - read; n > 200<<10 {
		t.Errorf("Equal read %d bytes", n)
	}
	read = b.store.read
	must.OK(t, c.VersionFor(99).Truncate(b.src, chunks/3*step))
	if n := b.store.read - read; n > 100<<10 {
		t.Errorf("Truncate read %d bytes", n)
	}
}

// TestSealHoleBeforeList: a hole that grows up to where a list begins with a hole
// becomes one with it, though that list is stored already.
func TestSealHoleBeforeList(t *testing.T) {
	b := newBench()
	const runs, step = 3000, 1 << 16
	var items []item
	for range runs {
		p := b.noise(9)
		h, err := b.store.Put(cas.KindData, p)
		must.OK(t, err)
		items = append(items, item{n: 9, hash: h}, item{n: step - 9, holeBytes: step - 9})
	}
	build := func(without int64) *ChunkMap {
		l := listBuilder{objects: b.store}
		for i, it := range items {
			if int64(i/2) == without {
				it.holeBytes, it.hash = it.n, cas.Hash{}
			}
			must.OK(t, l.add(it))
		}
		base, err := l.finish()
		must.OK(t, err)
		return base
	}
	base := build(-1)
	tried := 0
	for c := base.cursor(b.src); !c.atEnd(); {
		move := c.enter
		if c.level == 1 {
			// A list that begins right behind a run begins with the hole.
			if run := c.off / step; c.off%step == 9 {
				tried++
				f := FromChunkMap(base).VersionFor(1)
				must.OK(t, f.Punch(b.src, c.off-9, 9))
				if got, want := b.seal(t, f), build(run); !got.equal(want) {
					t.Errorf("hole at %d: sealed as %+v, want %+v", c.off-9, got, want)
				}
			}
			move = c.next
		}
		must.OK(t, move())
	}
	if tried == 0 {
		t.Fatal("no list begins with a hole")
	}
}

// TestSealFails: an error of the store or the journal comes out, leaves the
// content as it was, and the next try succeeds.
func TestSealFails(t *testing.T) {
	b := newBench()
	data := b.noise(4 << 20)
	c := New(1)
	b.write(t, c, 0, data)
	for i := range 30 {
		z := &Sealer{Src: b.src, Objects: &failingStore{byteStore: b.store, left: i}}
		if _, err := z.Seal(context.Background(), c); !errors.Is(err, errFull) {
			t.Fatalf("put %d fails: %v", i, err)
		}
		if c.SealedMap() != nil {
			t.Fatal("sealed all the same")
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.z.Seal(ctx, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	if _, err := FromReader(context.Background(), b.z, iotest.TimeoutReader(bytes.NewReader(data))); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("reader fails: %v", err)
	}
	b.seal(t, c)
	b.wantBytes(t, c, data)
}

var errFull = errors.New("store is full")

type failingStore struct {
	*byteStore
	left int
}

func (f *failingStore) Put(k cas.Kind, p []byte) (cas.Hash, error) {
	f.mu.Lock()
	f.left--
	full := f.left < 0
	f.mu.Unlock()
	if full {
		return cas.Hash{}, errFull
	}
	return f.byteStore.Put(k, p)
}

// TestDamage: a chunk that is gone or has another length is an error, never
// wrong bytes.
func TestDamage(t *testing.T) {
	b := newBench()
	data := b.noise(2 << 20)
	for name, harm := range map[string]func(h cas.Hash){
		"gone":  func(h cas.Hash) { delete(b.store.objects, h) },
		"short": func(h cas.Hash) { b.store.objects[h] = b.store.objects[h][1:] },
		"long":  func(h cas.Hash) { b.store.objects[h] = append(b.store.objects[h], 0) },
	} {
		c := b.file(t, data)
		var hashes []cas.Hash
		must.OK(t, c.EachObject(b.src, func(h cas.Hash, _ bool) (bool, error) {
			hashes = append(hashes, h)
			return true, nil
		}))
		for _, h := range hashes {
			src := NewSource(b.store, b.log, 0)
			saved := b.store.objects[h]
			harm(h)
			_, err := c.ReadAt(src, make([]byte, len(data)), 0)
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			if _, err := c.ReadAt(src, make([]byte, 10), 1<<20); err != nil && h != hashes[0] {
				if !errors.Is(err, cas.ErrNotFound) && !errors.Is(err, wire.ErrMalformed) {
					t.Errorf("%s: %v", name, err)
				}
			}
			b.store.objects[h] = saved
		}
	}
}

// A list of holes and reservations alone is neither a hole nor a reservation.
func TestSealBesideListWithoutData(t *testing.T) {
	b := newBench()
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	c := New(1)
	for i := range int64(150) {
		must(c.Truncate(b.src, i*32+16))
		must(c.Allocate(b.src, i*32+16, 16, false))
	}
	must(c.Truncate(b.src, c.Size()+16))
	_, err := b.z.Seal(t.Context(), c)
	must(err)
	c = c.VersionFor(2)
	reserved := c.Allocated()
	// In the second list: maxListItems items of 16 bytes are in the first.
	must(c.Write(b.src, 16*(maxListItems+2), 8, b.log.add(b.noise(8), 0), 0))
	sealed, err := b.z.Seal(t.Context(), c)
	must(err)
	if sealed.n-sealed.holeBytes != reserved+8 {
		t.Errorf("%d bytes are allocated, want %d", sealed.n-sealed.holeBytes, reserved+8)
	}
}

// TestSealInTurns: a file of very many chunks, few of them different, is sealed a few at a
// time. Between two turns nothing is kept but what it names, and anybody may go on.
func TestSealInTurns(t *testing.T) {
	b := newBench()
	const piece, pieces, turn = 1 << 20, 48, 2 << 20
	data := b.noise(piece)
	c := New(1)
	b.write(t, c, 0, data)
	base := FromChunkMap(b.file(t, data).SealedMap())
	for i := range int64(pieces - 1) {
		from := c
		if i%2 == 1 {
			from = base // its chunks are taken over
		}
		must.OK(t, c.CloneRange(b.src, (i+1)*piece, from, 0, piece))
	}
	reads, turns := b.log.reads, 0
	for c.SealedMap() == nil {
		left := int64(turn)
		z := &Sealer{Src: b.src, Objects: b.store, Spend: func(n int64) bool {
			left -= n
			return left <= 0
		}}
		if _, err := z.Seal(t.Context(), c); err != nil && !errors.Is(err, ErrTurnOver) {
			t.Fatal(err)
		}
		if turns++; turns > pieces || left < -turn || c.SealedMap() == nil && left > 0 {
			t.Fatalf("turn %d: %d bytes left", turns, left)
		}
		collect(t, b, c)
	}
	if turns < 8 {
		t.Errorf("%d turns", turns)
	}
	if n := b.log.reads - reads; n > pieces*piece {
		t.Errorf("read %d bytes of the journal", n)
	}
	b.wantBytes(t, c, bytes.Repeat(data, pieces))
	if fresh := b.file(t, bytes.Repeat(data, pieces)); !c.SealedMap().equal(fresh.SealedMap()) {
		t.Errorf("sealed as %+v, want %+v", c.SealedMap(), fresh.SealedMap())
	}
}

// collect removes all objects that no content needs.
func collect(t *testing.T, b *bench, needed ...*Content) {
	t.Helper()
	kept := make(map[cas.Hash]bool)
	for _, c := range needed {
		must.OK(t, c.EachObject(b.src, func(h cas.Hash, _ bool) (bool, error) {
			if b.store.objects[h] == nil {
				t.Fatalf("object %s is gone", h)
			}
			first := !kept[h]
			kept[h] = true
			return first, nil
		}))
	}
	for h := range b.store.objects {
		if !kept[h] {
			delete(b.store.objects, h)
		}
	}
	b.src = NewSource(b.store, b.log, 8<<20)
}

// TestSealGoesOn: what was cut before an error of a disk that is read is not cut again.
func TestSealGoesOn(t *testing.T) {
	b := newBench()
	data := b.noise(8 << 20)
	c := New(1)
	b.write(t, c, 0, data)
	c = FromChunkMap(b.seal(t, c)).VersionFor(2)
	for off := int64(0); off < 8<<20; off += 128 << 10 {
		b.write(t, c, off, []byte("new"))
		copy(data[off:], "new")
	}
	away := errors.New("the disk does not answer")
	left, puts := 0, b.store.putCount
	src := NewSource(awayStore{b.store, func() error {
		if left--; left < 0 {
			return away
		}
		return nil
	}}, b.log, 0)
	for tries := 0; c.SealedMap() == nil; tries++ {
		left = 40
		if _, err := (&Sealer{Src: src, Objects: b.store}).Seal(t.Context(), c); err != nil && !errors.Is(err, away) {
			t.Fatal(err)
		}
		if tries > 1000 {
			t.Fatal("it does not get on")
		}
	}
	if n := b.store.putCount - puts; n > 160 {
		t.Errorf("%d objects were put", n)
	}
	b.wantBytes(t, c, data)
	if fresh := b.file(t, data); !c.SealedMap().equal(fresh.SealedMap()) {
		t.Error("sealed as something else")
	}
}

// awayStore fails to get objects when it is told so.
type awayStore struct {
	*byteStore
	fail func() error
}

func (a awayStore) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if err := a.fail(); err != nil {
		return nil, err
	}
	return a.byteStore.Get(h, dst)
}
