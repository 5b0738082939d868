package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
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

// BenchmarkLookup looks for objects in an index that is filled as a daemon fills it, up to
// OBJECTS of them, and after it was opened again.
func BenchmarkLookup(b *testing.B) {
	dir := b.TempDir()
	s := openTest(b, dir, Options{})
	made := 0
	look := func(name string, first int) {
		b.Run(fmt.Sprintf("%d/%s", made, name), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				_, ok, err := s.index.find(named(first + r.IntN(made)))
				if err != nil || ok != (first == 0) {
					b.Fatal(ok, err)
				}
			}
			all, fresh := s.index.db.Tables()
			b.ReportMetric(float64(fresh), "fresh")
			b.ReportMetric(float64(all), "tables")
			for _, what := range []string{"RssAnon", "VmRSS"} {
				b.ReportMetric(memory(b, what), what+"-MiB")
			}
		})
	}
	for _, n := range decades(100_000) {
		for ; made < n; made++ {
			s.index.mu.Lock()
			s.index.add(named(made), loc{pack: 1, off: int64(made%(1<<20)+1) * recordAlign, plainLen: 1, storedLen: 1, kind: KindData})
			s.index.mu.Unlock()
			must.OK(b, s.index.flushIfDue())
		}
		look("filled", 0)
		look("filled-absent", n)
	}
	must.OK(b, s.Close())
	b.Run(fmt.Sprintf("%d/open", made), func(b *testing.B) {
		for b.Loop() {
			must.OK(b, openTest(b, dir, Options{}).Close())
		}
	})
	s = openTest(b, dir, Options{})
	look("opened", 0)
	look("opened-absent", made)
	must.OK(b, s.Close())
}

// decades are OBJECTS, or so many as are usual, with the hundredth and the tenth of them first.
func decades(usual int) []int {
	n, err := strconv.Atoi(os.Getenv("OBJECTS"))
	if err != nil {
		n = usual
	}
	return []int{n / 100, n / 10, n}
}

// memory returns a figure of this process's memory, in MiB.
func memory(b *testing.B, what string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	must.OK(b, err)
	kb, err := strconv.Atoi(string(regexp.MustCompile(what + `:\s+(\d+)`).FindSubmatch(status)[1]))
	must.OK(b, err)
	return float64(kb) / 1024
}

// named returns the hash of the i-th of many objects.
func named(i int) (h Hash) {
	r := rand.NewPCG(uint64(i), 0)
	for at := 0; at < len(h); at += 8 {
		binary.BigEndian.PutUint64(h[at:], r.Uint64())
	}
	return h
}

// BenchmarkRebuild makes the index again from packs with objects of one size, and checks all of
// them. Of the smallest there are up to OBJECTS.
func BenchmarkRebuild(b *testing.B) {
	for _, row := range []struct {
		size   int
		counts []int
	}{{64 << 10, []int{4096}}, {4 << 10, []int{65536}}, {512, []int{200_000}}, {32, decades(200_000)}} {
		dir := b.TempDir()
		s := openTest(b, dir, Options{})
		made := 0
		run := func(what string, do func()) {
			b.Run(fmt.Sprintf("%d/%d/%s", row.size, made, what), func(b *testing.B) {
				b.SetBytes(s.Stats().StoredBytes)
				runtime.GC()
				debug.FreeOSMemory()
				must.OK(b, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // VmHWM begins anew
				before := memory(b, "VmRSS")
				for b.Loop() {
					do()
				}
				b.ReportMetric(memory(b, "VmHWM")-before, "MiB-at-most")
				b.ReportMetric(float64(made)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
			})
		}
		for _, n := range row.counts {
			for ; made < n; made++ {
				h := named(made)
				put(b, s, append(h[:], blob(uint64(2*made), row.size-len(h))...))
				if made%100_000 == 0 {
					commit(b, s, MetaOp{Key: "a", Value: []byte("b")})
				}
			}
			commit(b, s, MetaOp{Key: "a", Value: []byte("b")})
			before := s.Stats()
			run("rebuild", func() {
				must.OK(b, errors.Join(s.Close(), os.RemoveAll(filepath.Join(dir, "index"))))
				s = openTest(b, dir, Options{})
				if got := s.Stats(); got.Objects != int64(n) || got.StoredBytes != before.StoredBytes {
					b.Fatalf("%+v", got)
				}
			})
			run("verify", func() {
				got, err := s.Verify(b.Context(), nil, func(d Damage) { b.Error(d) })
				if err != nil || got.Objects != int64(n) {
					b.Fatalf("%+v, %v", got, err)
				}
			})
		}
		must.OK(b, s.Close())
	}
}
