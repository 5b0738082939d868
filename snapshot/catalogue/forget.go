package catalogue

import (
	"maps"
	"slices"
	"time"

	"github.com/amberfs/amberfs/cas"
)

// ForgottenKey is the key of Catalogue.Forgotten in the metadata of the chunk store.
const ForgottenKey = "forgotten"

// A ForgottenEntry describes contents that a user removed from snapshots.
type ForgottenEntry struct {
	Number uint64    `json:"number"` // from 1
	Time   time.Time `json:"at"`
	Actor  string    `json:"actor,omitempty"`
	UID    uint32    `json:"uid"`
	// Receipt is the object that lists the removed contents, see package forget.
	Receipt cas.Hash `json:"receipt"`
	// Erased is set when the bytes of the contents were overwritten on the disk.
	Erased bool `json:"erased,omitempty"`
}

// A RewrittenSnapshot describes a snapshot whose tree is replaced.
type RewrittenSnapshot struct {
	View  uint32 `json:"view"`
	OldID string `json:"was"` // the id of the replaced tree
	ID    string `json:"id"`
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
}

// Forget is a record that replaces the trees of snapshots by trees without the contents that a user forgets. The
// snapshots keep their names, numbers and times, and lose the ids of the git commits to which they were exported.
// The record adds an entry to Catalogue.Forgotten, or replaces the entry with the same number.
type Forget struct {
	Forgotten ForgottenEntry      `json:"forgotten"`
	Snapshots []RewrittenSnapshot `json:"snapshots,omitempty"`
	// Trees maps old to new ids of the trees to which WorkspaceRecord.DirState and operations refer.
	Trees map[string]string `json:"trees,omitempty"`
	// Edits remove the contents from present states: always from ended forks that an undo can restore, and from
	// workspaces if the user requests it.
	Edits []Edit `json:"edits,omitempty"`
}

func (*Forget) Type() Type { return TypeForget }

// NextForgottenNumber returns the number of the next ForgottenEntry.
func (c *Catalogue) NextForgottenNumber() uint64 {
	if len(c.Forgotten) == 0 {
		return 1
	}
	return c.Forgotten[len(c.Forgotten)-1].Number + 1
}

// TreeIDs returns the ids of the trees to which DirState fields and operations refer, each once.
func (c *Catalogue) TreeIDs() (ids []string) {
	c.eachTreeID(func(id *string) bool {
		ids = append(ids, *id)
		return false
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

// eachTreeID calls fn with the id of each tree to which a DirState field or an operation refers. fn may change
// the id, and reports whether it did.
func (c *Catalogue) eachTreeID(fn func(id *string) (changed bool)) {
	call := func(ids ...*string) (changed bool) {
		for _, id := range ids {
			changed = *id != "" && fn(id) || changed
		}
		return changed
	}

	for _, w := range c.Workspaces.All() {
		changed := call(&w.DirState)
		for i := range w.Ops {
			if apply := w.Ops[i].Apply; apply != nil {
				a := *apply
				changed = call(&a.Dir, &a.Before, &a.After, &a.AppliedState) || changed
				w.Ops[i].Apply = &a
			}
		}
		if changed {
			c.TouchWorkspace(w)
		}
	}

	for _, sn := range c.Snapshots.All() {
		if call(&sn.DirState) {
			c.TouchSnapshot(sn.View)
		}
	}
}

func (r *Forget) apply(a *applyRun) error {
	for i := range r.Edits {
		if err := a.editForgotten(&r.Edits[i]); err != nil {
			return err
		}
	}

	for i := range r.Snapshots {
		if err := a.replaceTree(&r.Snapshots[i]); err != nil {
			return err
		}
	}

	if len(r.Trees) > 0 {
		a.HasGarbage = true
		for _, w := range a.cat.Workspaces.All() {
			w.restoreResults = nil
		}
		a.cat.eachTreeID(func(id *string) bool {
			now, changed := r.Trees[*id]
			if changed {
				*id = now
			}
			return changed
		})
	}

	a.cat.setForgotten(r.Forgotten)
	return a.addRoots(slices.Collect(maps.Values(r.Trees))...)
}

// editForgotten replaces the present state of a workspace. In a fork that has ended no process can read
// files, so its state is replaced directly, without the steps of an edit.
func (a *applyRun) editForgotten(r *Edit) error {
	w := a.cat.Workspaces.At(r.WS)
	if w == nil {
		return nil
	}
	if w.Ended == 0 {
		return r.apply(a)
	}

	st, _, err := a.loadPushed(r.State)
	if err != nil {
		return err
	}

	sets := a.trees.ActorSets(w.View)
	a.trees.AddView(w.View, st)
	a.trees.AddActorSets(w.View, sets)
	a.trees.SetViewEnded(w.View, true)
	a.cat.TouchWorkspace(w)

	return nil
}

func (c *Catalogue) setForgotten(f ForgottenEntry) {
	c.Unwritten.keys[ForgottenKey] = 0
	for i := range c.Forgotten {
		if c.Forgotten[i].Number == f.Number {
			c.Forgotten[i] = f
			return
		}
	}
	c.Forgotten = append(c.Forgotten, f)
}

// replaceTree replaces the tree of a snapshot. If the snapshot has no id yet, which happens in recovery, it gets
// its id when the new tree is sealed.
func (a *applyRun) replaceTree(r *RewrittenSnapshot) error {
	sn := a.cat.Snapshots.At(r.View)
	if sn == nil {
		return nil
	}

	h, err := cas.ParseHash(r.ID)
	if err != nil {
		return err
	}

	if !a.cat.IsHidden(sn) {
		a.cat.Bytes.Subtract(sn.Bytes)
		a.cat.Bytes.Add(r.Bytes)
	}
	sn.Files, sn.Bytes, sn.Hash = r.Files, r.Bytes, h
	if !slices.Contains(sn.FormerIDs, r.OldID) {
		sn.FormerIDs = append(slices.Clone(sn.FormerIDs), r.OldID)
	}

	sn.GitCommits = nil
	sn.State.Store(nil)
	if sn.Sealed {
		sn.ID = r.ID
	} else if _, err := a.trees.Tree(sn); err != nil {
		return err
	}

	a.cat.TouchSnapshot(sn.View)

	return nil
}
