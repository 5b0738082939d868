package gitbridge

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// errFull says that a difference reaches further than the paths it is about, so
// that everything has to be looked at.
var errFull = errors.New("not incremental")

// update is what has to be looked at again between an earlier export and this
// one.
type update struct {
	links   map[string]bool // of the base
	gone    []string        // files and links of the state before
	come    []item          // in the snapshot: files, links, and directories to report
	changed map[string]bool // paths of which the base's reports are void
	dirs    map[string]bool // directories in come
}

// changes selects what differs between an earlier export and the snapshot. It
// returns false if that is not enough; nothing has been recorded then.
func (x *exporter) changes() (bool, error) {
	base := x.base
	u := &update{links: make(map[string]bool), changed: make(map[string]bool), dirs: make(map[string]bool)}
	for _, l := range base.Links {
		u.links[l] = true
	}
	err := tree.Diff(x.ctx, x.o.Source, x.before, x.o.State, tree.DiffOptions{}, func(c tree.Change) error {
		return x.collect(u, c)
	})
	switch {
	case errors.Is(err, errFull):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("comparing with the export before: %w", err)
	}
	if err := x.recheckUnchanged(u); err != nil {
		return false, err
	}
	for _, l := range base.Skipped {
		if !u.changed[l.Path] {
			x.res.Skipped = append(x.res.Skipped, l)
		}
	}
	for _, l := range base.Reduced {
		if !u.changed[l.Path] {
			x.res.Reduced = append(x.res.Reduced, l)
		}
	}
	for _, p := range u.gone {
		x.w.remove(p)
	}
	return true, x.some(u.come)
}

// collect files one difference.
func (x *exporter) collect(u *update, c tree.Change) error {
	p := c.Path.String()
	if x.affectsOthers(u, p) {
		return errFull
	}
	if p == ".git" || strings.HasPrefix(p, ".git/") || u.inLink(p) {
		return nil
	}
	if c.A != nil && !c.A.IsDir() {
		u.changed[p] = true
		u.gone = append(u.gone, p)
	}
	switch {
	case c.B == nil:
		u.changed[p] = true
		return x.nowEmpty(u, parentOf(p))
	case !c.B.IsDir():
		u.changed[p] = true
		u.come = append(u.come, item{p, c.B})
	case (c.A == nil || !c.A.IsDir()) && (c.B.Dir.Len() == 0 || x.set.names.refuses(path.Base(p), false)):
		u.report(item{p, c.B})
	}
	return nil
}

// report has a directory looked at that yields no file.
func (u *update) report(it item) {
	if u.dirs[it.path] {
		return
	}
	u.dirs[it.path], u.changed[it.path] = true, true
	u.come = append(u.come, it)
}

// nowEmpty has a directory reported that lost an entry, if it was the last one.
func (x *exporter) nowEmpty(u *update, dir string) error {
	if dir == "" {
		return nil
	}
	n, err := x.o.State.Resolve(x.o.Source, dir)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %q: %w", dir, err)
	}
	if n.IsDir() && n.Dir.Len() == 0 {
		u.report(item{dir, n})
	}
	return nil
}

func absent(err error) bool {
	return errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || errors.Is(err, tree.ErrSymlink)
}

// affectsOthers says that a change may alter what is exported of other paths: rules
// for what is ignored or converted, and where nested repositories are.
func (x *exporter) affectsOthers(u *update, p string) bool {
	switch path.Base(p) {
	case ".gitattributes":
		return true
	case ".gitignore":
		return x.o.Gitignore
	}
	for dir := p; dir != ""; dir = parentOf(dir) {
		if path.Base(dir) != ".git" {
			continue
		}
		if dir != ".git" && !u.links[parentOf(dir)] {
			return true
		}
		// A ".git" file or link somewhere may name a repository that is one now.
		if dir == ".git" && slices.ContainsFunc(x.base.Skipped, func(l Omission) bool {
			n, err := x.before.Resolve(x.o.Source, l.Path)
			return l.Reason == dotGit && (err != nil || !n.IsDir())
		}) {
			return true
		}
	}
	return false
}

// inLink reports whether p lies in a repository that the base has as a link.
func (u *update) inLink(p string) bool {
	if len(u.links) == 0 {
		return false
	}
	for p = parentOf(p); p != ""; p = parentOf(p) {
		if u.links[p] {
			return true
		}
	}
	return false
}

// recheckUnchanged adds what may have changed without a difference at its path: the
// commits of nested repositories and directories that were empty.
func (x *exporter) recheckUnchanged(u *update) error {
	for _, link := range x.base.Links {
		u.changed[link] = true
		u.gone = append(u.gone, link)
		after, err := x.o.State.Resolve(x.o.Source, link)
		if absent(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %q: %w", link, err)
		}
		if after.IsDir() {
			u.come = append(u.come, item{link, after})
		}
	}
	for _, l := range x.base.Skipped {
		if l.Reason != emptyDir || u.changed[l.Path] {
			continue
		}
		if err := x.nowEmpty(u, l.Path); err != nil {
			return err
		}
		u.changed[l.Path] = true
	}
	return nil
}

// countFiles returns how many files a tree has that was made from the base's.
func (x *exporter) countFiles(tree string) (int, error) {
	out, err := x.repo.git(x.ctx, x.w.env, "diff-tree", "-r", "--no-renames", "--diff-filter=AD", "--name-status", x.base.Tree, tree)
	if err != nil {
		return 0, fmt.Errorf("counting the files of the commit: %w", err)
	}
	n := x.base.Files
	for line := range strings.Lines(out) {
		if line[0] == 'A' {
			n++
		} else {
			n--
		}
	}
	return n, nil
}

// some selects single paths.
func (x *exporter) some(items []item) error {
	byDir := make(map[string][]item)
	var dirs []string
	for _, it := range items {
		dir := parentOf(it.path)
		if _, ok := byDir[dir]; !ok {
			dirs = append(dirs, dir)
		}
		byDir[dir] = append(byDir[dir], it)
	}
	for _, dir := range dirs {
		n, err := x.reach(dir)
		if err != nil {
			return err
		}
		if n == nil {
			continue
		}
		if err := x.items(dir, n, byDir[dir]); err != nil {
			return err
		}
	}
	return nil
}

// reach returns the inode of a directory, nil if git refuses a
// name on the way. What is ignored on the way, git finds out itself.
func (x *exporter) reach(dir string) (*tree.Inode, error) {
	if dir == "" {
		return x.o.State.Resolve(x.o.Source, "")
	}
	parent := parentOf(dir)
	n, err := x.reach(parent)
	if err != nil || n == nil || x.set.names.refuses(path.Base(dir), false) {
		return nil, err
	}
	if err := x.stage(parent, n); err != nil {
		return nil, err
	}
	if x.ignorer != nil {
		if err := x.worktree.mkdir(dir); err != nil {
			return nil, err
		}
	}
	child, err := x.o.State.Lookup(x.o.Source, n, path.Base(dir))
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", dir, err)
	}
	return child, nil
}
