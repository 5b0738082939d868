package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// writeReceipt fills the receipt, and stores it unless this is a dry run.
func (f *forgetRun) writeReceipt(ctx context.Context) (h cas.Hash, err error) {
	copies := "copies outside of this store: what was pushed, pulled, exported, applied or copied"
	if f.options.Remotes {
		copies = "copies outside of this store and its remotes: what was pulled, exported, applied or copied"
	}

	f.receipt = forget.Receipt{At: f.w.store.opt.Now(), Actor: f.options.Caller.Actor, DryRun: f.options.DryRun, Snapshots: []forget.Rewritten{}, Unremovable: []string{copies}}
	removed := f.rewriter.RemovedChunks
	f.listPlaces()

	used, err := f.w.store.ForgottenContents().usedChunks(ctx, removed, &f.receipt.Kept, func(n namedTree) *tree.State {
		t := f.rewrittenTrees[n.id]
		if n.snapshot == "" {
			t = f.searchedPresent[n.view]
		}
		if t == nil {
			return nil
		}
		return t.state
	})
	if err != nil {
		return h, err
	}
	if len(f.receipt.Removed) == 0 {
		return h, errs.New(errs.NotExist, "no snapshot has these contents; nothing was forgotten")
	}

	removed = maps.Clone(removed)
	maps.DeleteFunc(removed, func(h cas.Hash, _ bool) bool { return used[h] })
	prints, bytes, err := forget.Fingerprints(removed, f.rewriter.OverwrittenTexts, func(h cas.Hash) ([]byte, error) { return f.w.store.objects.Get(h, nil) })
	if err != nil {
		return h, err
	}

	if f.receipt.Objects, f.receipt.Bytes = len(removed), bytes; f.options.DryRun {
		return h, nil
	}

	b, err := json.Marshal(forget.StoredReceipt{Receipt: f.receipt, Fingerprints: prints})
	if err != nil {
		return h, err
	}
	if len(b) > cas.MaxObject {
		return h, errs.New(errs.TooBig, "this is too much to forget at once; name fewer paths")
	}

	return f.w.store.cas.Put(cas.KindTree, b)
}

// listPlaces lists in the receipt the paths and snapshots from which contents were removed.
func (f *forgetRun) listPlaces() {
	f.w.store.forest.WithReadLock(func(*live.Tx) {
		chosen, _ := f.chosenSnapshots()
		places := newPlaceList(&f.receipt.Removed)

		for _, sn := range chosen {
			t := f.rewrittenTrees[sn.ID]
			if t == nil || t.state == nil {
				continue
			}
			workspace := workspaceName(f.w.store.cat, sn.WS)
			f.receipt.Snapshots = append(f.receipt.Snapshots, forget.Rewritten{Workspace: workspace, Name: sn.Name, OldID: sn.ID, ID: t.id})
			for _, commit := range sn.GitCommits {
				f.receipt.Unremovable = append(f.receipt.Unremovable, fmt.Sprintf("git commit %s in other repositories, which snapshot %s was exported as", commit, sn.Name))
			}
			if sn.Image != nil {
				f.receipt.Unremovable = append(f.receipt.Unremovable, fmt.Sprintf("the layers of image %s, which snapshot %s was imported from", sn.Image.Ref, sn.Name))
			}
			for _, p := range t.paths {
				places.add(workspace, p, sn.Name)
			}
		}

		f.eachRewrittenPresent(func(workspace string, t *rewrittenTree) {
			for _, p := range t.paths {
				places.add(workspace, p, "")
			}
		})
	})

	for i := range f.receipt.Removed {
		f.receipt.Removed[i].Masked = f.rewriter.MaskedPaths[f.receipt.Removed[i].Path]
	}
}

// workspaceName returns the name of a workspace. The caller holds the lock of the forest.
func workspaceName(cat *catalogue.Catalogue, view uint32) string {
	if w := cat.Workspaces.At(view); w != nil {
		return w.Name
	}
	return ""
}

// usedChunks returns the subset of chunks that files use, and adds these files to users. For each tree it calls
// rewritten, which returns the new tree if the tree is replaced, else nil.
func (f ForgottenContents) usedChunks(ctx context.Context, chunks map[cas.Hash]bool, users *[]forget.Place, rewritten func(namedTree) *tree.State) (map[cas.Hash]bool, error) {
	var all []namedTree
	err := f.parts.Forest.Update(true, func(tx *live.Tx) error {
		for _, w := range f.parts.Catalogue.Workspaces.All() {
			all = append(all, namedTree{workspace: w.Name, view: w.View, state: tx.Freeze(w.View)})
		}
		for _, sn := range f.parts.Catalogue.InOrder() {
			all = append(all, namedTree{workspace: workspaceName(f.parts.Catalogue, sn.WS), snapshot: sn.Name, id: sn.ID, state: sn.State.Load()})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	u := &forget.ChunkFinder{Source: f.parts.Source, Chunks: chunks, FoundChunks: make(map[cas.Hash]bool)}
	places := newPlaceList(users)

	for _, n := range all {
		if st := rewritten(n); st != nil {
			n.state = st
		} else if n.id != "" {
			if n.state, err = loadTree(f.parts.Source, n.id); err != nil {
				return nil, err
			}
		}

		paths, err := u.Find(ctx, n.state)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			places.add(n.workspace, p, n.snapshot)
		}
	}

	return u.FoundChunks, nil
}

// A namedTree is the tree of a snapshot or, without a name, the present state of a workspace.
type namedTree struct {
	workspace, snapshot, id string
	view                    uint32 // for a present state
	state                   *tree.State
}

// A placeList collects the paths of files in list, with the snapshots that contain them.
type placeList struct {
	list    *[]forget.Place
	indexes map[[2]string]int
}

func newPlaceList(list *[]forget.Place) placeList { return placeList{list, make(map[[2]string]int)} }

// add adds a path of a snapshot. With an empty snapshot, it adds a path of the present state.
func (p placeList) add(workspace, path, snapshot string) {
	key := [2]string{workspace, path}
	i, known := p.indexes[key]
	if !known {
		i = len(*p.list)
		p.indexes[key] = i
		*p.list = append(*p.list, forget.Place{Path: path, Workspace: workspace})
	}

	if at := &(*p.list)[i]; snapshot == "" {
		at.InPresent = true
	} else {
		at.Snapshots = append(at.Snapshots, snapshot)
	}
}
