package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ForgetOptions are the arguments of Forget: either Paths, or Content, or Match and Secrets.
type ForgetOptions struct {
	Paths   []naming.BytePath `json:"paths,omitempty" jsonschema:"files and directories, relative to the workspace"`
	Content []byte            `json:"content,omitempty" jsonschema:"the bytes of a file, in base64: equal files are removed, and these bytes in other files are overwritten"`
	Match   []string          `json:"match,omitempty" jsonschema:"regular expressions; what they match in a line, or their first group, is overwritten"`
	Secrets bool              `json:"secrets,omitempty" jsonschema:"overwrite keys and passwords of well-known forms"`
	In      []string          `json:"in,omitempty" jsonschema:"only in these snapshots of the workspace: NAME, NAME.. or NAME..NAME; all snapshots of the store if empty"`
	Now     bool              `json:"now,omitempty" jsonschema:"also in the present states of all workspaces"`
	Remotes bool              `json:"remotes,omitempty" jsonschema:"also on all remotes; without contents, what was forgotten before is removed there"`
	DryRun  bool              `json:"dry_run,omitempty" jsonschema:"change nothing, and return what would be removed"`
	Caller  actors.Caller     `json:"-"`
	Prune   PruneExports      `json:"-"` // may be nil
}

// Forget removes contents from the snapshots of the store, and erases their bytes. Package forget explains the
// steps. If no tree has the contents, the error is of the kind errs.NotExist.
func (w *Workspace) Forget(ctx context.Context, o ForgetOptions) (*forget.Receipt, error) {
	s := w.store
	f := &forgetRun{w: w, options: o, rewrittenTrees: make(map[string]*rewrittenTree), searchedPresent: make(map[uint32]*rewrittenTree)}
	defer f.endEdits()

	if err := f.checkOptions(); err != nil {
		return nil, err
	}

	done := s.BeginImport() // gc waits until the new trees are referenced
	defer func() { done() }()

	if err := s.Checkpoint(ctx); err != nil {
		return nil, err
	}
	if err := f.run(ctx); err != nil {
		return &f.receipt, err
	}
	if o.DryRun {
		if o.Prune == nil {
			return &f.receipt, nil
		}
		var err error
		f.receipt.Refs, err = o.Prune(ctx, s.ForgottenContents().gitCommits(f.rewrittenTrees), true)
		return &f.receipt, err
	}

	f.endEdits()
	f.notify()
	s.Hooks.emit(events.Event{Workspace: w.ws.View, Action: "forgot", From: fmt.Sprint(f.receipt.Number)}, o.Caller)
	done()
	done = func() {}

	if err := s.Sync(); err != nil {
		return &f.receipt, err
	}

	refs, erased, err := s.ForgottenContents().erase(ctx, o.Prune)
	f.receipt.Refs, f.receipt.Erased = refs, erased && err == nil
	if !f.receipt.Erased {
		f.receipt.Unremovable = append(f.receipt.Unremovable, "the bytes are still on the disk, because a program reads them or has the file open: the next `amberfs gc`, or start of the daemon, erases them")
	}

	return &f.receipt, err
}

// A forgetRun is one call of Forget.
type forgetRun struct {
	w               *Workspace
	options         ForgetOptions
	rewriter        forget.Rewriter
	rewrittenTrees  map[string]*rewrittenTree // by the id that the tree had before
	searchedPresent map[uint32]*rewrittenTree // the present states that were searched, by view
	edits           []*change                 // prepared edits of present states
	staleEdits      []*change                 // see dropStaleEdits
	endedForkEdits  []catalogue.Edit          // edits of forks that have ended
	receipt         forget.Receipt
}

// A rewrittenTree is the result of removing the contents from a tree.
type rewrittenTree struct {
	state *tree.State // nil: the tree does not have the contents
	id    string
	paths []string
}

