package content

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/tests/must"
)

// hashingStore hashes and forgets: what remains is the cost of cutting.
type hashingStore struct{ ObjectStore }

func (hashingStore) Put(_ cas.Kind, p []byte) (cas.Hash, error) { return cas.Sum(p), nil }

// text returns bytes that compress about as well as a program's source does.
func (b *bench) text(n int) []byte {
	words := make([][]byte, 4000)
	for i := range words {
		words[i] = []byte(fmt.Sprintf("%x ", b.rnd.Uint64()>>(8*b.rnd.Uint64N(7))))
	}
	p := make([]byte, 0, n+20)
	for len(p) < n {
		p = append(p, words[b.rnd.IntN(len(words))]...)
	}
	return p[:n]
}

// BenchmarkSeal seals a file of 64 MiB that was written by pieces of a size.
func BenchmarkSeal(b *testing.B) {
	const size = 64 << 20
	for _, data := range []string{"text", "noise"} {
		for _, piece := range []int{512, 4096, 128 << 10} {
			for _, kind := range []string{"hash", "store"} {
				b.Run(fmt.Sprintf("%s/write=%d/to=%s", data, piece, kind), func(b *testing.B) {
					tb := newBench()
					p := tb.text(size)
					if data == "noise" {
						p = tb.noise(size)
					}
					b.SetBytes(size)
					for b.Loop() {
						b.StopTimer()
						var objects ObjectStore = hashingStore{tb.store}
						done := func() error { return nil }
						if kind == "store" {
							s, err := cas.Open(b.TempDir(), cas.Options{})
							must.OK(b, err)
							objects, done = s, s.Close
						}
						tb.log = &byteLog{b: make([]byte, 0, size+size/piece*50)}
						src := NewSource(objects, tb.log, 64<<20)
						c := New(1)
						for off := 0; off < size; off += piece {
							must.OK(b, c.Write(src, int64(off), int64(piece), tb.log.add(p[off:off+piece], 40), 0))
						}
						z := &Sealer{Src: src, Objects: objects}
						b.StartTimer()
						_, err := z.Seal(context.Background(), c)
						must.OK(b, err)
						b.StopTimer()
						must.OK(b, done())
						b.StartTimer()
					}
				})
			}
		}
	}
}

// BenchmarkSealSmallFile seals files of 4 KiB.
func BenchmarkSealSmallFile(b *testing.B) {
	tb := newBench()
	objects := hashingStore{tb.store}
	src := NewSource(objects, tb.log, 0)
	pos := tb.log.add(tb.text(4096), 0)
	z := &Sealer{Src: src, Objects: objects}
	b.SetBytes(4096)
	b.ReportAllocs()
	for b.Loop() {
		c := New(1)
		must.OK(b, c.Write(src, 0, 4096, pos, 0))
		_, err := z.Seal(context.Background(), c)
		must.OK(b, err)
	}
}

// BenchmarkAppend appends 4 KiB to a file that gets long.
func BenchmarkAppend(b *testing.B) {
	c := New(1)
	b.ReportAllocs()
	for b.Loop() {
		must.OK(b, c.Write(nil, c.Size(), 4096, c.Size()*2, 0))
	}
}

// BenchmarkOverwrite writes 4 KiB anywhere in a file of 1 GiB with 262,144
// extents, with a snapshot now and then.
func BenchmarkOverwrite(b *testing.B) {
	tb := newBench()
	c := New(1)
	const pages = 1 << 18
	for i := range int64(pages) {
		must.OK(b, c.Write(nil, i<<12, 4096, i*5000, 0))
	}
	pos, epoch := int64(pages*5000), uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		if pos += 5000; pos%(5000*1000) == 0 {
			epoch++
			c = c.VersionFor(epoch)
		}
		must.OK(b, c.Write(nil, tb.rnd.Int64N(pages)<<12, 4096, pos, 0))
	}
}

// BenchmarkReadSealed reads a sealed file of 64 MiB from beginning to end, 128 KiB
// at a time as the kernel does.
func BenchmarkReadSealed(b *testing.B) {
	tb := newBench()
	data := tb.noise(64 << 20)
	c := tb.file(b, data)
	p := make([]byte, 128<<10)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		src := NewSource(tb.store, tb.log, 64<<20)
		for off := int64(0); off < c.Size(); off += int64(len(p)) {
			if n, err := c.ReadAt(src, p, off); err != nil || n != len(p) {
				b.Fatal(n, err)
			}
		}
	}
	if !bytes.Equal(p, data[len(data)-len(p):]) {
		b.Fatal("wrong bytes")
	}
}
