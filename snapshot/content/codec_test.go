package content

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// someBase returns a ChunkMap with some of everything, one with lists if deep.
func someBase(b *bench, deep bool) *ChunkMap {
	l := listBuilder{objects: b.store}
	n := 2
	if deep {
		n = 1000
	}
	for i := range int64(n) {
		check(l.add(item{n: 100 + i, hash: cas.Sum([]byte{byte(i), byte(i >> 8)})}))
		check(l.add(item{n: 1 << 40, holeBytes: 1 << 40}))
		check(l.add(item{n: 4096, unwrittenBytes: 4096}))
	}
	base, err := l.finish()
	check(err)
	return base
}

// someContent returns an unsealed content with extents of all kinds.
func someContent(b *bench) *Content {
	c := FromChunkMap(someBase(b, true)).VersionFor(7)
	other := FromChunkMap(someBase(b, false))
	check(c.Write(b.src, 5000, 100, 123456, 0))
	check(c.Write(b.src, c.Size(), 1, 99, 0))
	check(c.Punch(b.src, 50, 10))
	check(c.Zero(b.src, 70, 10, false))
	check(c.CloneRange(b.src, 10_000, other, 1, 1<<20))
	return c
}

func encoded(c *Content) []byte {
	var e wire.Encoder
	c.Encode(&e)
	return e.Bytes()
}

