package gitbridge

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/threeway"
)

// TestMergeConfigs: configurations are merged by their settings, and other files by lines.
func TestMergeConfigs(t *testing.T) {
	isolate(t)
	const base = "[core]\n\tbare = false\n[user]\n\tname = a\n[branch \"x\"]\n\tremote = o\n"
	for name, c := range map[string]struct{ path, ours, theirs, want string }{
		"both add":       {".git/config", base + "[core]\n\teditor = vi\n", base + "[remote \"u p\"]\n\turl = \"a;b\"\n\tfetch = 1\n\tfetch = 2\n", base + "[core]\n\teditor = vi\n[remote \"u p\"]\n\tfetch = 1\n\tfetch = 2\n\turl = \"a;b\"\n"},
		"one setting":    {".git/config", strings.Replace(base, "= a", "= ours", 1), strings.Replace(base, "= a", "= theirs", 1), strings.Replace(base, "= a", "= ours", 1)},
		"renamed":        {"m/.git/modules/s/config", base + "[x]\n\ty\n", strings.Replace(base, `"x"`, `"z"`, 1), "[core]\n\tbare = false\n[user]\n\tname = a\n[x]\n\ty\n[branch \"z\"]\n\tremote = o\n"},
		"none reads it":  {".git/config", base + "[", base + "]", "lines"},
		"another's file": {"config", base + "1", base + "2", "lines"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := func(_ context.Context, in threeway.TextInput, do func(threeway.MergedText) error) error {
				base, ours, theirs := got(io.ReadAll(in.Base)), got(io.ReadAll(in.Ours)), got(io.ReadAll(in.Theirs))
				if string(ours) != c.ours {
					t.Errorf("by lines: ours is %q", ours)
				}
				if string(base) != c.ours {
					theirs = []byte("lines")
				}
				return do(threeway.MergedText{Text: theirs, Clean: true})
			}
			in := threeway.TextInput{Base: section(base), Ours: section(c.ours), Theirs: section(c.theirs), Path: c.path}
			err := MergeConfigs(lines)(t.Context(), in, func(m threeway.MergedText) error {
				if string(m.Text) != c.want {
					t.Errorf("it is %q, want %q", m.Text, c.want)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func section(text string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
}
