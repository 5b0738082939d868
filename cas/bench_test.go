package cas

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// BenchmarkPut stores objects that are all different and do not compress.
func BenchmarkPut(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"64KiB", 64 << 10}, {"200B", 200}} {
		b.Run(size.name, func(b *testing.B) {
			s := openTest(b, b.TempDir(), Options{})
			buf := make([]byte, size.bytes)
			r := rand.NewChaCha8([32]byte{1})
			_, _ = r.Read(buf)
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			for i := uint64(0); b.Loop(); i++ {
				binary.LittleEndian.PutUint64(buf, i)
				_, err := s.Put(KindData, buf)
				must.OK(b, err)
			}
			must.OK(b, s.Commit())
		})
	}
}

// BenchmarkPutAgain stores an object again.
func BenchmarkPutAgain(b *testing.B) {
	s := openTest(b, b.TempDir(), Options{})
	buf := blob(0, 64<<10)
	put(b, s, buf)
	must.OK(b, s.index.flush())
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		put(b, s, buf)
	}
}

// BenchmarkGet reads objects of 64 KiB that the index knows.
func BenchmarkGet(b *testing.B) {
	s := openTest(b, b.TempDir(), Options{})
	var list []Hash
	for i := range 500 {
		list = append(list, put(b, s, blob(uint64(2*i), 64<<10)))
	}
	must.OK(b, s.index.flush())
	var buf []byte
	b.SetBytes(64 << 10)
	for i := 0; b.Loop(); i++ {
		var err error
		if buf, err = s.Get(list[i%len(list)], buf); err != nil {
			b.Fatal(err)
		}
	}
}
