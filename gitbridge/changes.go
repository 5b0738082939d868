package gitbridge

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// A changeSet lists the paths that must be compared again after an earlier export.
type changeSet struct {
	paths map[string]bool // changed paths, nested repositories, and their parent directories
	links map[string]bool // nested repositories of the earlier export
}

// contains reports whether a path must be compared. All paths must be compared if u is nil.
func (u *changeSet) contains(p string) bool { return u == nil || u.paths[p] }

func (u *changeSet) add(p string) {
	for ; !u.paths[p]; p = path.Dir(p) {
		u.paths[p] = true
	}
}

// errNotIncremental means that a change affects unchanged paths too, so that all paths must be compared.
var errNotIncremental = errors.New("not incremental")

// dropChangedPaths returns the paths that differ from the base. It removes the files of the base at these paths
// from the commit; the export adds the files of the snapshot later. If all paths must be compared, it returns
// nil. Then the commit does not start from the base, so it does not matter which paths were removed.
func (x *exporter) dropChangedPaths() (*changeSet, error) {
	u := &changeSet{map[string]bool{".": true}, make(map[string]bool)}
	err := tree.Diff(x.ctx, x.options.Source, x.baseState, x.options.State, tree.DiffOptions{}, func(c tree.Change) error {
		p := c.Path.String()
		if strings.HasPrefix(p+"/", ".git/") {
			return nil
		}
		if name := path.Base(p); name == ".gitattributes" || name == ".gitignore" && x.options.Gitignore {
			return errNotIncremental
		}
		if c.Before != nil && !c.Before.IsDir() {
			x.writer.remove(p)
		}

		u.add(p)

		return nil
	})
	switch {
	case errors.Is(err, errNotIncremental):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("comparing with the export before: %w", err)
	}

	links := x.base.Links
	for _, l := range x.base.Skipped {
		if dir, ok := strings.CutSuffix(l.Path, "/.git"); ok {
			links = append(links, dir) // the directory may be a working repository now
		}
	}

	for _, link := range links {
		u.links[link] = true
		u.add(link)
		x.writer.remove(link)
	}

	return u, nil
}

// uncomparedReports returns the reports of the earlier export about paths that were not compared again.
func (x *exporter) uncomparedReports(all []stream.Omission) []stream.Omission {
	return slices.DeleteFunc(slices.Clone(all), func(l stream.Omission) bool {
		dir := path.Dir(l.Path)
		return x.changeSet.paths[l.Path] || naming.NearestIn(dir, x.links) != "" || naming.NearestIn(dir, x.changeSet.links) != ""
	})
}

// countFiles returns the number of files in a tree that was made from the tree of the base.
func (x *exporter) countFiles(tree string) (int, error) {
	out, err := x.repo.git(x.ctx, x.writer.env, "diff-tree", "-r", "--no-renames", "--diff-filter=AD", "--name-status", x.base.Tree, tree)
	if err != nil {
		return 0, fmt.Errorf("counting the files of the commit: %w", err)
	}
	lines := "\n" + out
	return x.base.Files + strings.Count(lines, "\nA\t") - strings.Count(lines, "\nD\t"), nil
}
