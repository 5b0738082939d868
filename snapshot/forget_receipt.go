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
	if f.o.Remotes {
		copies = "copies outside of this store and its remotes: what was pulled, exported, applied or copied"
	}

	f.receipt = forget.Receipt{At: f.w.store.opt.Now(), Actor: f.o.Caller.Actor, DryRun: f.o.DryRun, Snapshots: []forget.Rewritten{}, Cannot: []string{copies}}
	gone := f.rewrite.Gone
	f.listPlaces()

	used, err := f.w.store.Forgotten().uses(ctx, gone, &f.receipt.Kept, func(n namedTree) *tree.State {
		t := f.trees[n.id]
		if n.snapshot == "" {
			t = f.now[n.view]
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

	gone = maps.Clone(gone)
	maps.DeleteFunc(gone, func(h cas.Hash, _ bool) bool { return used[h] })
	prints, bytes, err := forget.Prints(gone, f.rewrite.Texts, func(h cas.Hash) ([]byte, error) { return f.w.store.objects.Get(h, nil) })
	if err != nil {
		return h, err
	}

	if f.receipt.Objects, f.receipt.Bytes = len(gone), bytes; f.o.DryRun {
		return h, nil
	}

	b, err := json.Marshal(forget.Stored{Receipt: f.receipt, Prints: prints})
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
	f.w.store.withReadLock(func(*live.Tx) {
		chosen, _ := f.chosen()
		places := newPlaces(&f.receipt.Removed)

		for _, sn := range chosen {
			t := f.trees[sn.ID]
			if t == nil || t.state == nil {
				continue
			}
			at := nameOf(f.w.store.cat, sn.WS)
			f.receipt.Snapshots = append(f.receipt.Snapshots, forget.Rewritten{Workspace: at, Name: sn.Name, Was: sn.ID, ID: t.id})
			for _, commit := range sn.GitCommits {
				f.receipt.Cannot = append(f.receipt.Cannot, fmt.Sprintf("git commit %s in other repositories, which snapshot %s was exported as", commit, sn.Name))
			}
			if sn.Image != nil {
				f.receipt.Cannot = append(f.receipt.Cannot, fmt.Sprintf("the layers of image %s, which snapshot %s was imported from", sn.Image.Ref, sn.Name))
			}
			for _, p := range t.paths {
				places.add(at, p, sn.Name)
			}
		}

		f.namedPresent(func(at string, t *rewrittenTree) {
			for _, p := range t.paths {
				places.add(at, p, "")
			}
		})
	})

	for i := range f.receipt.Removed {
		f.receipt.Removed[i].Masked = f.rewrite.Masked[f.receipt.Removed[i].Path]
	}
}

// nameOf returns the name of a workspace. The caller holds the lock of the forest.
func nameOf(cat *catalogue.Catalogue, view uint32) string {
	if w := cat.Workspaces.At(view); w != nil {
		return w.Name
	}
	return ""
}

// uses returns the chunks that files use, and adds these files to the list. rewritten returns the tree that
// replaces a tree, or nil.
func (f Forgotten) uses(ctx context.Context, chunks map[cas.Hash]bool, list *[]forget.Place, rewritten func(namedTree) *tree.State) (map[cas.Hash]bool, error) {
	var all []namedTree
	err := f.parts.Forest.Update(true, func(tx *live.Tx) error {
		for _, w := range f.parts.Catalogue.Workspaces.All() {
			all = append(all, namedTree{at: w.Name, view: w.View, state: w.Freeze(tx)})
		}
		for _, sn := range f.parts.Catalogue.InOrder() {
			all = append(all, namedTree{at: nameOf(f.parts.Catalogue, sn.WS), snapshot: sn.Name, id: sn.ID, state: sn.State.Load()})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	u := &forget.User{Source: f.parts.Source, Chunks: chunks, Used: make(map[cas.Hash]bool)}
	places := newPlaces(list)

	for _, n := range all {
		if st := rewritten(n); st != nil {
			n.state = st
		} else if n.id != "" {
			if n.state, err = loadTree(f.parts.Source, n.id); err != nil {
				return nil, err
			}
		}

		paths, err := u.Uses(ctx, n.state)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			places.add(n.at, p, n.snapshot)
		}
	}

	return u.Used, nil
}

// A namedTree is the tree of a snapshot or, without a name, the present state of a workspace.
type namedTree struct {
	at, snapshot, id string
	view             uint32 // for a present state
	state            *tree.State
}

// places collects paths in a list.
type places struct {
	list *[]forget.Place
	at   map[[2]string]int
}

func newPlaces(list *[]forget.Place) places { return places{list, make(map[[2]string]int)} }

// add adds a path in a snapshot, or in the present state for "".
func (p places) add(workspace, path, snapshot string) {
	key := [2]string{workspace, path}
	i, known := p.at[key]
	if !known {
		i = len(*p.list)
		p.at[key] = i
		*p.list = append(*p.list, forget.Place{Path: path, Workspace: workspace})
	}

	if at := &(*p.list)[i]; snapshot == "" {
		at.Now = true
	} else {
		at.Snapshots = append(at.Snapshots, snapshot)
	}
}
