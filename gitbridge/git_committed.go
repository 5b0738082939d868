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

// withoutCommitted leaves out some of the changes in the working tree at the path work: the changes of files
// that gitdir.Plan.CommittedFilter finds, and of new or removed directories in which only such files changed.
// It returns all others.
func withoutCommitted(ctx context.Context, src *tree.Source, p *gitdir.Plan, work string, changes []tree.Change) ([]tree.Change, error) {
	committed, err := p.CommittedFilter(ctx)
	if err != nil {
		return nil, err
	}

	removed := make(map[string]bool)                                        // paths of files whose changes are removed from changes
	aboveKept, aboveRemoved := make(map[string]bool), make(map[string]bool) // directories above files whose changes are kept, and above files in removed
	for _, c := range changes {
		if isDirChange(c) {
			continue
		}
		dirs := aboveKept
		if at, ok := pathBelow(c.Path.String(), work); ok && committed(at, fileOf(src, c.After)) {
			removed[c.Path.String()], dirs = true, aboveRemoved
		}
		for dir := c.Path.Dir; dir != nil; dir = dir.Dir {
			dirs[dir.String()] = true
		}
	}

	return slices.DeleteFunc(changes, func(c tree.Change) bool {
		at := c.Path.String()
		_, ok := pathBelow(at, work)
		isEmpty := isDirChange(c) && (c.Before == nil || c.After == nil) && aboveRemoved[at] && !aboveKept[at]
		return removed[at] || ok && isEmpty
	}), nil
}

func isDirChange(c tree.Change) bool {
	return (c.Before == nil || c.Before.IsDir()) && (c.After == nil || c.After.IsDir())
}

// pathBelow returns a path relative to a directory, and whether the path lies below the directory.
func pathBelow(at, dir string) (string, bool) {
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
