package tree

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// bigDir returns a sealed state with n files in one directory, and its source.
func bigDir(b *testing.B, n int) (*testFS, *State, *Inode) {
	f := newTestFS()
	f.src = NewSource(f.store, f.log, 1<<30)
	dir := f.create(RootIno, "big", unix.S_IFDIR|0o755)
	for i := range n {
		f.create(dir, testName(i), unix.S_IFREG|0o644)
	}
	s := f.freeze()
	f.seal(b, s)
	return f, s, must(s.Get(f.src, dir))
}

func BenchmarkDirLookup(b *testing.B) {
	for _, n := range []int{1000, 1000000} {
		f, _, dir := bigDir(b, n)
		names := make([]string, 1000)
		for i := range names {
			names[i] = testName(i * n / 1000)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok, err := dir.Dir.Lookup(f.src, names[i%1000]); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	f, s, _ := bigDir(b, 100000)
	b.Run("sealed", func(b *testing.B) {
		b.ReportAllocs()
		for i := uint64(0); b.Loop(); i++ {
			must(s.Get(f.src, 2+i*7919%100000))
		}
	})
	b.Run("cold", func(b *testing.B) {
		src := NewSource(f.store, f.log, 0)
		b.ReportAllocs()
		for i := uint64(0); b.Loop(); i++ {
			must(s.Get(src, 2+i*7919%100000))
		}
	})
	b.Run("owned", func(b *testing.B) {
		for i := range uint64(1000) {
			f.own(2 + i)
		}
		b.ReportAllocs()
		for i := uint64(0); b.Loop(); i++ {
			must(f.s.Get(f.src, 2+i%1000))
		}
	})
}

// BenchmarkCreate is what a new file costs in the tree.
func BenchmarkCreate(b *testing.B) {
	f, _, dir := bigDir(b, 100000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f.create(dir.Ino, fmt.Sprint("new", i), unix.S_IFREG|0o644)
	}
}

func BenchmarkSeal(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		f := newTestFS()
		for i := range 10000 {
			f.create(RootIno, testName(i), unix.S_IFREG|0o644)
		}
		s := f.freeze()
		b.StartTimer()
		f.seal(b, s)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/inode")
}

// BenchmarkWalk walks 100,000 files, and compares their directories with an empty tree.
func BenchmarkWalk(b *testing.B) {
	f := newTestFS()
	f.src = NewSource(f.store, f.log, 1<<30)
	for i := range 1000 {
		dir := f.create(RootIno, testName(i), unix.S_IFDIR|0o755)
		for j := range 100 {
			f.create(dir, testName(j), unix.S_IFREG|0o644)
		}
	}
	nested := f.freeze()
	f.seal(b, nested)
	g, flat, _ := bigDir(b, 100_000)
	for _, c := range []struct {
		name string
		f    *testFS
		s    *State
	}{{"1000 directories", f, nested}, {"one directory", g, flat}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				check(c.s.Walk(context.Background(), c.f.src, WalkOptions{}, func(*Path, *Inode) error { n++; return nil }))
			}
		})
		b.Run(c.name+", removed", func(b *testing.B) {
			b.ReportAllocs()
			empty := newTestFS().freeze()
			for b.Loop() {
				n := 0
				check(Diff(context.Background(), c.f.src, c.s, empty, DiffOptions{}, func(Change) error { n++; return nil }))
			}
		})
	}
}
