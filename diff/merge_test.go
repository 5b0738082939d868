package diff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
)

func section(text string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
}

// merge returns the result of a Merger, nil if the file does not merge.
func merge(t *testing.T, m Merger, sides ...string) (got *threeway.MergedText) {
	t.Helper()
	in := threeway.TextInput{Base: section(sides[0]), Ours: section(sides[1]), Theirs: section(sides[2])}
	must.OK(t, m.Merge(context.Background(), in, func(m threeway.MergedText) error {
		got = &m
		return nil
	}))
	return got
}

func TestMerge(t *testing.T) {
	for _, test := range []struct {
		base, ours, theirs, want string
		clean                    bool
	}{
		{"a\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE", "A\nb\nc\nd\nE", true},
		{"a\nb\n", "a\nb\n", "a\nb\nc\n", "a\nb\nc\n", true},
		{"a\nb\nc\n", "", "a\nb\nc\n", "", true},
		{"a\n", "b\n", "b\n", "b\n", true},
		{"a\n", "b\n", "c\n", "<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n", false},
		{"", "a", "b", "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n", false},
		{"x\na\n", "x\n", "x\nb\n", "x\n<<<<<<< ours\n=======\nb\n>>>>>>> theirs\n", false},
	} {
		got := merge(t, Merger{}, test.base, test.ours, test.theirs)
		if got == nil || string(got.Text) != test.want || got.Clean != test.clean {
			t.Errorf("%q, %q, %q: %+v", test.base, test.ours, test.theirs, got)
		}
	}
	if got := merge(t, Merger{}, "a\n", "b\x00", "a\n"); got != nil {
		t.Errorf("a binary file: %+v", got)
	}
	if got := merge(t, Merger{Memory: budget.New(1 << 10)}, "a\n", "b\n", strings.Repeat("c\n", 1<<10)); got != nil {
		t.Errorf("without memory: %+v", got)
	}
	in := threeway.TextInput{Base: section("a\n"), Ours: section("b\n"), Theirs: section("a\n")}
	refused := Merger{Admit: func(int64) error { return errors.ErrUnsupported }}
	if err := refused.Merge(context.Background(), in, func(threeway.MergedText) error { return nil }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without room: %v", err)
	}
}

// TestMergeIsGitMergeFile: for texts with distinct lines, the result equals the result of git merge-file.
func TestMergeIsGitMergeFile(t *testing.T) {
	rounds := 100
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		rounds = 5000
	}
	dir, rnd, clean := t.TempDir(), rand.New(rand.NewPCG(1, 2)), 0
	for round := range rounds {
		base := make([]string, 5+rnd.IntN(40))
		for i := range base {
			base[i] = fmt.Sprintf("%d\n", i)
		}
		edit := func(side string) string {
			lines := strings.SplitAfter(strings.Join(base, ""), "\n")
			for k := range 1 + rnd.IntN(3) {
				lines[rnd.IntN(len(lines))] = []string{"", fmt.Sprintf("%s%d\n", side, k), fmt.Sprintf("x%d\ny%d\n", k, k)}[rnd.IntN(3)]
			}
			return strings.Join(lines, "")
		}
		sides := []string{strings.Join(base, ""), edit("ours"), edit("theirs")}
		for i, name := range []string{"base", "ours", "theirs"} {
			must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(sides[i]), 0o600))
		}
		git := exec.Command("git", "merge-file", "-p", "ours", "base", "theirs")
		git.Dir = dir
		want, err := git.Output()
		got := merge(t, Merger{}, sides...)
		if got.Clean != (err == nil) || got.Clean && !bytes.Equal(got.Text, want) {
			t.Fatalf("round %d: %q: %q, clean %v; git says %q, %v", round, sides, got.Text, got.Clean, want, err)
		}
		if got.Clean {
			clean++
		}
	}
	if clean < rounds/10 || clean > rounds*9/10 {
		t.Errorf("%d of %d are clean", clean, rounds)
	}
}

// FuzzMerge: the parts of a merge together are its three texts. The result has the changes of one side alone, and equal
// changes of both. A result without conflicts does not change if ours and theirs are exchanged.
func FuzzMerge(f *testing.F) {
	f.Add("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC")
	f.Add("a\na\na\n", "a\n", "a\na\na\na\n")
	f.Add("", "\n\n", "x")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		merge := func(base, ours, theirs string) (string, bool) {
			text, clean, err := mergeText(t.Context(), []byte(base), []byte(ours), []byte(theirs), nil)
			if errors.Is(err, errTooDifferent) {
				t.Skip()
			}
			must.OK(t, err)
			return string(text), clean
		}

		for _, sides := range [][2]string{{base, theirs}, {theirs, base}, {theirs, theirs}} {
			if text, clean := merge(base, sides[0], sides[1]); !clean || text != theirs {
				t.Errorf("base %q: %q and %q become %q, clean %v", base, sides[0], sides[1], text, clean)
			}
		}
		text, clean := merge(base, ours, theirs)
		if again, cleanAgain := merge(base, theirs, ours); cleanAgain != clean || clean && again != text {
			t.Errorf("base %q: %q and %q become %q, and %q the other way round", base, ours, theirs, text, again)
		}

		var parts []Part
		_, _, err := mergeText(t.Context(), []byte(base), []byte(ours), []byte(theirs), func(p []Part) { parts = p })
		must.OK(t, err)
		var b, o, th strings.Builder
		for _, p := range parts {
			b.WriteString(strings.Join(p.Base, ""))
			o.WriteString(strings.Join(p.Ours, ""))
			th.WriteString(strings.Join(p.Theirs, ""))
		}
		if b.String() != base || o.String() != ours || th.String() != theirs {
			t.Errorf("the parts of %q, %q, %q are %q", base, ours, theirs, parts)
		}
	})
}
