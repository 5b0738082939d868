package snapshot

import (
	"context"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// An editRecord says what a restore, a merge or an import did to a workspace: the steps
// that were made, or the state that they led to.
type editRecord struct {
	WS  uint32         `json:"ws"`
	Pre storedSnapshot `json:"pre"` // the state before; without a name there is none
	// Post is the state after, of an import of an image or an undo of an actor.
	Post  storedSnapshot `json:"post,omitzero"`
	after *afterEdit

	Steps []graft.Span `json:"steps,omitempty"` // where they are in the journal
	Now   int64        `json:"now,omitempty"`   // the time of the steps
	Depth int          `json:"depth,omitempty"` // of the workspace from then on

	State   string `json:"state,omitempty"` // the id of the workspace's state from then on
	NextIno uint64 `json:"next_ino,omitempty"`

	// Actors is the set of the actors that changed what the edit changed.
	Actors []byte `json:"actors,omitempty"`

	// Restored is the view of the snapshot that the whole workspace was restored to.
	Restored uint32 `json:"restored,omitempty"`

	// Dir is the state of the directory that a refresh brought in.
	Dir string `json:"dir,omitempty"`
}

// maxActors is how many bytes the set of a record has. Beyond it each actor of the edit
// changed everything.
const maxActors = 4 << 20

// afterEdit describes the snapshot of the state after an edit.
type afterEdit struct {
	CaptureOptions
	undoes *catalogue.Undone
}

// A change is a restore or a merge of which the steps are known.
type change struct {
	w        *Workspace
	edit     *live.Edit // nil for a dry run
	steps    []graft.Step
	graft    live.Graft
	stored   bool           // contents of the steps were put into the chunk store
	restored uint32         // see editRecord
	dir      string         // the same
	before   CaptureOptions // the snapshot of the state before
	after    *afterEdit     // that of the state after, nil for none
	check    func() error   // asked with the lock held
}

// outcome is what a change has done, or would do.
type outcome struct {
	Changes
	conflicts []string
	inv       live.Invalidation
	steps     []graft.Step
	after     string // the snapshot of the state after
}

// make journals the steps and makes them.
func (c change) make(ctx context.Context) (out outcome, err error) {
	s := c.w.store
	out.steps = c.steps
	out.Changed, out.Paths, out.More = graft.Listed(c.steps)
	if len(c.steps) == 0 && c.dir == "" || c.edit == nil {
		return out, nil
	}
	if c.stored {
		if err := s.cas.Commit(); err != nil {
			return out, err
		}
	}
	r := editRecord{WS: c.w.rec.View, Now: c.graft.Now, Restored: c.restored, Dir: c.dir, after: c.after}
	if err := s.graft(ctx, c.edit, &r, c.steps, c.graft); err != nil {
		return out, err
	}
	// The undo point stays as it is when only times of directories differ.
	inv, err := s.commitEdit(c.w, c.edit, &r, out.Changed > 0, c.before, c.check)
	if err == nil {
		out.inv, out.Undo, out.after = inv, r.Pre.Name, r.Post.Name
	}
	return out, err
}

// report passes on to the kernel and the log what a change did: the capture before it, and each
// path that it changed.
func (o *outcome) report(w *Workspace, from string, c actors.Caller) {
	w.store.tell(o.inv)
	if o.Undo == "" {
		return
	}
	w.store.event(Event{Workspace: w.rec.View, Action: "captured", From: o.Undo}, c)
	for i := range o.steps {
		if step := &o.steps[i]; !graft.Trivial(step) {
			p := graft.PathChangeOf(*step)
			w.store.event(Event{Workspace: w.rec.View, Action: "restored", Path: p.Path, From: from, Size: step.Size, Detail: p.Action}, c)
		}
	}
	if o.after != "" {
		w.store.event(Event{Workspace: w.rec.View, Action: "captured", From: o.after}, c)
	}
}

// graft makes steps in the edited workspace of a record, and fills the record in. If
// there are very many, the state that they lead to is sealed, which takes less memory
// than the steps. The caller is in gc.Puts.
func (s *Store) graft(ctx context.Context, e *live.Edit, r *editRecord, all []graft.Step, g live.Graft) error {
	g.Record = true
	if len(all) > s.opt.ManyChanges || r.Dir != "" { // recovery could not find the contents of the directory
		g.Record, g.Seal = false, s.sealsEdit(ctx, r)
	}
	if err := e.Graft(ctx, all, g); err != nil {
		if r.State != "" {
			s.Abandon()
		}
		return err
	}
	return s.grafted(e, r)
}

// grafted fills the record of an edit in, and returns when all that it refers to but for
// the journal is on disk.
func (s *Store) grafted(e *live.Edit, r *editRecord) error {
	r.Steps, r.Depth, r.Actors = e.Steps(), e.Depth(), e.Actors().Encode()
	if len(r.Actors) > maxActors {
		var rest actors.Set
		for _, by := range e.Actors().Actors() {
			rest.AddRest(by)
		}
		r.Actors = rest.Encode()
	}
	if r.State == "" {
		return nil
	}
	r.NextIno = e.Next()
	return s.cas.Commit()
}

// sealsEdit returns what seals the states of an edit for its record, which has the id of
// the last one. The caller is in gc.Puts.
func (s *Store) sealsEdit(ctx context.Context, r *editRecord) func(*tree.State) error {
	return func(st *tree.State) error {
		id, err := s.seal.To(ctx, s.cas, st)
		r.State = id.String()
		return err
	}
}

// commitEdit journals an edit and puts it in place, if check allows it with the lock held.
// With undo the state before is captured as before describes it.
func (s *Store) commitEdit(w *Workspace, e *live.Edit, r *editRecord, undo bool, before CaptureOptions, check func() error) (inv live.Invalidation, err error) {
	err = s.forest.Update(false, func(tx *live.Tx) error {
		if err := errors.Join(w.alive(), check()); err != nil {
			return err
		}
		if undo {
			before.Kind = KindPreRestore
			if r.Pre, err = w.Snapshots().newSnapshot(tx, before); err != nil {
				return err
			}
		}
		if undo && r.after != nil {
			r.after.Caller = before.Caller
			if r.Post, err = w.Snapshots().newSnapshot(tx, r.after.CaptureOptions); err != nil {
				return err
			}
			r.Post.Seq, r.Post.Parent, r.Post.Actors = r.Pre.Seq+1, r.Pre.Name, e.Actors().Actors()
			r.Post.Name = fmt.Sprintf("cp-%d", r.Post.Seq)
			if r.Post.Undoes = r.after.undoes; r.Post.Undoes != nil {
				r.Post.Undoes.From = r.Pre.View
			}
		}
		if err := s.journal(tx, recEdit, r); err != nil {
			return err
		}
		inv, err = s.cat.finishEdit(tx, w, e, r)
		return err
	})
	if err != nil && r.State != "" {
		s.Abandon()
	}
	return inv, err
}

// apply is for recovery.
func (r *editRecord) apply(c *entries, tx *live.Tx) error {
	w, ok := c.workspaces[r.WS]
	if !ok {
		return fmt.Errorf("%w: a change of a deleted fork", ErrNoFork)
	}
	e, err := tx.Edit(r.WS)
	if err != nil {
		return err
	}
	if r.State == "" {
		err = e.Redo(r.Steps, r.Now, r.Depth)
	} else {
		err = c.loadEdit(e, r)
	}
	if err != nil {
		return err
	}
	if len(r.Actors) > 0 {
		set, err := actors.Decode(r.Actors)
		if err != nil {
			return err
		}
		e.SetActors(set)
	}
	_, err = c.finishEdit(tx, w, e, r)
	return err
}

func (c *entries) loadEdit(e *live.Edit, r *editRecord) error {
	h, err := cas.ParseHash(r.State)
	if err != nil {
		return err
	}
	st, err := tree.Load(c.src, h)
	if err == nil {
		e.Sealed(st, r.NextIno)
	}
	return err
}

// finishEdit captures the state before, and puts the edited one in place.
func (c *entries) finishEdit(tx *live.Tx, w *Workspace, e *live.Edit, r *editRecord) (live.Invalidation, error) {
	if r.Pre.Name != "" {
		if err := (&captureRecord{r.Pre}).apply(c, tx); err != nil {
			return live.Invalidation{}, err
		}
		w.rec.Undo = r.Pre.View
	}
	if c.ckpt.changes.Add(int64(e.Changes)) >= checkpointRecords {
		c.ckpt.Ask()
	}
	inv := tx.Apply(e)
	st := w.freeze(tx)
	c.journalRoots = append(c.journalRoots, catalogue.Root{State: st})
	if r.Post.Name != "" {
		r.Post.Files, r.Post.Bytes = st.Inodes-1, st.Bytes
		if err := (&captureRecord{r.Post}).apply(c, tx); err != nil {
			return inv, err
		}
	}
	if r.Dir != "" {
		h, err := cas.ParseHash(r.Dir)
		if err != nil {
			return inv, err
		}
		w.rec.Dir = r.Dir
		c.journalRoots = append(c.journalRoots, catalogue.Root{ID: h})
	}
	if sn, ok := c.snaps[r.Restored]; ok && r.Restored != 0 {
		w.rec.Head, w.rec.Dir = sn.Name, sn.Dir
		w.Snapshots().keepRestored(sn.View, st)
	}
	return inv, nil
}
