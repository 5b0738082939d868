package snapshot

import (
	"fmt"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// End removes a fork. Its last state becomes a snapshot of this
// workspace, whose Info is returned.
func (fs Forks) End(name string, c actors.Caller) (info.Info, error) {
	return fs.end(name, c, func(tx *live.Tx, f *catalogue.Workspace) (*catalogue.EndFork, error) {
		if err := fs.w.store.cat.MayEnd(fs.w.ws, f, c, fs.w.store.opt.Now()); err != nil {
			return nil, err
		}
		return fs.keepLast(tx, f, c)
	})
}

// Discard removes a fork and the forks in it without a snapshot. The policy of this workspace
// alone decides whether that is allowed, so a program in the fork cannot prevent it.
func (fs Forks) Discard(name string, c actors.Caller) error {
	_, err := fs.end(name, c, func(_ *live.Tx, f *catalogue.Workspace) (*catalogue.EndFork, error) {
		return fs.w.store.cat.NewDiscard(fs.w.ws, f, c, fs.w.store.opt.Now())
	})
	return err
}

// expire ends the forks whose time is over. It returns when the next fork expires, or next if that
// is earlier. A fork with forks of its own ends after them, or with them if it is discarded.
func (fs Forks) expire(now, next time.Time) (time.Time, error) {
	var over []string
	fs.w.read(func() {
		for name, f := range fs.w.ws.Forks {
			switch {
			case f.Expires == nil:
			case now.After(*f.Expires) && (f.Discard || len(f.Forks) == 0):
				over = append(over, name)
			case !f.Expires.Before(now) && f.Expires.Before(next):
				next = *f.Expires
			}
		}
	})
	for _, name := range over {
		_, err := fs.end(name, actors.Caller{}, func(tx *live.Tx, f *catalogue.Workspace) (*catalogue.EndFork, error) {
			if f.Expires == nil || !now.After(*f.Expires) || !f.Discard && len(f.Forks) > 0 {
				return nil, errs.New(errs.Busy, "busy: fork %q was claimed or forked again", name)
			}
			return fs.keepLast(tx, f, actors.Caller{})
		})
		if err != nil {
			return next, fmt.Errorf("deleting the expired fork %s: %w", name, err)
		}
	}
	return next, nil
}

// end ends a fork as a record says.
func (fs Forks) end(name string, c actors.Caller, record func(*live.Tx, *catalogue.Workspace) (*catalogue.EndFork, error)) (info.Info, error) {
	s := fs.w.store
	var r *catalogue.EndFork
	err := s.forest.Update(true, func(tx *live.Tx) error {
		f, err := fs.w.ws.ForkNamed(name)
		if err != nil {
			return err
		}
		if r, err = record(tx, f); err != nil {
			return err
		}
		return s.commit(tx, r, c)
	})
	if err != nil {
		return info.Info{}, err
	}
	var last info.Info
	if r.Last != nil {
		last = r.Last.Seen()
		s.event(events.Event{Workspace: fs.w.ws.View, Action: "captured", From: last.Name}, c)
	}
	s.event(events.Event{Workspace: fs.w.ws.View, Action: "fork-deleted", From: name, Detail: last.Name}, c)
	for _, view := range append(r.Inside, r.View) {
		s.event(events.Event{Workspace: view, Action: "ended"}, c)
	}
	return last, nil
}

// keepLast is the record of the end of a fork of which the last state is kept, unless the fork was
// made to be discarded. The lock is held.
func (fs Forks) keepLast(tx *live.Tx, f *catalogue.Workspace, c actors.Caller) (*catalogue.EndFork, error) {
	last := CaptureOptions{Caller: c}.describe(fs.w.store.opt.Now())
	return fs.w.store.cat.NewEnd(fs.w.ws, tx, f, fs.fullState(f), last)
}

// fullState is the bookmark of a fork; nil if it has none, or one without files.
func (fs Forks) fullState(f *catalogue.Workspace) *catalogue.Snapshot {
	sn, ok := fs.w.store.cat.Snapshots[f.Before]
	if !ok || sn.Files == 0 {
		return nil
	}
	if _, err := sn.Tree(fs.w.store.src); err != nil {
		fs.w.store.logger.Warn("what a fork was before it was emptied cannot be kept", "fork", f.Name, "err", err)
		return nil
	}
	return sn
}

// Bookmark remembers a fork's present state in place of the one remembered
// before. It is called when something begins to be removed in a fork, since
// `rm -rf .forks/NAME` empties the fork before its last rmdir ends it: End
// then keeps the bookmark beside the last state. It costs as much as a capture,
// but is in no list, and not sealed unless a checkpoint comes.
func (w *Workspace) Bookmark() error {
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		r, err := w.ws.NewBookmark(tx, s.opt.Now())
		if err != nil {
			return err
		}
		return s.commit(tx, r, actors.Caller{})
	})
}
