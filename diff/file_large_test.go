package diff

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// sparse returns a state with a file of holes for each name.
func (m *memory) sparse(t testing.TB, sizes map[string]int64) *tree.State {
	t.Helper()
	s := spec{}
	for path := range sizes {
		s[path] = file("")
	}
	st := m.state(t, s)
	for path, size := range sizes {
		n, err := st.Resolve(m.src, path)
		must.OK(t, err)
		n, err = st.Own(m.src, testEpoch, n.Ino)
		must.OK(t, err)
		n.Content = content.New(testEpoch)
		must.OK(t, n.Content.Truncate(m.src.Files, size))
	}
	return st
}

// TestLargeFiles: the memory of a comparison depends neither on the size of a binary file, which is not read, nor on
// the requested width.
func TestLargeFiles(t *testing.T) {
	const most = 1<<62 - 1
	m := newMemory()
	empty := m.state(t, spec{})
	small := m.state(t, spec{"grown": file(numbered(100, 7))})
	for _, size := range []int64{maxTextSize + 1, 3 << 30, 1 << 40, most} {
		large, moved := m.sparse(t, map[string]int64{"grown": size}), m.sparse(t, map[string]int64{"moved": size})
		n, err := moved.Resolve(m.src, "moved")
		must.OK(t, err)
		was, err := large.Resolve(m.src, "grown")
		must.OK(t, err)
		n.Content = was.Content
		for _, pair := range [][2]*tree.State{{empty, large}, {large, empty}, {small, large}, {large, moved}} {
			for _, o := range []Options{{}, {Width: 1}, {Width: most}} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				var out bytes.Buffer
				must.OK(t, Stat(context.Background(), &out, m.src, pair[0], pair[1], o))
				must.OK(t, Write(context.Background(), &out, m.src, pair[0], pair[1], o))
				runtime.ReadMemStats(&after)
				if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 || out.Len() > 10_000 {
					t.Errorf("size %d: %d bytes of memory for %d of output", size, took, out.Len())
				}
				if !strings.Contains(out.String(), "Bin") && !strings.Contains(out.String(), "rename to moved") {
					t.Errorf("size %d: %s", size, &out)
				}
			}
		}
		if size <= maxTextSize+1 || size > maxPatchedFileSize {
			err = Write(context.Background(), io.Discard, m.src, empty, large, Options{Binary: true})
			if errors.Is(err, errs.TooBig) != (size > maxPatchedFileSize) {
				t.Errorf("a binary patch of %d bytes: %v", size, err)
			}
		}
		text, err := TextOf(context.Background(), m.src, empty, large, "grown", "", Options{})
		if err != nil || !text.TooLarge {
			t.Errorf("hunks: %+v, %v", text, err)
		}
	}
}

// TestBlameIsChargedBefore: a file with too many lines is refused before its lines are read. For a file with few lines,
// the memory of the lines is charged.
func TestBlameIsChargedBefore(t *testing.T) {
	m := newMemory()
	st := m.state(t, spec{"many": file(strings.Repeat("\n", 4<<20)), "few": file(numbered(1000, 7)), "later": file(numbered(1000, 11))})
	node := func(path string) *tree.Inode {
		n, err := st.Resolve(m.src, path)
		must.OK(t, err)
		return n
	}
	memory := budget.New(16 << 20).NewCharge()
	defer memory.Release()
	b := Blame{Source: m.src, Cache: new(BlameCache), Memory: memory}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := b.AddVersion(context.Background(), node("many"), 0); !errors.Is(err, errs.Quota) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes of memory", took)
	}
	memory.Release()
	b = Blame{Source: m.src, Cache: new(BlameCache), Memory: memory}
	must.OK(t, b.AddVersion(context.Background(), node("few"), 0))
	must.OK(t, b.AddVersion(context.Background(), node("later"), 1))
	lines, from, err := b.Lines(context.Background())
	must.OK(t, err)
	if len(lines) != len(from) || len(lines) < 1000 || b.chargedMemory < 1000*(2*loadedLineMemory+knownLineMemory) {
		t.Errorf("%d lines of %d versions, charged %d bytes", len(lines), len(from), b.chargedMemory)
	}
}

// TestHunksOfManyLines: hunks and merges of texts that need too much memory are refused before the texts are read.
func TestHunksOfManyLines(t *testing.T) {
	m := newMemory()
	many := strings.Repeat("\n", 2<<20)
	a, b := m.state(t, spec{"f": file(many)}), m.state(t, spec{"f": file("x\n" + many)})
	o := Options{Memory: budget.New(16 << 20)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := UndoHunk(context.Background(), m.src, a, b, b, "f", "", "id", o); !errors.Is(err, errs.TooBig) {
		t.Error(err)
	}
	if got := merge(t, Merger{Memory: o.Memory}, many, many, many); got != nil {
		t.Errorf("it merges: %v", got.Clean)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes of memory", took)
	}

	// Texts whose parts need more than the memory merge without them.
	shown := 0
	show := func([]Part) { shown++ }
	few := strings.Repeat("line\n", 15<<10)
	if got := merge(t, Merger{Memory: o.Memory, Show: show}, few, few, few); got == nil || shown > 0 {
		t.Errorf("merged: %t, shown %d times", got != nil, shown)
	}
	if got := merge(t, Merger{Memory: o.Memory, Show: show}, "a\n", "b\n", "a\n"); got == nil || shown != 1 {
		t.Errorf("merged: %t, shown %d times", got != nil, shown)
	}
}