// TestEncodeContent: what Encode writes, Decode reads.
func TestEncodeContent(t *testing.T) {
	b := newBench()
	sealed := FromChunkMap(someBase(b, true))
	for name, c := range map[string]*Content{
		"empty": New(7), "sealed": sealed, "clone of sealed": sealed.VersionFor(7), "mixed": someContent(b),
	} {
		raw := encoded(c)
		d := wire.NewDecoder(raw)
		got, err := Decode(d, 7)
		if err == nil {
			err = d.Finish()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(encoded(got), raw) {
			t.Errorf("%s: encodes differently after decoding", name)
		}
		if got.Size() != c.Size() || got.Allocated() != c.Allocated() || got.MinJournalPos() != c.MinJournalPos() {
			t.Errorf("%s: %d bytes, %d allocated, lowest position %d; want %d, %d, %d", name,
				got.Size(), got.Allocated(), got.MinJournalPos(), c.Size(), c.Allocated(), c.MinJournalPos())
		}
		if plain := name == "sealed" || name == "clone of sealed"; (got.SealedMap() != nil) != plain || got.Frozen(7) != plain {
			t.Errorf("%s: sealed %v, frozen %v", name, got.SealedMap() != nil, got.Frozen(7))
		}
	}
}

// TestDecodeRefuses: what no encoder writes is refused by name.
func TestDecodeRefuses(t *testing.T) {
	h := cas.Sum(nil)
	data := func(n uint64) func(e *wire.Encoder) {
		return func(e *wire.Encoder) { e.Uvarint(n<<2 | itemData); e.Raw(h[:]) }
	}
	hole := func(kind, n uint64) func(e *wire.Encoder) {
		return func(e *wire.Encoder) { e.Uvarint(kind); e.Uvarint(n) }
	}
	num := func(v ...uint64) func(e *wire.Encoder) {
		return func(e *wire.Encoder) {
			for _, n := range v {
				e.Uvarint(n)
			}
		}
	}
	raw := func(p ...byte) func(e *wire.Encoder) { return func(e *wire.Encoder) { e.Raw(p) } }
	base := func(d *wire.Decoder) { decodeChunkMap(d) }
	content := func(d *wire.Decoder) {
		if _, err := Decode(d, 1); err == nil {
			return
		}
	}
	list := func(level uint8) func(d *wire.Decoder) {
		return func(d *wire.Decoder) {
			if _, err := checkList(d.Raw(d.Remaining()), level); err != nil {
				d.Fail("%v", err)
			}
		}
	}
	for name, tc := range map[string]struct {
		read  func(*wire.Decoder)
		write []func(*wire.Encoder)
	}{
		"empty chunk":           {base, []func(*wire.Encoder){raw(0), num(1), data(0)}},
		"chunk over the limit":  {base, []func(*wire.Encoder){raw(0), num(1), data(maxChunkSize + 1)}},
		"chunk without a hash":  {base, []func(*wire.Encoder){raw(0), num(1), num(4), raw(make([]byte, 32)...)}},
		"two holes in a row":    {base, []func(*wire.Encoder){raw(0), num(2), hole(1, 5), hole(1, 5)}},
		"empty hole":            {base, []func(*wire.Encoder){raw(0), num(1), hole(1, 0)}},
		"unknown kind":          {base, []func(*wire.Encoder){raw(0), num(1), hole(3, 9)}},
		"hole with a length":    {base, []func(*wire.Encoder){raw(0), num(1), hole(5, 9)}},
		"over 2^63 bytes":       {base, []func(*wire.Encoder){raw(0), num(2), hole(1, math.MaxInt64), hole(2, 1)}},
		"nine chunks":           {base, []func(*wire.Encoder){raw(0), num(9), data(1), data(1), data(1), data(1), data(1), data(1), data(1), data(1), data(1)}},
		"too deep":              {base, []func(*wire.Encoder){raw(13)}},
		"holes over size":       {base, []func(*wire.Encoder){raw(1), num(10, 11, 0), raw(h[:]...)}},
		"reserved over size":    {base, []func(*wire.Encoder){raw(1), num(10, 5, 6), raw(h[:]...)}},
		"list without a hash":   {base, []func(*wire.Encoder){raw(1), num(10, 5, 5), raw(make([]byte, 32)...)}},
		"allocated over size":   {content, []func(*wire.Encoder){num(5, 6, 0, 0, 0)}},
		"base without bases":    {content, []func(*wire.Encoder){num(5, 5, 0, 5, 0)}},
		"extent over the end":   {content, []func(*wire.Encoder){num(5, 5, 0, 0, 1, 0, 6, extHole)}},
		"empty extent":          {content, []func(*wire.Encoder){num(5, 5, 0, 0, 1, 0, 0, extHole)}},
		"position over 2^63":    {content, []func(*wire.Encoder){num(5, 5, 0, 0, 1, 0, 5, extJournal, math.MaxInt64-4)}},
		"extent in no base":     {content, []func(*wire.Encoder){num(5, 5, 0, 0, 1, 0, 5, extBase, 0)}},
		"list of another kind":  {list(1), []func(*wire.Encoder){raw(wire.KindState, 2, 1), num(1), data(5)}},
		"list of other version": {list(1), []func(*wire.Encoder){raw(wire.KindList, 1, 1), num(1), data(5)}},
		"list of other level":   {list(2), []func(*wire.Encoder){raw(wire.KindList, 2, 1), num(1), data(5)}},
		"empty list":            {list(1), []func(*wire.Encoder){raw(wire.KindList, 2, 1), num(0)}},
		"list cut short":        {list(1), []func(*wire.Encoder){raw(wire.KindList, 2, 1), num(2), data(5)}},
		"list with more behind": {list(1), []func(*wire.Encoder){raw(wire.KindList, 2, 1), num(1), data(5), raw(0)}},
	} {
		var e wire.Encoder
		for _, w := range tc.write {
			w(&e)
		}
		d := wire.NewDecoder(e.Bytes())
		tc.read(d)
		if err := d.Err(); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecode: whatever decodes is consistent and encodes again to
// something that decodes to the same.
func FuzzDecode(f *testing.F) {
	b := newBench()
	f.Add(encoded(New(1)))
	f.Add(encoded(someContent(b)))
	f.Add(encoded(FromChunkMap(someBase(b, false))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Decode(wire.NewDecoder(raw), 1)
		if err != nil {
			return
		}
		again := encoded(c)
		d, err := Decode(wire.NewDecoder(again), 1)
		if err != nil {
			t.Fatalf("does not decode a second time: %v", err)
		}
		if !bytes.Equal(encoded(d), again) {
			t.Fatal("encodes differently the second time")
		}
		// Reading must not panic, whatever the objects and the journal hold.
		src := NewSource(b.store, b.log, 0)
		p := make([]byte, 1000)
		for _, off := range []int64{0, 4000, c.Size() - 10} {
			_, _ = c.ReadAt(src, p, off)
			_, _ = c.SeekData(src, off, 1)
			_, _ = c.SeekHole(src, off, 1)
		}
	})
}

// FuzzList: whatever is a list encodes to the very same bytes.
func FuzzList(f *testing.F) {
	for level := uint8(1); level < 3; level++ {
		var e wire.Encoder
		it := item{n: 10, hash: cas.Sum(nil)}
		if level > 1 {
			it.holeBytes, it.unwrittenBytes = 3, 4
		}
		encodeList(&e, level, []item{it, it})
		f.Add(bytes.Clone(e.Bytes()), level)
	}
	f.Fuzz(func(t *testing.T, raw []byte, level uint8) {
		sum, err := checkList(raw, level)
		if err != nil {
			return
		}
		store := newByteStore()
		h, err := store.Put(cas.KindTree, raw)
		check(err)
		b := &ChunkMap{item: item{n: sum.n, holeBytes: sum.holeBytes, unwrittenBytes: sum.unwrittenBytes, hash: h}, depth: level}
		c := b.cursor(NewSource(store, &byteLog{}, 0))
		check(c.enter())
		var items []item
		for !c.atEnd() && c.level == level-1 {
			items = append(items, c.cur)
			check(c.next())
		}
		var e wire.Encoder
		encodeList(&e, level, items)
		if !bytes.Equal(e.Bytes(), raw) {
			t.Fatalf("% x encodes to % x", raw, e.Bytes())
		}
	})
}
