package snapshot

import (
	"fmt"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// End removes a fork. Its last state becomes a snapshot of this
// workspace, whose Info is returned.
func (fs Forks) End(name string, c actors.Caller) (Info, error) {
	return fs.end(name, c, func(f *Workspace) error {
		if len(f.forks) > 0 {
			return errs.New(errs.Busy, "busy: fork %q has forks of its own; delete those first", name)
		}
		return fs.mayEnd(f, c)
	}, fs.lastStates)
}

// Discard removes a fork, with the forks in it, and keeps nothing of them. So a process that
// has the fork cannot keep it: what may end is up to the policy of this workspace alone.
func (fs Forks) Discard(name string, c actors.Caller) error {
	_, err := fs.end(name, c, func(f *Workspace) (err error) {
		f.family(func(in *Workspace) {
			if err == nil {
				err = fs.mayEnd(in, c)
			}
		})
		return err
	}, func(_ *live.Tx, f *Workspace, _ actors.Caller, r *endForkRecord) error {
		f.family(func(in *Workspace) {
			if in != f {
				r.Inside = append(r.Inside, in.rec.View)
			}
		})
		slices.Reverse(r.Inside)
		return nil
	})
	return err
}

// expire ends the forks whose time is over, and returns when that of another one is, if it
// is before next. One with forks of its own goes on until they have ended.
func (fs Forks) expire(now, next time.Time) (time.Time, error) {
	var over []string
	fs.w.read(func() {
		for name, f := range fs.w.forks {
			switch {
			case f.rec.Expires == nil:
			case now.After(*f.rec.Expires) && len(f.forks) == 0:
				over = append(over, name)
			case f.rec.Expires.After(now) && f.rec.Expires.Before(next):
				next = *f.rec.Expires
			}
		}
	})
	for _, name := range over {
		still := func(f *Workspace) error {
			if f.rec.Expires == nil || !now.After(*f.rec.Expires) || len(f.forks) > 0 {
				return errs.New(errs.Busy, "busy: fork %q was claimed or forked again", name)
			}
			return nil
		}
		if _, err := fs.end(name, actors.Caller{}, still, fs.lastStates); err != nil {
			return next, fmt.Errorf("deleting the expired fork %s: %w", name, err)
		}
	}
	return next, nil
}

// end ends a fork if may does not refuse it. keep fills in what is left of it.
func (fs Forks) end(name string, c actors.Caller, may func(f *Workspace) error,
	keep func(*live.Tx, *Workspace, actors.Caller, *endForkRecord) error,
) (Info, error) {
	s := fs.w.store
	var r endForkRecord
	err := s.forest.Update(true, func(tx *live.Tx) error {
		f, err := fs.named(name)
		if err != nil {
			return err
		}
		if err := may(f); err != nil {
			return err
		}
		r = endForkRecord{View: f.rec.View}
		if err := keep(tx, f, c, &r); err != nil {
			return err
		}
		return s.commit(tx, recEndFork, &r)
	})
	if err != nil {
		return Info{}, err
	}
	var last Info
	if r.Last != nil {
		last = r.Last.Seen()
		s.event(Event{Workspace: fs.w.rec.View, Action: "captured", From: last.Name}, c)
	}
	s.event(Event{Workspace: fs.w.rec.View, Action: "fork-deleted", From: name, Detail: last.Name}, c)
	for _, view := range append(r.Inside, r.View) {
		s.event(Event{Workspace: view, Action: "ended"}, c)
	}
	return last, nil
}

// lastStates keeps the last state of a fork, and what it was before it was emptied,
// as `rm -rf` does. No limit keeps a fork from ending. The lock is held.
func (fs Forks) lastStates(tx *live.Tx, f *Workspace, c actors.Caller, r *endForkRecord) error {
	st := f.present(tx)
	left := func(name, message string, files, bytes int64) (*storedSnapshot, error) {
		sn, err := fs.w.Snapshots().describe(tx, CaptureOptions{Name: fs.freeName(name), Kind: KindFork, Message: message, Caller: c})
		sn.Dir = f.rec.Dir
		sn.Files, sn.Bytes, sn.Actors = files, bytes, f.Snapshots().allChanges(tx).Names
		return &sn, err
	}
	var err error
	if r.Last, err = left(f.rec.Name, "last state of fork "+f.rec.Name, st.Inodes-1, st.Bytes); err != nil {
		return err
	}
	full := fs.fullState(f)
	if st.Inodes > 1 || full == nil {
		r.Last.Claim = f.rec.Claim
		return nil
	}
	if r.Full, err = left(f.rec.Name+"-before", "fork "+f.rec.Name+" before it was emptied", full.Files, full.Bytes); err != nil {
		return err
	}
	r.Full.Claim = f.rec.Claim
	r.Last.Seq++
	return nil
}

// fullState is the bookmark of a fork, nil if there is none with files in it.
func (fs Forks) fullState(f *Workspace) *snap {
	sn, ok := fs.w.store.cat.snaps[f.rec.Before]
	if !ok || sn.Files == 0 {
		return nil
	}
	if _, err := sn.Tree(fs.w.store.src); err != nil {
		fs.w.store.logger.Warn("what a fork was before it was emptied cannot be kept", "fork", f.rec.Name, "err", err)
		return nil
	}
	return sn
}

// freeName is the fork's name if no snapshot has it, or one made from it.
func (fs Forks) freeName(name string) string {
	free := name
	for i := 2; ; i++ {
		if fs.w.snaps.Named(free) == nil && naming.Check(free) == nil {
			return free
		}
		free = fmt.Sprintf("%.100s-%d", name, i)
	}
}

type endForkRecord struct {
	View uint32          `json:"view"`
	Last *storedSnapshot `json:"last"`
	// Full is the bookmark of a fork that was emptied before it was ended.
	Full *storedSnapshot `json:"full,omitempty"`
	// Inside are the forks in it, which end before it; each after those in it.
	Inside []uint32 `json:"inside,omitempty"`
}

func (r *endForkRecord) apply(c *entries, tx *live.Tx) error {
	for _, view := range r.Inside {
		if err := (&endForkRecord{View: view}).apply(c, tx); err != nil {
			return err
		}
	}
	f, ok := c.workspaces[r.View]
	if !ok {
		return nil
	}
	if err := c.keepOfFork(tx, f, r); err != nil {
		return err
	}
	gone := c.withOrigin(f)
	if sn, ok := c.snaps[f.rec.Before]; ok {
		gone = append(gone, sn)
	}
	c.remove(gone...)
	tx.DropView(f.rec.View)
	delete(c.workspaces, f.rec.View)
	c.ckpt.removed(f.rec.View)
	if parent := c.parent(f); parent != nil {
		delete(parent.forks, f.rec.Name)
	}
	c.dirty[catalogue.Key(catalogue.Workspaces, f.rec.View)] = f.rec.View
	c.gc.Removed()
	return nil
}

// keepOfFork makes snapshots of the parent of what is left of a fork.
func (c *entries) keepOfFork(tx *live.Tx, f *Workspace, r *endForkRecord) error {
	changes := f.Snapshots().allChanges(tx)
	if full, ok := c.snaps[f.rec.Before]; ok && r.Full != nil {
		was, err := full.Tree(c.src)
		if err != nil {
			return err
		}
		if err := c.keepState(tx, *r.Full, was, changes); err != nil {
			return err
		}
	}
	if r.Last == nil {
		return nil
	}
	return c.keepState(tx, *r.Last, f.freeze(tx), changes)
}

// Bookmark remembers a fork's present state in place of the one remembered
// before. It is called when something begins to be removed in a fork, since
// `rm -rf .forks/NAME` empties the fork before its last rmdir ends it: End
// then keeps the bookmark beside the last state. It costs as much as a capture,
// but is in no list, and not sealed unless a checkpoint comes.
func (w *Workspace) Bookmark() error {
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		view, err := tx.NewView()
		if err != nil {
			return err
		}
		r := storedSnapshot{View: view, WS: w.rec.View, Info: Info{Name: "before", Kind: KindAuto, Created: s.opt.Now()}}
		st := w.present(tx)
		r.Files, r.Bytes = st.Inodes-1, st.Bytes
		return s.commit(tx, recBookmark, &bookmarkRecord{r})
	})
}

type bookmarkRecord struct{ storedSnapshot }

func (r *bookmarkRecord) apply(c *entries, tx *live.Tx) error {
	w, ok := c.workspaces[r.WS]
	if !ok {
		return nil
	}
	if old, ok := c.snaps[w.rec.Before]; ok {
		c.remove(old)
	}
	w.rec.Before = r.View
	return c.keepState(tx, r.storedSnapshot, w.freeze(tx), actors.Changes{})
}
