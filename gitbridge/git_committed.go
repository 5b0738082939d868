package gitbridge

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// withoutCommitted removes from changes some changes in the working tree work: of the files that
// gitdir.Plan.Committed reports, and of the new or removed directories in which only such files changed.
func withoutCommitted(ctx context.Context, src *tree.Source, p *gitdir.Plan, work string, changes []tree.Change) ([]tree.Change, error) {
	committed, err := p.CommittedFilter(ctx)
	if err != nil {
		return nil, err
	}

	left := make(map[string]bool)                                 // paths of files whose changes are removed
	holds, leaves := make(map[string]bool), make(map[string]bool) // directories above files whose changes stay, and above files in left
	for _, c := range changes {
		if isDirChange(c) {
			continue
		}
		above := holds
		if at, ok := below(c.Path.String(), work); ok && committed(at, fileOf(src, c.After)) {
			left[c.Path.String()], above = true, leaves
		}
		for dir := c.Path.Dir; dir != nil; dir = dir.Dir {
			above[dir.String()] = true
		}
	}

	return slices.DeleteFunc(changes, func(c tree.Change) bool {
		at := c.Path.String()
		_, ok := below(at, work)
		isEmpty := isDirChange(c) && (c.Before == nil || c.After == nil) && leaves[at] && !holds[at]
		return left[at] || ok && isEmpty
	}), nil
}

func isDirChange(c tree.Change) bool {
	return (c.Before == nil || c.Before.IsDir()) && (c.After == nil || c.After.IsDir())
}

// below returns a path relative to a directory, and whether the path lies below the directory.
func below(at, dir string) (string, bool) {
	if dir == "." || dir == "" {
		return at, true
	}
	return strings.CutPrefix(at, path.Clean(dir)+"/")
}

// fileOf describes a file for gitdir, nil for none.
func fileOf(src *tree.Source, n *tree.Inode) *gitdir.File {
	if n == nil || n.IsDir() {
		return nil
	}
	f := &gitdir.File{Size: n.Size(), Mtime: n.Mtime, Exec: n.Mode&0o100 != 0}
	f.Open = func() io.Reader { return n.Content.Reader(src.Files) }
	f.BlobID = func(idLen int) string {
		var h hash.Hash = sha1.New()
		if idLen > sha1.Size {
			h = sha256.New()
		}

		if n.IsSymlink() {
			fmt.Fprintf(h, "blob %d\x00%s", len(n.Target), n.Target)
		} else if n.IsRegular() {
			fmt.Fprintf(h, "blob %d\x00", n.Size())
			if _, err := io.Copy(h, n.Content.Reader(src.Files)); err != nil {
				return ""
			}
		}

		return hex.EncodeToString(h.Sum(nil))
	}

	return f
}
