package content

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestEqualByHash: sealed files are told apart by their hashes, and nothing is read.
func TestEqualByHash(t *testing.T) {
	b := newBench()
	sealed := func(s string) *Content {
		m, err := FromReader(context.Background(), b.z, bytes.NewReader([]byte(s)))
		must.OK(t, err)
		return FromChunkMap(m)
	}
	src := NewSource(b.store, b.log, 8<<20)
	before := b.store.read
	if same, err := sealed("one").Equal(src, sealed("two")); same || err != nil {
		t.Errorf("%v, %v", same, err)
	}
	if same, err := sealed("one").Equal(src, sealed("one")); !same || err != nil {
		t.Errorf("%v, %v", same, err)
	}
	if b.store.read != before {
		t.Error("they were read")
	}
}

// TestEqualWithHoles: of files with large holes only the data is compared.
func TestEqualWithHoles(t *testing.T) {
	const size = 1<<62 - 1
	sparse := func(b *bench, sealed bool, offs ...int64) *Content {
		c := New(1)
		must.OK(t, c.Truncate(b.src, size))
		for _, off := range offs {
			b.write(t, c, off, []byte("data"))
		}
		if sealed {
			c.VersionFor(2)
			b.seal(t, c)
		}
		return c
	}
	for _, sealed := range [][2]bool{{true, true}, {true, false}, {false, false}} {
		b := newBench()
		for _, x := range []struct {
			other []int64
			same  bool
		}{{[]int64{100, 1 << 61}, true}, {[]int64{100}, false}, {[]int64{100, 1 << 60, 1 << 61}, false}, {nil, false}, {[]int64{101, 1 << 61}, false}} {
			a, o := sparse(b, sealed[0], 100, 1<<61), sparse(b, sealed[1], x.other...)
			for _, pair := range [][2]*Content{{a, o}, {o, a}} {
				if same, err := pair[0].Equal(b.src, pair[1]); same != x.same || err != nil {
					t.Errorf("sealed %v, data at %d: %v, %v", sealed, x.other, same, err)
				}
			}
		}
		zeros := sparse(b, sealed[0], 100)
		b2 := sparse(b, false, 100)
		b.write(t, b2, 1<<40, make([]byte, 1<<20))
		if same, err := zeros.Equal(b.src, b2); !same || err != nil {
			t.Errorf("zeros that were written: %v, %v", same, err)
		}
	}
}

// TestEqualOfManyExtents: a file of many extents is not walked once for each of them, which would
// take minutes.
func TestEqualOfManyExtents(t *testing.T) {
	b := newBench()
	const extents = 400_000
	file := func() *Content {
		c := New(1)
		for _, first := range []int64{0, 1} {
			for off := first; off < extents; off += 2 {
				b.write(t, c, off, []byte("x"))
			}
		}
		return c
	}
	a, o := file(), file()
	same := make(chan bool, 1)
	go func() {
		equal, err := a.Equal(b.src, o)
		same <- equal && err == nil
	}()
	if !await.Receive(t, "files of many extents are compared", same) {
		t.Error("they differ")
	}
}

// TestEqualAsBytes compares random files of runs, zeros and holes as their bytes are compared.
func TestEqualAsBytes(t *testing.T) {
	b, r := newBench(), rand.New(rand.NewPCG(1, 1))
	const size = 3 << 20
	differ := 0
	for range 300 {
		var files [2]*Content
		var texts [2][]byte
		files[0], texts[0] = New(1), make([]byte, size)
		must.OK(t, files[0].Truncate(b.src, size))
		put := func(i int) {
			off := r.Int64N(size - 200<<10)
			p := bytes.Repeat([]byte{byte(r.IntN(2))}, 1+r.IntN([]int{4, 5000, 200 << 10}[r.IntN(3)]))
			b.write(t, files[i], off, p)
			copy(texts[i][off:], p)
		}
		for range r.IntN(60) {
			put(0)
		}
		if r.IntN(2) == 0 {
			b.seal(t, files[0])
		}
		files[1], texts[1] = files[0].VersionFor(2), bytes.Clone(texts[0])
		for range r.IntN(4) {
			put(1)
		}
		for i, o := range []int{1, 0} {
			same, err := files[i].Equal(b.src, files[o])
			if want := bytes.Equal(texts[0], texts[1]); same != want || err != nil {
				t.Fatalf("%v, %v instead of %v", same, err, want)
			} else if !want {
				differ++
			}
		}
	}
	if differ < 50 || differ > 550 {
		t.Errorf("%d of 600 differ", differ)
	}
}
