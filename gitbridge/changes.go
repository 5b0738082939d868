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
	base    *exported
	before  *tree.State
	links   map[string]bool // of the base
	gone    []item          // in the state before: files, and links
	come    []item          // in the snapshot: files, links, and directories to report
	changed map[string]bool // paths of which the base's reports are void
	dirs    map[string]bool // directories in come
}

// changes selects what differs between an earlier export and the snapshot. It
// returns false if that is not enough; nothing has been recorded then.
func (s *selection) changes(before *tree.State, base *exported) (bool, error) {
	u := &update{base: base, before: before, links: make(map[string]bool), changed: make(map[string]bool), dirs: make(map[string]bool)}
	for _, l := range base.Links {
		u.links[l] = true
	}
	err := tree.Diff(s.ctx, s.o.Source, before, s.state, tree.DiffOptions{}, func(c tree.Change) error {
		return s.collect(u, c)
	})
	switch {
	case errors.Is(err, errFull):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("comparing with the export before: %w", err)
	}
	if err := s.lookAgain(u); err != nil {
		return false, err
	}
	files, err := s.countBefore(u)
	if err != nil {
		return false, err
	}
	s.res.Files = base.Files - files
	for _, l := range base.Skipped {
		if !u.changed[l.Path] {
			s.res.Skipped = append(s.res.Skipped, l)
		}
	}
	for _, l := range base.Reduced {
		if !u.changed[l.Path] {
			s.res.Reduced = append(s.res.Reduced, l)
		}
	}
	for _, it := range u.gone {
		s.w.remove(it.path)
	}
	return true, s.some(u.come)
}

// collect files one difference.
func (s *selection) collect(u *update, c tree.Change) error {
	p := c.Path.String()
	if s.reachesFar(u, p) {
		return errFull
	}
	if p == ".git" || strings.HasPrefix(p, ".git/") || u.inLink(p) {
		return nil
	}
	if c.A != nil && !c.A.IsDir() {
		u.changed[p] = true
		u.gone = append(u.gone, item{p, c.A})
	}
	switch {
	case c.B == nil:
		u.changed[p] = true
		return s.nowEmpty(u, parentOf(p))
	case !c.B.IsDir():
		u.changed[p] = true
		u.come = append(u.come, item{p, c.B})
	case (c.A == nil || !c.A.IsDir()) && (c.B.Dir.Len() == 0 || s.set.names.refuses(path.Base(p), false)):
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
func (s *selection) nowEmpty(u *update, dir string) error {
	if dir == "" {
		return nil
	}
	n, err := s.state.Resolve(s.o.Source, dir)
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

// reachesFar says that a change may alter what is exported of other paths: rules
// for what is ignored or converted, and where nested repositories are.
func (s *selection) reachesFar(u *update, p string) bool {
	switch path.Base(p) {
	case ".gitattributes":
		return true
	case ".gitignore":
		return s.o.Gitignore
	}
	for dir := p; dir != ""; dir = parentOf(dir) {
		if path.Base(dir) != ".git" {
			continue
		}
		if dir != ".git" && !u.links[parentOf(dir)] {
			return true
		}
		// A ".git" file or link somewhere may name a repository that is one now.
		if dir == ".git" && slices.ContainsFunc(u.base.Skipped, func(l Omission) bool {
			n, err := u.before.Resolve(s.o.Source, l.Path)
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

// lookAgain adds what may have changed without a difference at its path: the
// commits of nested repositories and directories that were empty.
func (s *selection) lookAgain(u *update) error {
	for _, link := range u.base.Links {
		u.changed[link] = true
		before, err := u.before.Resolve(s.o.Source, link)
		if err != nil {
			return fmt.Errorf("reading %q: %w", link, err)
		}
		u.gone = append(u.gone, item{link, before})
		after, err := s.state.Resolve(s.o.Source, link)
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
	for _, l := range u.base.Skipped {
		if l.Reason != emptyDir || u.changed[l.Path] {
			continue
		}
		if err := s.nowEmpty(u, l.Path); err != nil {
			return err
		}
		u.changed[l.Path] = true
	}
	return nil
}

// countBefore counts the files of the earlier export that are gone or replaced.
func (s *selection) countBefore(u *update) (int, error) {
	old, err := newSelection(s.exporter, u.before, nil)
	if err != nil {
		return 0, err
	}
	defer old.close()
	if err := old.some(u.gone); err != nil {
		return 0, err
	}
	return old.res.Files, nil
}

// some selects single paths.
func (s *selection) some(items []item) error {
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
		n, err := s.reach(dir)
		if err != nil {
			return err
		}
		if n == nil {
			continue
		}
		if err := s.items(dir, n, byDir[dir]); err != nil {
			return err
		}
	}
	return nil
}

// reach goes down to a directory and returns its inode, nil if git refuses a
// name on the way. What is ignored on the way, git finds out itself.
func (s *selection) reach(dir string) (*tree.Inode, error) {
	if dir == "" {
		return s.state.Resolve(s.o.Source, "")
	}
	parent := parentOf(dir)
	n, err := s.reach(parent)
	if err != nil || n == nil || s.set.names.refuses(path.Base(dir), false) {
		return nil, err
	}
	if err := s.stage(parent, n); err != nil {
		return nil, err
	}
	if s.ignorer != nil {
		if err := s.skeleton.mkdir(dir); err != nil {
			return nil, err
		}
	}
	child, err := s.state.Lookup(s.o.Source, n, path.Base(dir))
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", dir, err)
	}
	return child, nil
}
