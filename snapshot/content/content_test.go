package content

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/tests/must"
)

// TestNilContent: a nil *Content is an empty file.
func TestNilContent(t *testing.T) {
	b := newBench()
	var c *Content
	if c.Size() != 0 || c.Allocated() != 0 || c.MinJournalPos() != math.MaxInt64 || !c.Frozen(1) {
		t.Error("a nil content is not empty")
	}
	c.Rebase()
	if n, err := c.ReadAt(b.src, make([]byte, 9), 0); n != 0 || err != nil {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
	if _, err := c.SeekData(b.src, 0, 1); !errors.Is(err, ErrNoData) {
		t.Errorf("SeekData: %v", err)
	}
	if _, err := c.SeekHole(b.src, 0, 1); !errors.Is(err, ErrNoData) {
		t.Errorf("SeekHole: %v", err)
	}
	if same, err := c.Equal(b.src, New(1)); !same || err != nil {
		t.Errorf("Equal = %v, %v", same, err)
	}
	if base := b.seal(t, c); base.n != 0 || base.depth != 0 || len(base.chunks) != 0 {
		t.Errorf("sealed as %+v", base)
	}
	n := c.VersionFor(1)
	if err := n.CloneRange(b.src, 0, c, 0, 10); err != nil || n.Size() != 0 {
		t.Errorf("CloneRange: %v, size %d", err, n.Size())
	}
	b.write(t, n, 3, []byte("abc"))
	b.wantBytes(t, n, []byte("\x00\x00\x00abc"))
}

// TestSmallChunks: small extents that are alike are one chunk, which is got once.
func TestSmallChunks(t *testing.T) {
	b := newBench()
	c := New(1)
	for off := range int64(1000) {
		b.write(t, c, 2*off, []byte("x"))
	}
	c = FromChunkMap(b.seal(t, c))
	b.src = NewSource(b.store, b.log, 1<<20)
	b.store.gets = 0
	b.wantBytes(t, c, bytes.Repeat([]byte("x\x00"), 1000)[:1999])
	if b.store.gets > 20 {
		t.Errorf("%d objects were got to read one file of lists and a chunk", b.store.gets)
	}
}

// TestOwn: an epoch's own content is changed in place, an older one never.
func TestOwn(t *testing.T) {
	b := newBench()
	c := New(1)
	b.write(t, c, 0, []byte("one"))
	if c.VersionFor(1) != c || c.Frozen(1) || !c.Frozen(2) {
		t.Error("a content is not its own epoch's")
	}
	d := c.VersionFor(2)
	b.write(t, d, 1, []byte("TWO"))
	b.wantBytes(t, c, []byte("one"))
	b.wantBytes(t, d, []byte("oTWO"))

	e := FromChunkMap(b.seal(t, c))
	for _, epoch := range []uint64{0, 1, 2} {
		if o := e.VersionFor(epoch); o == e || o.Frozen(epoch) {
			t.Errorf("epoch %d may change a sealed content", epoch)
		}
	}
}

// TestAppend: appending costs the same at the end of a long file as at the
// beginning of one, and neighbours in the journal become one extent.
func TestAppend(t *testing.T) {
	b := newBench()
	c := New(1)
	const page, pages = 4096, 50_000
	for i := range int64(pages) {
		must.OK(t, c.Write(b.src, i*page, page, i*(page+40), 0))
	}
	if c.Size() != pages*page || c.Allocated() != pages*page || c.MinJournalPos() != 0 {
		t.Errorf("size %d, allocated %d, lowest position %d", c.Size(), c.Allocated(), c.MinJournalPos())
	}
	if n := c.layout.Load().ext.count(); n != pages {
		t.Errorf("%d extents, want %d", n, pages)
	}
	m := New(1)
	for i := range int64(pages) {
		must.OK(t, m.Write(b.src, i*page, page, 100+i*page, 0))
	}
	if n := m.layout.Load().ext.count(); n != 1 {
		t.Errorf("%d extents where the journal goes on without a gap, want 1", n)
	}
	allocs := testing.AllocsPerRun(1000, func() {
		must.OK(t, c.Write(b.src, c.Size(), page, c.Size()*2, 0))
	})
	if allocs > 0.5 {
		t.Errorf("%.1f allocations an append", allocs)
	}
}

// TestSmallFile: the content of a file that was written at once takes two small
// pieces of memory.
func TestSmallFile(t *testing.T) {
	b := newBench()
	var c *Content
	allocs := testing.AllocsPerRun(100, func() {
		c = New(1)
		must.OK(t, c.Write(b.src, 0, 4096, 77, 0))
	})
	if allocs > 2 {
		t.Errorf("%.0f allocations for a new file", allocs)
	}
	if c.MinJournalPos() != 77 {
		t.Errorf("lowest position %d", c.MinJournalPos())
	}
}

// TestTruncateUnderRebase: what is cut off and grown again reads as zeros, also
// when the version before, which has data there, comes to lie beneath.
func TestTruncateUnderRebase(t *testing.T) {
	b := newBench()
	data := b.noise(300 << 10)
	old := New(1)
	b.write(t, old, 0, data)
	c := old.VersionFor(2)
	for _, size := range []int64{100 << 10, 250 << 10} {
		must.OK(t, c.Truncate(b.src, size))
	}
	b.write(t, c, 200<<10, []byte("tail"))
	want := append(bytes.Clone(data[:100<<10]), make([]byte, 150<<10)...)
	copy(want[200<<10:], "tail")

	b.seal(t, old)
	written := c.MinJournalPos()
	if written != 9 {
		t.Fatalf("lowest position %d, want that of the first write", written)
	}
	c.Rebase()
	low := c.MinJournalPos()
	if low < int64(len(data)) {
		t.Fatalf("lowest position %d after Rebase, want that of the last write", low)
	}
	b.log.dropBefore(low)
	b.wantBytes(t, c, want)
	if got := c.Allocated(); got != 100<<10+4 {
		t.Errorf("allocated %d", got)
	}
	if c.link.Load() != nil {
		t.Error("a rebased content holds on to the version before")
	}
}

// TestRebaseBehindSealer: a file that changes in every epoch, with a sealer that
// is always two epochs behind, still releases the journal.
func TestRebaseBehindSealer(t *testing.T) {
	b := newBench()
	want := b.noise(200 << 10)
	c := New(1)
	b.write(t, c, 0, want)
	versions := []*Content{c}
	var positions []int64
	for epoch := uint64(2); epoch < 30; epoch++ {
		c = c.VersionFor(epoch)
		versions = append(versions, c)
		p := b.noise(5)
		off := b.rnd.Int64N(int64(len(want) - 5))
		positions = append(positions, int64(len(b.log.b)))
		b.write(t, c, off, p)
		copy(want[off:], p)
		if k := len(versions) - 3; k >= 0 {
			b.seal(t, versions[k])
			low := int64(math.MaxInt64)
			for _, v := range versions[k:] {
				v.Rebase()
				low = min(low, v.MinJournalPos())
			}
			if k > 1 && low < positions[k-1] {
				t.Fatalf("epoch %d: position %d is pinned, %d was written two epochs ago", epoch, low, positions[k-1])
			}
			b.log.dropBefore(low)
		}
	}
	b.wantBytes(t, c, want)
	n := 0
	for a := c.link.Load(); a != nil; a = a.prev.link.Load() {
		n++
	}
	if n > 3 {
		t.Errorf("the last version holds on to %d older ones", n)
	}
}

// TestMarkBeforeRebase: a collection keeps the chunks that a later Rebase is
// going to use, though the version that they come from is forgotten.
func TestMarkBeforeRebase(t *testing.T) {
	b := newBench()
	data := b.noise(300 << 10)
	old := New(1)
	b.write(t, old, 0, data)
	c := old.VersionFor(2)
	d := c.VersionFor(3)
	b.write(t, d, 0, []byte("x"))
	b.seal(t, old)
	for _, v := range []*Content{c, d} {
		kept := make(map[cas.Hash]bool)
		err := v.EachObject(b.src, func(h cas.Hash, _ bool) (bool, error) {
			kept[h] = true
			return true, nil
		})
		must.OK(t, err)
		for h := range b.store.objects {
			if !kept[h] {
				t.Errorf("object %x of the version before is not kept", h[:4])
			}
		}
	}
}

// TestCloneWhole: cp of a whole file copies and reads nothing.
func TestCloneWhole(t *testing.T) {
	b := newBench()
	data := b.noise(5 << 20)
	c := b.file(t, data).VersionFor(2)
	b.write(t, c, 1<<20, []byte("change"))
	copy(data[1<<20:], "change")
	d := New(2)
	before := b.store.read + b.log.reads
	must.OK(t, d.CloneRange(b.src, 0, c, 0, c.Size()))
	if n := b.store.read + b.log.reads - before; n > 0 {
		t.Errorf("read %d bytes", n)
	}
	b.write(t, c, 0, []byte("not in the copy"))
	b.wantBytes(t, d, data)
	if l := d.layout.Load(); l.base == nil || l.ext.count() != 1 {
		t.Errorf("clone has %d extents", l.ext.count())
	}
}

// TestCloneKeepsChunks: a part cloned into another file, at another offset, is
// sealed with the chunks that are stored already, but for those at its ends.
func TestCloneKeepsChunks(t *testing.T) {
	b := newBench()
	c := b.file(t, b.noise(8<<20))
	d := b.file(t, b.noise(1<<20)).VersionFor(2)
	must.OK(t, d.CloneRange(b.src, 300_001, c, 123_456, 7<<20))
	read, put := b.store.read, b.store.putNew
	b.seal(t, d)
	if n := b.store.read - read; n > 6*maxChunkSize {
		t.Errorf("read %d bytes", n)
	}
	if n := b.store.putNew - put; n > 6*maxChunkSize {
		t.Errorf("stored %d bytes", n)
	}
}
