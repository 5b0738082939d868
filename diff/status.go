package diff

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// NameStatus writes a line for each changed file, as `git diff --name-status`:
// the letter, for a rename its similarity and the old path, and the path,
// separated by tabs.
func NameStatus(ctx context.Context, w io.Writer, src *tree.Source, a, b *tree.State, o Options) error {
	files, err := Files(ctx, src, a, b, o)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	for _, f := range files {
		fmt.Fprintln(out, f)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the list of changes: %w", err)
	}
	return nil
}

// String is f's line in NameStatus.
func (f File) String() string {
	if f.Status == Renamed {
		return fmt.Sprintf("R%03d\t%s\t%s", f.Similarity, gitquote.Name(f.OldPath), gitquote.Name(f.Path))
	}
	return fmt.Sprintf("%c\t%s", f.Status, gitquote.Name(f.Path))
}
