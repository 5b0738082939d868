package gitbridge

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// manyFiles is a tree of n small files, 50 a directory.
func manyFiles(n int) trees.Spec {
	s := make(trees.Spec, n)
	for i := range n {
		s[fmt.Sprintf("dir%03d/sub%02d/file%d.txt", i/5000, i/50%100, i)] = trees.File(strings.Repeat(fmt.Sprintf("line %d of a file\n", i), 20+i%200))
	}
	return s
}

// BenchmarkExport compares first exports, exports on top of another, and git
// itself on the same 100,000 files.
func BenchmarkExport(b *testing.B) {
	const files = 100_000
	m := trees.NewMemory()
	s := manyFiles(files)
	first := m.Seal(b, m.State(b, s))
	second := first.Clone()
	for i := range 10 {
		p := fmt.Sprintf("dir%03d/sub00/file%d.txt", i, i*5000)
		n, err := second.Resolve(m.Src, p)
		must.OK(b, err)
		n, err = second.Own(m.Src, m.Epoch, n.Ino)
		must.OK(b, err)
		n.Content = m.Content(b, "changed\n")
		must.OK(b, second.Put(m.Src, m.Epoch, n))
	}
	m.Seal(b, second)
	cacheDir := b.TempDir()
	repo := bareRepo(b)
	var res *Result
	b.Run("first", func(b *testing.B) {
		for range b.N {
			res = export(b, m, first, bareRepo(b), nil)
		}
	})
	res = export(b, m, first, repo, func(o *ExportOptions) { o.CacheDir = cacheDir })
	b.Run("incremental", func(b *testing.B) {
		for range b.N {
			got := export(b, m, second, repo, func(o *ExportOptions) {
				o.CacheDir, o.Bases, o.Info.Parents = cacheDir, []Base{base(first, res)}, []string{res.Commit}
			})
			if !got.Incremental {
				b.Fatal("not incremental")
			}
		}
	})
	b.Run("gitignore", func(b *testing.B) {
		for range b.N {
			export(b, m, first, repo, func(o *ExportOptions) { o.CacheDir, o.Gitignore = cacheDir, true })
		}
	})
	work := filepath.Join(b.TempDir(), "work")
	s.Write(b, work)
	b.Run("git", func(b *testing.B) {
		for range b.N {
			addAll(b, bareRepo(b), work, false)
		}
	})
}
