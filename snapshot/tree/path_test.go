package tree

import (
	"slices"
	"testing"
)

// TestComparePaths: paths are in the order of their components, as Diff has them.
func TestComparePaths(t *testing.T) {
	in := []string{"a", "a/b", "a/b/c", "a/c", "a-b", "a-b/c", "a.b", "ab", "b"}
	out := slices.Clone(in)
	slices.Reverse(out)
	if slices.SortFunc(out, ComparePaths); !slices.Equal(in, out) {
		t.Errorf("%q, not %q", out, in)
	}
}
