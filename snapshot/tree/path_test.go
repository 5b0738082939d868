package tree

import (
	"slices"
	"testing"

	"github.com/amberfs/amberfs/snapshot/naming"
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

// TestPathIsUnder: Path.IsUnder and naming.IsUnder agree, also for paths that share no memory.
func TestPathIsUnder(t *testing.T) {
	all := []string{"a", "a/b", "a/b/c", "a/c", "a-b", "b", "b/b", "c/a/b"}
	parse := func(name string) *Path { return must(ParsePath(name)) }

	for _, a := range all {
		for _, b := range all {
			if is := parse(a).IsUnder(parse(b)); is != naming.IsUnder(a, b) {
				t.Errorf("%s under %s: %v", a, b, is)
			}
		}

		var root *Path
		if !parse(a).IsUnder(root) || root.IsUnder(parse(a)) {
			t.Errorf("%s and the root", a)
		}
	}
}
