package forget

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Rewriter makes trees without the contents that the user forgets. It reads each page of inode tables and each
// file only once, even if many trees contain it.
type Rewriter struct {
	Source  *tree.Source
	Objects content.ObjectStore
	Epoch   func() uint64 // returns an epoch that is used only for one new tree
	Paths   []string      // files and directories to remove
	Search  *Search       // contents to remove or to overwrite; may be nil

	// RemovedChunks are the chunks of removed files, and the old chunks of partly overwritten files.
	// OverwrittenTexts are the overwritten bytes, and MaskedPaths the paths of the partly overwritten files.
	RemovedChunks    map[cas.Hash]bool
	OverwrittenTexts map[string]bool
	MaskedPaths      map[string]bool

	finder   tree.Finder
	verdicts map[string]*verdict // by content.ChunkMap.Key
}

// A verdict is the decision to remove a content, or to replace it by maskedContent.
type verdict struct {
	remove        bool
	maskedContent *content.Content  // the content with stars in place of the matches; nil if the content is removed
	removedChunks map[cas.Hash]bool // the chunks of the content that maskedContent does not contain
}

// Rewrite returns a copy of a sealed state without the contents, and the changed paths. If no path changes,
// the returned state is nil.
func (r *Rewriter) Rewrite(ctx context.Context, st *tree.State) (*tree.State, []string, error) {
	if r.RemovedChunks == nil {
		r.RemovedChunks, r.OverwrittenTexts, r.verdicts = make(map[cas.Hash]bool), make(map[string]bool), make(map[string]*verdict)
		r.MaskedPaths = make(map[string]bool)
		r.finder = tree.Finder{Source: r.Source, Match: func(n *tree.Inode) (bool, error) {
			v, err := r.verdictFor(ctx, n)
			return v != nil, err
		}}
	}

	run := &rewriteRun{Rewriter: r, ctx: ctx, changedPaths: make(map[string]bool)}
	run.editor = tree.Editor{State: st.Clone(), Source: r.Source, Epoch: r.Epoch()}

	for _, p := range r.Paths {
		if err := run.removePath(p); err != nil {
			return nil, nil, err
		}
	}

	if r.Search != nil {
		if err := run.searchFiles(st); err != nil {
			return nil, nil, err
		}
	}
	if len(run.changedPaths) == 0 {
		return nil, nil, nil
	}

	return run.editor.State, slices.Sorted(maps.Keys(run.changedPaths)), run.editor.Err()
}

// A rewriteRun is one call of Rewrite.
type rewriteRun struct {
	*Rewriter
	ctx          context.Context
	editor       tree.Editor
	changedPaths map[string]bool
}

// removePath removes a file, or a directory with all files and directories below it.
func (r *rewriteRun) removePath(p string) error {
	n, err := r.editor.State.InodeAt(r.Source, p)
	if err != nil || n == nil {
		return err
	}

	dir, err := r.editor.State.Resolve(r.Source, path.Dir(p))
	if err != nil {
		return err
	}

	if err := r.editor.State.Walk(r.ctx, r.Source, tree.WalkOptions{Paths: []string{p}}, func(at *tree.Path, n *tree.Inode) error {
		if !n.IsDir() || at.String() == p {
			r.changedPaths[at.String()] = true
		}
		return nil
	}); err != nil {
		return err
	}

	return r.removeLink(tree.Link{Parent: dir.Ino, Name: path.Base(p)})
}

// removeLink removes a name, with all files and directories below it. The times of the name's directory stay.
func (r *rewriteRun) removeLink(at tree.Link) error {
	dir := r.editor.Own(at.Parent)
	mtime, ctime := dir.Mtime, dir.Ctime

	var errAll error
	r.editor.RemoveAll(at.Parent, at.Name, func(_ uint64, _ string, n *tree.Inode, _ bool) {
		errAll = errors.Join(errAll, r.addRemoved(n.Content)) // the file may have other hard links that stay: Receipt.Kept lists them
	})
	dir.Mtime, dir.Ctime = mtime, ctime

	return errors.Join(errAll, r.editor.Err())
}

// addRemoved adds the chunks of a content to RemovedChunks.
func (r *Rewriter) addRemoved(c *content.Content) error {
	return eachChunk(r.Source, c, func(h cas.Hash) { r.RemovedChunks[h] = true })
}

func eachChunk(src *tree.Source, c *content.Content, fn func(cas.Hash)) error {
	return c.EachObject(src.Files, func(h cas.Hash, isList bool) (bool, error) {
		if !isList {
			fn(h)
		}
		return isList, nil
	})
}

// searchFiles removes and overwrites the files of a state that the search finds.
func (r *rewriteRun) searchFiles(st *tree.State) error {
	inos, err := r.finder.FindIn(r.ctx, st)
	if err != nil {
		return err
	}

	for _, ino := range inos {
		n, err := r.editor.State.Find(r.Source, ino)
		if err != nil {
			return err
		}
		if n == nil {
			continue // removePath has removed it
		}

		v, err := r.verdictFor(r.ctx, n)
		if err != nil {
			return err
		}

		paths, err := r.editor.State.Paths(r.Source, n)
		if err != nil {
			return err
		}
		for _, p := range paths {
			r.changedPaths[p] = true
			r.MaskedPaths[p] = r.MaskedPaths[p] || !v.remove
		}

		maps.Copy(r.RemovedChunks, v.removedChunks)
		if !v.remove {
			r.editor.Own(ino).Content = v.maskedContent
			continue
		}

		for _, l := range slices.Clone(n.Links) {
			if err := r.removeLink(l); err != nil {
				return err
			}
		}
	}

	return r.editor.Err()
}

// verdictFor returns the verdict for the content of an inode, or nil if the content stays. It reads each content
// once.
func (r *Rewriter) verdictFor(ctx context.Context, n *tree.Inode) (*verdict, error) {
	if !n.IsRegular() || n.Content == nil || n.Content.SealedMap() == nil {
		return nil, nil
	}

	key := n.Content.SealedMap().Key()
	v, known := r.verdicts[key]
	if known {
		return v, nil
	}

	found, err := r.Search.searchFile(ctx, n.Content.Reader(r.Source.Files), n.Content.Size())
	if err != nil {
		return nil, err
	}

	if found.wholeFile || len(found.parts) > 0 {
		if v, err = r.newVerdict(ctx, n.Content, found); err != nil {
			return nil, err
		}
	}

	r.verdicts[key] = v
	return v, nil
}

func (r *Rewriter) newVerdict(ctx context.Context, c *content.Content, result searchResult) (*verdict, error) {
	v := &verdict{remove: result.wholeFile, removedChunks: make(map[cas.Hash]bool)}
	maps.Copy(r.OverwrittenTexts, result.texts)
	if err := eachChunk(r.Source, c, func(h cas.Hash) { v.removedChunks[h] = true }); err != nil || v.remove {
		return v, err
	}

	masked, err := content.FromReader(ctx, &content.Sealer{Src: r.Source.Files, Objects: r.Objects, FindHoles: true},
		&masker{r: c.Reader(r.Source.Files), parts: result.parts})
	if err != nil {
		return nil, err
	}

	v.maskedContent = content.FromChunkMap(masked)
	return v, eachChunk(r.Source, v.maskedContent, func(h cas.Hash) { delete(v.removedChunks, h) })
}