func (f *forgetRun) checkOptions() (err error) {
	r := &f.rewriter
	r.Source, r.Objects, r.Epoch = f.w.store.src, f.w.store.cas, f.w.store.forest.Counters.Epoch
	if r.Paths, err = naming.CleanPaths(f.options.Paths); err != nil {
		return err
	}

	patterns := f.options.Match
	if f.options.Secrets {
		patterns = append(slices.Clone(patterns), forget.SecretPatterns...)
	}

	kinds := 0
	for _, given := range []bool{len(r.Paths) > 0, len(f.options.Content) > 0, len(patterns) > 0} {
		if given {
			kinds++
		}
	}
	if kinds != 1 || len(r.Paths) < len(f.options.Paths) {
		return errs.New(errs.Invalid, "malformed request: forget takes paths below the root, or the content of a file, or patterns")
	}
	if len(f.options.Content) > forget.MaxSearchBytes {
		return errs.New(errs.TooBig, "the content has %d bytes, at most %d are possible", len(f.options.Content), forget.MaxSearchBytes)
	}
	if len(f.options.Content) > 0 && len(bytes.Trim(f.options.Content, "\x00")) == 0 {
		return errs.New(errs.Invalid, "malformed request: the content has zero bytes only")
	}
	if len(r.Paths) > 0 {
		return nil
	}

	r.Search = &forget.Search{Bytes: f.options.Content, PrivateKeys: f.options.Secrets}
	for _, p := range patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return errs.New(errs.Invalid, "malformed request: %w", err)
		}
		r.Search.Patterns = append(r.Search.Patterns, re)
	}

	return nil
}

// run rewrites all trees and commits the record. It repeats this if snapshots were taken during the rewriting.
func (f *forgetRun) run(ctx context.Context) error {
	for {
		var unsealed []*catalogue.Snapshot
		var missing []string
		var present []*Workspace
		var err error
		f.w.store.forest.WithReadLock(func(*live.Tx) {
			unsealed, missing, err = f.remainingTrees()
			present = f.unsearchedWorkspaces()
		})
		if err != nil {
			return err
		}

		for _, sn := range unsealed {
			if err := f.w.store.sealer.EnsureSealed(ctx, sn); err != nil {
				return fmt.Errorf("snapshot %s: %w", sn.Name, err)
			}
		}
		for _, id := range missing {
			if err := f.rewriteTree(ctx, id); err != nil {
				return err
			}
		}
		if len(unsealed)+len(missing) > 0 {
			continue
		}

		for _, w := range present { // present states are last, because their rewriting blocks changes
			if err := f.rewritePresent(ctx, w); err != nil {
				return err
			}
		}

		stored, err := f.writeReceipt(ctx)
		if err != nil || f.options.DryRun {
			return err
		}
		if mustRepeat, err := f.commit(stored); !mustRepeat || err != nil {
			return err
		}
	}
}

// remainingTrees returns the chosen snapshots without an id, and the ids of the trees that were not rewritten yet.
// The caller holds the lock of the forest.
func (f *forgetRun) remainingTrees() (unsealed []*catalogue.Snapshot, ids []string, err error) {
	chosen, err := f.chosenSnapshots()
	if err != nil {
		return nil, nil, err
	}

	for _, sn := range chosen {
		if sn.Sealed {
			ids = append(ids, sn.ID)
		} else {
			unsealed = append(unsealed, sn)
		}
	}

	if len(f.options.In) == 0 {
		ids = append(ids, f.w.store.cat.TreeIDs()...)
	}

	return unsealed, slices.DeleteFunc(ids, func(id string) bool { return f.rewrittenTrees[id] != nil }), nil
}

// chosenSnapshots returns the snapshots that ForgetOptions.In names or, if In is empty, all snapshots, oldest first
// in each workspace. The caller holds the lock of the forest.
func (f *forgetRun) chosenSnapshots() (all []*catalogue.Snapshot, err error) {
	for _, in := range f.options.In {
		from, to, open := strings.Cut(in, "..")
		first, err := f.w.store.cat.Find(f.w.ws, from)
		if err != nil {
			return nil, err
		}

		last := first
		if open {
			if last, err = f.w.store.cat.Find(f.w.ws, cmp.Or(to, "latest")); err != nil {
				return nil, err
			}
		}

		for _, sn := range f.w.store.cat.SnapshotsWithBase(f.w.ws) {
			if sn == first || sn.Seq > first.Seq && sn.Seq <= last.Seq {
				all = append(all, sn)
			}
		}
	}
	if len(f.options.In) > 0 {
		return all, nil
	}

	return f.w.store.cat.InOrder(), nil
}

// rewriteTree rewrites a sealed tree, and seals the result.
func (f *forgetRun) rewriteTree(ctx context.Context, id string) error {
	st, err := loadTree(f.w.store.src, id)
	if err != nil {
		return err
	}

	t := &rewrittenTree{}
	if t.state, t.paths, err = f.rewriter.Rewrite(ctx, st); err != nil {
		return err
	}

	if f.rewrittenTrees[id] = t; t.state == nil || f.options.DryRun {
		return nil
	}

	h, err := f.w.store.sealer.SealInTurn(ctx, f.w.ws.View, t.state)
	t.id = h.String()
	return err
}

func loadTree(src *tree.Source, id string) (*tree.State, error) {
	h, err := cas.ParseHash(id)
	if err != nil {
		return nil, err
	}
	return tree.Load(src, h)
}

