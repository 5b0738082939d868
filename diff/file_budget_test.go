package diff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// numbered returns a text with the given number of lines, and after every n-th of them a line that contains n.
func numbered(lines, n int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "line %d of %d\n", i, lines)
		if i%n == 0 {
			fmt.Fprintf(&b, "and %d\n", n)
		}
	}
	return b.String()
}

// TestBudget: a text that is too large for the memory is replaced as a whole, and git applies this diff. Other texts
// are compared.
func TestBudget(t *testing.T) {
	a := spec{"big": file(numbered(5000, 7) + "no newline"), "small": file(numbered(20, 7)), "gone": file("gone\n"), "empty": file("")}
	b := spec{"big": file(numbered(5000, 11)), "small": file(numbered(20, 11)), "new": file("no newline"), "empty": file("x")}
	m := newMemory()
	sa, sb := m.state(t, a), m.state(t, b)
	var out bytes.Buffer
	must.OK(t, Write(context.Background(), &out, m.src, sa, sb, Options{Memory: budget.New(20_000)}))
	if n := strings.Count(out.String(), "\n-"); n < 5000 || strings.Count(out.String(), "\n line ") > 100 {
		t.Errorf("%d lines are deleted", n)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	a.write(t, dir)
	git(t, dir, out.String(), "apply", "-")
	after := load(t, dir)
	for name, n := range b {
		if after[name] != n {
			t.Errorf("%s is another one after git apply", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gone")); err == nil {
		t.Error("a file that was deleted is still there")
	}
	must.OK(t, Stat(context.Background(), &out, m.src, sa, sb, Options{Memory: budget.New(20_000)}))
}

// TestEffort: when the comparisons have taken as many steps as a diff may take, all further files are shown as
// replaced. The diff reports this, and git applies it.
func TestEffort(t *testing.T) {
	a, b, rnd := spec{}, spec{}, rand.New(rand.NewPCG(1, 2))
	few := func() (text string) {
		for range 500 {
			text += fmt.Sprintln(rnd.IntN(20))
		}
		return text
	}
	for i := range 10 {
		a[fmt.Sprint(i)], b[fmt.Sprint(i)] = file(few()), file(few())
	}
	m := newMemory()
	sa, sb := m.state(t, a), m.state(t, b)
	var out bytes.Buffer
	must.OK(t, Write(context.Background(), &out, m.src, sa, sb, Options{steps: &stepBudget{context.Background(), 500_000}}))
	if n := strings.Count(out.String(), "@@ too different to compare by lines\n"); n == 0 || n == 10 {
		t.Errorf("%d files are too different", n)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	a.write(t, dir)
	git(t, dir, out.String(), "apply", "-")
	after := load(t, dir)
	for name, n := range b {
		if after[name] != n {
			t.Errorf("%s is another one after git apply", name)
		}
	}
	text, err := TextOf(context.Background(), m.src, sa, sb, "1", "", Options{steps: &stepBudget{context.Background(), 100}})
	if err != nil || !text.TooLarge || len(text.Hunks) != 0 {
		t.Errorf("%d hunks, too large: %v, %v", len(text.Hunks), text.TooLarge, err)
	}
}

// TestWaitingForMemory: a caller that waits for memory can be stopped.
func TestWaitingForMemory(t *testing.T) {
	m := newMemory()
	sa, sb := m.state(t, spec{"f": file(numbered(100, 7))}), m.state(t, spec{"f": file(numbered(100, 11))})
	o := Options{Memory: budget.New(1 << 20)}
	release, err := o.Memory.Take(context.Background(), 1<<20)
	must.OK(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		err := Write(ctx, &bytes.Buffer{}, m.src, sa, sb, o)
		ended <- err
	}()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	release()
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// TestNewFileIsNotKept: an added or deleted file is read and written in pieces.
func TestNewFileIsNotKept(t *testing.T) {
	m := newMemory()
	text := strings.Repeat("0123456\n", 4<<20)
	full, empty := m.state(t, spec{"f": file(text)}), m.state(t, spec{})
	for _, pair := range [][2]*tree.State{{empty, full}, {full, empty}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var n counter
		err := Write(context.Background(), &n, m.src, pair[0], pair[1], Options{})
		must.OK(t, err)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 || int(n) < len(text) {
			t.Errorf("%d bytes of memory for a diff of %d", took, n)
		}
	}
}
