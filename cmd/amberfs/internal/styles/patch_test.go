package styles

import (
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

func TestPatch(t *testing.T) {
	var out strings.Builder
	d := &PatchWriter{W: &out}
	patch := "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- x\n+++ y\n same\ndiff --git a/g b/g\n--- a/g\n"
	for _, part := range []string{patch[:30], patch[30:31], patch[31:]} {
		_, err := d.Write([]byte(part))
		must.OK(t, err)
	}
	must.OK(t, d.Flush())
	var colors []string
	for _, l := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		c := ""
		for _, k := range []string{Bold, Red, Green, Cyan} {
			if strings.HasPrefix(l, k) {
				c = k
			}
		}
		colors = append(colors, c)
	}
	// In a hunk, the removed line "-- x" is red, although it looks like a header.
	want := []string{Bold, Bold, Bold, Cyan, Red, Green, "", Bold, Bold}
	if !slices.Equal(colors, want) {
		t.Errorf("colours %q, want %q", colors, want)
	}
	plain := out.String()
	for _, k := range []string{Bold, Red, Green, Cyan, Reset} {
		plain = strings.ReplaceAll(plain, k, "")
	}
	if plain != patch {
		t.Errorf("the text changed: %q", plain)
	}
}
