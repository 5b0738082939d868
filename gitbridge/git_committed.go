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
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// withoutCommitted leaves out, of the changes of a working tree, the files that are as the HEAD there
// has them, and the directories that the changes make or remove, and of which only such files are left
// out.
func withoutCommitted(ctx context.Context, src *tree.Source, p *gitdir.Plan, work string, changes []tree.Change) ([]tree.Change, error) {
	committed, err := p.Committed(ctx)
	if err != nil {
		return nil, err
	}

	holds := make(map[string]bool) // directories with a change that stays
	leaves := make(map[string]bool)

	for _, c := range changes {
		at, ok := below(c.Path.String(), work)
		if isDirChange(c) {
			continue
		}

		if ok && committed(at, fileOf(src, c.After)) {
			leaves[c.Path.String()] = true
			continue
		}

		for dir := c.Path.Dir; dir != nil; dir = dir.Dir {
			holds[dir.String()] = true
		}
	}

	var out []tree.Change
	for _, c := range changes {
		at := c.Path.String()
		if _, ok := below(at, work); leaves[at] || ok && isDirChange(c) && (c.Before == nil || c.After == nil) && !holds[at] && len(leaves) > 0 && hasBelow(leaves, at) {
			continue
		}

		out = append(out, c)
	}

	return out, nil
}

func hasBelow(set map[string]bool, dir string) bool {
	for at := range set {
		if strings.HasPrefix(at, dir+"/") {
			return true
		}
	}
	return false
}

func isDirChange(c tree.Change) bool {
	return (c.Before == nil || c.Before.IsDir()) && (c.After == nil || c.After.IsDir())
}

// below returns a path relative to a directory.
func below(at, dir string) (string, bool) {
	if dir == "." || dir == "" {
		return at, true
	}
	return strings.CutPrefix(at, path.Clean(dir)+"/")
}

// fileAt describes the file of a state at a path, nil for none.
func fileAt(src *tree.Source, st *tree.State, at string) *gitdir.File {
	n, err := treeFiles{src, st, at}.lookup(".")
	if err != nil {
		return nil
	}
	return fileOf(src, n)
}

// fileOf describes a file for gitdir, nil for none.
func fileOf(src *tree.Source, n *tree.Inode) *gitdir.File {
	if n == nil || n.IsDir() {
		return nil
	}
	f := &gitdir.File{Size: n.Size(), Mtime: n.Mtime}
	f.Blob = func(idLen int) string {
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
