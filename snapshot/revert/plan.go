package revert

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// mergeTexts merges the texts that were found in an interval.
func (p *Plan) mergeTexts(ctx context.Context) error {
	texts := p.texts
	if p.texts = nil; len(texts) == 0 {
		return nil
	}
	clean := make([]bool, len(texts))
	if p.Merge != nil {
		files := make([]threeway.Input, len(texts))
		for i, x := range texts {
			src := p.Source.Files
			files[i] = threeway.Input{Base: x.base.Content.Reader(src), Ours: x.ours.Content.Reader(src), Theirs: x.then.Content.Reader(src)}
		}
		sealer := &content.Sealer{Src: p.Source.Files, Objects: p.Objects}
		if err := p.Merge(ctx, files, func(i int, size int64, in io.Reader) error {
			sealed, err := content.FromReader(ctx, sealer, io.LimitReader(in, size))
			if err == nil {
				texts[i].file.node.Content = content.Of(sealed)
				clean[i], p.Stored = true, true
			}
			return err
		}); err != nil {
			return err
		}
	}
	for i, x := range texts {
		if x.file.merging = false; clean[i] {
			continue
		}
		if err := p.conflict(x.path, func() error {
			x.file.node.Content = x.then.Content
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// conflict notes a path that others changed later. theirs makes it what it was before.
func (p *Plan) conflict(at string, theirs func() error) error {
	if _, rel, ok := threeway.InGit(at); ok {
		switch threeway.KindInGit(rel) {
		case threeway.IndexOf, threeway.Reflog, threeway.OwnNotes:
			return nil // git finds out, or others have theirs in it
		}
	}
	if p.stays(at) {
		return nil
	}
	if !p.refused[at] {
		p.refused[at] = true
		p.Conflicts = append(p.Conflicts, at)
	}
	if p.Theirs {
		return theirs()
	}
	return nil
}

// stays reports whether a path is to stay as it is.
func (p *Plan) stays(at string) bool { return p.Ours[at] || threeway.Under(at, p.Skip) }

// inObjects reports whether a path is an object of a repository. Commits of others may
// need it.
func inObjects(p string) bool {
	_, rel, ok := threeway.InGit(p)
	return ok && strings.HasPrefix(rel, "objects/")
}

// get returns what the plan has at a path, nil for nothing.
func (p *Plan) get(at string) (*file, error) {
	if f, ok := p.at[at]; ok {
		return f, nil
	}
	n, err := p.now(at)
	if n == nil {
		return nil, err
	}
	return p.file(n), nil
}

// now returns what is at a path at present, nil for nothing.
func (p *Plan) now(at string) (*tree.Inode, error) {
	n, ok := p.found[at]
	if ok {
		return n, nil
	}
	n, err := p.Now.Resolve(p.Source, at)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || errors.Is(err, tree.ErrSymlink) {
		n, err = nil, nil
	}
	p.found[at] = n
	return n, err
}

// file returns the file of a present inode.
func (p *Plan) file(n *tree.Inode) *file {
	f, ok := p.here[n.Ino]
	if !ok {
		f = &file{node: n, view: p.NowView, ino: n.Ino, present: n}
		p.here[n.Ino] = f
	}
	return f
}

// set puts a file at a path, or nothing.
func (p *Plan) set(at string, f *file) {
	p.at[at] = f
	if f != nil && !slices.Contains(f.names, at) {
		f.names = append(f.names, at)
		p.in[path.Dir(at)] = append(p.in[path.Dir(at)], path.Base(at))
	}
}

// put makes a path what it was before the interval, if there is a directory for it.
func (t *taking) put(at string, n *tree.Inode) error {
	if free, err := t.parents(at); err != nil || !free {
		return err
	}
	f := &file{node: n, view: t.OlderView, ino: n.Ino}
	if other := t.was[n.Ino]; other == nil || n.IsDir() {
		t.was[n.Ino] = f
	}
	t.set(at, f)
	return nil
}

// parents makes the directories above a path that are not there any more. It reports
// whether there is a directory for the path.
func (t *taking) parents(at string) (bool, error) {
	for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
		f, err := t.get(dir)
		if err != nil || f != nil {
			return err == nil && f.node.IsDir(), err
		}
		n, err := t.Older.Resolve(t.Source, dir)
		if err != nil {
			return false, err
		}
		if err := t.put(dir, n); err != nil {
			return false, err
		}
	}
	return true, nil
}

// known returns the file that an inode of the past is in the plan, with its names there. It
// is nil if there is none.
func (p *Plan) known(ino uint64) (*file, []string, error) {
	f := p.was[ino]
	if f == nil {
		n, err := p.Now.Get(p.Source, ino)
		if errors.Is(err, tree.ErrNoInode) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		f = p.file(n)
	}
	if f.ino != ino || f.node.IsDir() {
		return nil, nil, nil
	}
	names, err := p.namesOf(f)
	if len(names) == 0 {
		f = nil
	}
	return f, names, err
}

// namesOf returns the paths of a file in the plan, in order.
func (p *Plan) namesOf(f *file) ([]string, error) {
	all := slices.Clone(f.names)
	if f.present != nil {
		paths, err := p.Now.Paths(p.Source, f.present)
		if err != nil {
			return nil, err
		}
		all = append(all, paths...)
	}
	slices.Sort(all)
	var names []string
	for _, at := range slices.Compact(all) {
		if g, err := p.get(at); err != nil {
			return nil, err
		} else if g == f {
			names = append(names, at)
		}
	}
	return names, nil
}

// empty reports whether the plan has nothing in a directory.
func (p *Plan) empty(at string, dir *file) (bool, error) {
	for _, name := range p.in[at] {
		if p.at[path.Join(at, name)] != nil {
			return false, nil
		}
	}
	if dir.present == nil {
		return true, nil
	}
	empty := true
	err := dir.present.Dir.List(p.Source, 0, func(e tree.Dirent, _ uint64) bool {
		f, touched := p.at[path.Join(at, e.Name)]
		empty = touched && f == nil
		return empty
	})
	return empty, err
}

func (p *Plan) same(f *file, n *tree.Inode) (bool, error) {
	if f.node == n {
		return true, nil
	}
	return tree.SameFile(p.Source, f.node, n)
}
