package gitbridge

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// An update is what has to be looked at again after an earlier export.
type update struct {
	files map[string]bool // to send
	dirs  map[string]bool // above files that changed and repositories
	links map[string]bool // nested repositories of the earlier export
}

// errFull says that a difference reaches further than the paths it is about, so
// that everything has to be looked at.
var errFull = errors.New("not incremental")

// changes finds what differs from an earlier export, and takes what is gone out of
// its tree. The answer is nil if that is not enough; nothing has been recorded then.
func (x *exporter) changes() (*update, error) {
	u := &update{make(map[string]bool), map[string]bool{"": true}, make(map[string]bool)}
	var gone []string
	err := tree.Diff(x.ctx, x.o.Source, x.before, x.o.State, tree.DiffOptions{}, func(c tree.Change) error {
		p := c.Path.String()
		if strings.HasPrefix(p+"/", ".git/") {
			return nil
		}
		if name := path.Base(p); name == ".gitattributes" || name == ".gitignore" && x.o.Gitignore {
			return errFull
		}
		if c.A != nil && !c.A.IsDir() {
			gone = append(gone, p)
		}
		u.files[p] = c.B != nil && !c.B.IsDir()
		u.above(p)
		return nil
	})
	switch {
	case errors.Is(err, errFull):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("comparing with the export before: %w", err)
	}
	for _, link := range x.base.Links {
		u.links[link] = true
		u.above(link)
		gone = append(gone, link)
	}
	for _, l := range x.base.Skipped {
		if dir, name := path.Split(l.Path); name == ".git" {
			u.above(path.Clean(dir)) // it may be a repository now
		}
	}
	for _, p := range gone {
		x.w.remove(p)
	}
	return u, nil
}

// above adds the directories above a path.
func (u *update) above(p string) {
	for p != "" && !u.dirs[parentOf(p)] {
		p = parentOf(p)
		u.dirs[p] = true
	}
}

// unseen returns those reports of the earlier export that are about directories which were
// not looked at.
func (x *exporter) unseen(all []Omission) (kept []Omission) {
	for _, l := range all {
		dir := parentOf(l.Path)
		seen := x.update.dirs[dir]
		for ; dir != "" && !seen; dir = parentOf(dir) {
			seen = x.links[dir] || x.update.links[dir]
		}
		if !seen {
			kept = append(kept, l)
		}
	}
	return kept
}

// countFiles returns how many files a tree has that was made from the base's.
func (x *exporter) countFiles(tree string) (int, error) {
	out, err := x.repo.git(x.ctx, x.w.env, "diff-tree", "-r", "--no-renames", "--diff-filter=AD", "--name-status", x.base.Tree, tree)
	if err != nil {
		return 0, fmt.Errorf("counting the files of the commit: %w", err)
	}
	lines := "\n" + out
	return x.base.Files + strings.Count(lines, "\nA\t") - strings.Count(lines, "\nD\t"), nil
}