// commit writes the record. If new snapshots or workspaces exist that were not searched yet, it writes no record,
// and mustRepeat is true.
func (f *forgetRun) commit(receipt cas.Hash) (mustRepeat bool, err error) {
	if err := f.w.store.cas.Commit(); err != nil {
		return false, err
	}

	err = f.w.store.forest.Update(len(f.edits) == 0, func(tx *live.Tx) error {
		f.dropStaleEdits()
		unsealed, ids, err := f.remainingTrees()
		if mustRepeat = len(unsealed)+len(ids)+len(f.unsearchedWorkspaces()) > 0; mustRepeat || err != nil {
			return err
		}

		chosen, err := f.chosenSnapshots()
		if err != nil {
			return err
		}

		r := &catalogue.Forget{Trees: make(map[string]string), Forgotten: catalogue.ForgottenEntry{
			Number: f.w.store.cat.NextForgottenNumber(), Time: f.receipt.At, Actor: f.options.Caller.Actor, UID: f.options.Caller.UID, Receipt: receipt,
		}}
		f.receipt.Number = r.Forgotten.Number

		for _, sn := range chosen {
			if t := f.rewrittenTrees[sn.ID]; t.state != nil {
				r.Snapshots = append(r.Snapshots, catalogue.RewrittenSnapshot{View: sn.View, OldID: sn.ID, ID: t.id, Files: t.state.Inodes - 1, Bytes: t.state.Bytes})
			}
		}

		for id, t := range f.rewrittenTrees {
			if t.state != nil {
				r.Trees[id] = t.id
			}
		}
		if len(f.options.In) > 0 {
			r.Trees = nil
		}

		var t *applier
		t, r.Edits = f.presentEdits(tx)
		if err := t.commit(r, f.options.Caller); err != nil {
			return err
		}

		for i, c := range f.edits {
			c.invalidation = t.invalidations[i]
		}
		return nil
	})
	if mustRepeat || err != nil {
		return mustRepeat, err
	}

	for _, c := range f.edits {
		f.w.store.Hooks.notifyReplaced(&c.invalidation)
	}

	return false, nil
}

// notify makes the kernel drop its cached data of the rewritten snapshots and present states.
func (f *forgetRun) notify() {
	for _, c := range f.edits {
		f.w.store.Hooks.notifyKernel(f.w.store.forest, c.invalidation)
	}

	var held []*catalogue.Snapshot
	f.w.store.forest.WithReadLock(func(*live.Tx) {
		for _, sn := range f.w.store.cat.Snapshots.Loaded() { // these include all that have earlier ids
			if len(sn.FormerIDs) > 0 && f.rewrittenTrees[sn.FormerIDs[len(sn.FormerIDs)-1]] != nil && f.w.store.forest.Takeover.IsHeld(live.Node(sn.View, live.RootIno)) {
				held = append(held, sn)
			}
		}
	})

	for _, sn := range held {
		id := sn.FormerIDs[len(sn.FormerIDs)-1]
		st, err := loadTree(f.w.store.src, id)
		if err != nil {
			continue // if the old tree cannot be read, the kernel keeps its cached data until the unmount
		}
		inv := f.invalidation(sn.View, st, f.rewrittenTrees[id])
		f.w.store.Hooks.notifyReplaced(&inv)
		f.w.store.Hooks.notifyKernel(f.w.store.forest, inv)
	}
}

// invalidation lists the changes that the rewriting t made in a view. before is the state of the view before the
// rewriting.
func (f *forgetRun) invalidation(view uint32, before *tree.State, t *rewrittenTree) (inv live.Invalidation) {
	for _, p := range t.paths {
		dir, name, _ := splitPath(p)
		parent, err := before.InodeAt(f.w.store.src, dir)
		n, nerr := before.InodeAt(f.w.store.src, p)
		if err != nil || nerr != nil || parent == nil || n == nil {
			continue
		}

		node := live.Node(view, n.Ino)
		inv.Inodes = append(inv.Inodes, node)
		if _, err := t.state.Get(f.w.store.src, n.Ino); err != nil {
			parentNode := live.Node(view, parent.Ino)
			inv.Inodes = append(inv.Inodes, parentNode)
			inv.Entries = append(inv.Entries, live.Entry{Parent: parentNode, Name: name, OldNode: node, WasDir: n.IsDir(), HeldNode: node})
		}
	}
	return inv
}

// splitPath splits a path into the path of its directory and its name. found is false for a path without a slash.
func splitPath(p string) (dir, name string, found bool) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:], true
	}
	return "", p, false
}
