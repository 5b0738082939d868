package cas

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// BenchmarkLookup looks for objects in an index of OBJECTS objects, filled as a daemon fills it:
// after that, and after it was opened again.
func BenchmarkLookup(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("OBJECTS"))
	if err != nil {
		n = 100_000
	}
	dir := b.TempDir()
	s := openTest(b, dir, Options{})
	for i := range n {
		s.index.mu.Lock()
		s.index.enter(named(i), loc{pack: 1, off: int64(i%(1<<20)+1) * recordAlign, plain: 1, stored: 1, kind: KindData})
		s.index.mu.Unlock()
		must.OK(b, s.index.flushFull())
	}
	look := func(name string, first int) {
		b.Run(name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				_, ok, err := s.index.find(named(first + r.IntN(n)))
				if err != nil || ok != (first == 0) {
					b.Fatal(ok, err)
				}
			}
			all, fresh := s.index.db.Tables()
			b.ReportMetric(float64(fresh), "fresh")
			b.ReportMetric(float64(all), "tables")
			status, err := os.ReadFile("/proc/self/status")
			must.OK(b, err)
			for _, what := range []string{"RssAnon", "VmRSS"} {
				kb, err := strconv.Atoi(string(regexp.MustCompile(what + `:\s+(\d+)`).FindSubmatch(status)[1]))
				must.OK(b, err)
				b.ReportMetric(float64(kb)/1024, what+"-MiB")
			}
		})
	}
	look("filled", 0)
	look("filled-absent", n)
	must.OK(b, s.Close())
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			must.OK(b, openTest(b, dir, Options{}).Close())
		}
	})
	s = openTest(b, dir, Options{})
	look("opened", 0)
	look("opened-absent", n)
	must.OK(b, s.Close())
}

// named returns the hash of the i-th of many objects.
func named(i int) (h Hash) {
	r := rand.NewPCG(uint64(i), 0)
	for at := 0; at < len(h); at += 8 {
		binary.BigEndian.PutUint64(h[at:], r.Uint64())
	}
	return h
}

// BenchmarkRebuild makes the index again from packs with objects of one size.
func BenchmarkRebuild(b *testing.B) {
	for _, size := range []int{64 << 10, 4 << 10, 512} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			const most = 256 << 20
			n := min(most/size, 200_000)
			dir := b.TempDir()
			s := openTest(b, dir, Options{})
			for i := range n {
				put(b, s, blob(uint64(2*i), size))
			}
			commit(b, s, MetaOp{Key: "a", Value: []byte("b")})
			stored := s.Stats().Stored
			must.OK(b, s.Close())
			b.SetBytes(stored)
			for b.Loop() {
				must.OK(b, os.RemoveAll(filepath.Join(dir, "index")))
				s := openTest(b, dir, Options{})
				if got := s.Stats(); got.Objects != int64(n) || got.Stored != stored {
					b.Fatalf("%+v", got)
				}
				must.OK(b, s.Close())
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
		})
	}
}
