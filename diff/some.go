package diff

import (
	"io"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// ApplyHunks returns the text of a changed file with only some hunks of the change. The hunks are from
// TextOfChange, in order.
func ApplyHunks(src *tree.Source, c tree.Change, hunks []Hunk) ([]byte, error) {
	before, err := io.ReadAll(c.Before.Content.Reader(src.Files))
	if err != nil {
		return nil, err
	}

	after, err := io.ReadAll(c.After.Content.Reader(src.Files))
	if err != nil {
		return nil, err
	}

	return applyHunks(string(before), string(after), hunks), nil
}

func applyHunks(before, after string, hunks []Hunk) []byte {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	out, copied := []byte{}, 0 // copied is the number of lines of a that are in out or were replaced
	for _, h := range hunks {
		out = append(out, strings.Join(a[copied:h.OldStart-1], "")...)
		out = append(out, strings.Join(b[h.NewStart-1:h.NewStart-1+h.NewLines], "")...)
		copied = h.OldStart - 1 + h.OldLines
	}

	return append(out, strings.Join(a[copied:], "")...)
}
