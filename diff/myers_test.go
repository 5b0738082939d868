package diff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/tests/must"
)

// apply rebuilds b from a and the edits.
func apply(la, lb [][]byte, edits []edit) []byte {
	var out [][]byte
	at := 0
	for _, e := range edits {
		out = append(out, la[at:e.a0]...)
		out = append(out, lb[e.b0:e.b1]...)
		at = e.a1
	}
	out = append(out, la[at:]...)
	return bytes.Join(out, nil)
}

// lcs returns the length of a longest common subsequence, computed in the simplest way.
func lcs(a, b [][]byte) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			if bytes.Equal(x, y) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

func TestCompareTextIsShortestAndRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "\tx", "", "}"}), 0, 40)
		a := []byte(strings.Join(text.Draw(t, "a"), "\n"))
		b := []byte(strings.Join(text.Draw(t, "b"), "\n"))
		la, lb, edits, err := (&stepBudget{context.Background(), maxDiffSteps}).compareText(a, b)
		must.OK(t, err)
		if got := apply(la, lb, edits); !bytes.Equal(got, b) {
			t.Fatalf("edits %v turn %q into %q, want %q", edits, a, got, b)
		}
		kept, end := len(la), -1
		for _, e := range edits {
			kept -= e.a1 - e.a0
			if e.a0 <= end {
				t.Fatalf("edits %v touch", edits)
			}
			end = e.a1
		}
		if want := lcs(la, lb); kept != want {
			t.Fatalf("%d lines kept, %d are possible: %v", kept, want, edits)
		}
	})
}

func TestHopelessFilesAreCheap(t *testing.T) {
	const lines = 100_000
	r := rand.New(rand.NewPCG(1, 2))
	numbered := func(prefix string, order []int) []byte {
		var b bytes.Buffer
		for _, i := range order {
			fmt.Fprintf(&b, "%s %d\n", prefix, i)
		}
		return b.Bytes()
	}
	few := func() []byte {
		var b bytes.Buffer
		for range lines {
			fmt.Fprintf(&b, "%d\n", r.IntN(50))
		}
		return b.Bytes()
	}
	order := make([]int, lines)
	for i := range order {
		order[i] = i
	}
	for name, pair := range map[string][2][]byte{
		"nothing shared": {numbered("a", order), numbered("b", order)},
		"shuffled":       {numbered("a", order), numbered("a", r.Perm(lines))},
		"few values":     {few(), few()},
	} {
		before := processorTime(t)
		la, lb, edits, err := (&stepBudget{context.Background(), maxDiffSteps}).compareText(pair[0], pair[1])
		took := processorTime(t) - before
		if got := apply(la, lb, edits); err == nil && !bytes.Equal(got, pair[1]) || err != nil && !errors.Is(err, errTooDifferent) {
			t.Errorf("%s: the edits do not lead to the new file, %v", name, err)
		}
		t.Logf("%s: %v, %d edits, %v", name, took, len(edits), err)
		// A quadratic search takes minutes.
		if took > time.Minute {
			t.Errorf("%s took %v of the processors", name, took)
		}
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r unix.Rusage
	must.OK(t, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func TestSlideShowsWholeFunctions(t *testing.T) {
	const before = "func a() {\n\tx()\n}\n\nfunc c() {\n\tx()\n}\n"
	const after = "func a() {\n\tx()\n}\n\nfunc b() {\n\tx()\n}\n\nfunc c() {\n\tx()\n}\n"
	_, lb, edits, err := (&stepBudget{context.Background(), maxDiffSteps}).compareText([]byte(before), []byte(after))
	must.OK(t, err)
	if len(edits) != 1 {
		t.Fatalf("edits %v, want one", edits)
	}
	const want = "func b() {\n\tx()\n}\n\n"
	if got := string(bytes.Join(lb[edits[0].b0:edits[0].b1], nil)); got != want {
		t.Errorf("added %q, want %q", got, want)
	}
}
