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

// End removes a fork. The last state of the fork becomes a snapshot of this workspace. End returns the description
// of the snapshot.
func (fs Forks) End(name string, c actors.Caller) (info.Info, error) {
	last, _, err := fs.removeFork(name, false, false, c)
	return last, err
}

// Discard removes a fork and the forks in it, without snapshots of their last states. Only the
// policy of this workspace can forbid it, so a program in the fork cannot prevent it.
func (fs Forks) Discard(name string, c actors.Caller) error {
	_, _, err := fs.removeFork(name, true, false, c)
	return err
}

// Remove ends a fork for a user, as End does or, if discard is set, as Discard does. The user can undo this until
// the returned time, which is zero if the end cannot be undone.
func (fs Forks) Remove(name string, discard bool, c actors.Caller) (last info.Info, until time.Time, err error) {
	return fs.removeFork(name, discard, true, c)
}

func (fs Forks) removeFork(name string, discard, keepForUndo bool, c actors.Caller) (last info.Info, until time.Time, err error) {
	s := fs.w.store
	return fs.endFork(name, keepForUndo, c, func(tx *live.Tx, f *catalogue.Workspace) (*catalogue.EndFork, error) {
		if discard {
			return catalogue.NewDiscard(s.cat, fs.w.ws, f, c, s.opt.Now())
		}
		if err := s.cat.CheckEnd(fs.w.ws, f, c, s.opt.Now()); err != nil {
			return nil, err
		}
		return fs.newEndRecord(tx, f, c)
	})
}

// endExpired ends the forks that have expired. It returns the earlier of next and the time at which the next fork
// expires. A fork that contains forks ends after these forks. A fork with the option Discard does not wait: the
// forks in it end with it.
func (fs Forks) endExpired(now, next time.Time) (time.Time, error) {
	var expired []string
	fs.w.withReadLock(func() {
		for f := range fs.w.ws.Forks() {
			switch {
			case f.Expires == nil:
			case now.After(*f.Expires) && (f.Discard || f.ForkCount() == 0):
				expired = append(expired, f.Name)
			case !f.Expires.Before(now) && f.Expires.Before(next):
				next = *f.Expires
			}
		}
	})

	for _, name := range expired {
		_, _, err := fs.endFork(name, false, actors.Caller{}, func(tx *live.Tx, f *catalogue.Workspace) (*catalogue.EndFork, error) {
			if f.Expires == nil || !now.After(*f.Expires) || !f.Discard && f.ForkCount() > 0 {
				return nil, errs.New(errs.Busy, "busy: fork %q was claimed or forked again", name)
			}
			return fs.newEndRecord(tx, f, actors.Caller{})
		})
		if err != nil {
			return next, fmt.Errorf("deleting the expired fork %s: %w", name, err)
		}
	}

	return next, nil
}

// endFork commits the record that newRecord makes for a fork. It returns the snapshot of the fork's last state, or
// a zero Info if the record has none. With keepForUndo set, the end is an operation of a user, which can be undone
// until the returned time.
func (fs Forks) endFork(name string, keepForUndo bool, c actors.Caller, newRecord func(*live.Tx, *catalogue.Workspace) (*catalogue.EndFork, error)) (last info.Info, until time.Time, err error) {
	s := fs.w.store
	var r *catalogue.EndFork
	err = s.commitNewRecord(c, func(tx *live.Tx) (catalogue.Record, error) {
		f, err := fs.w.ws.ForkNamed(name)
		if err != nil {
			return nil, err
		}
		if r, err = newRecord(tx, f); err != nil {
			return nil, err
		}
		if keepForUndo {
			r.Op = fs.w.Ops().newOp(catalogue.OpEndFork, name, c)
			if s.cat.MayKeep(fs.w.ws, nil, f) {
				r.Op.Kept, until = []uint32{f.View}, fs.w.Ops().undoDeadline(r.Op)
			}
			if r.LastState != nil {
				r.Op.ResultView = r.LastState.View
			}
		}

		return r, nil
	})
	if err != nil {
		return last, time.Time{}, err
	}

	if r.LastState != nil {
		last = r.LastState.UserInfo()
		s.Hooks.emit(events.Event{Workspace: fs.w.ws.View, Action: "captured", From: last.Name}, c)
	}

	s.Hooks.emit(events.Event{Workspace: fs.w.ws.View, Action: "fork-deleted", From: name, Detail: last.Name}, c)
	return last, until, nil
}

// newEndRecord returns the record that ends a fork and makes a snapshot of its last state, except
// for a fork with the option Discard. The caller holds the lock of the forest.
func (fs Forks) newEndRecord(tx *live.Tx, f *catalogue.Workspace, c actors.Caller) (*catalogue.EndFork, error) {
	last := CaptureOptions{Caller: c}.describe(fs.w.store.opt.Now())
	return catalogue.NewEnd(fs.w.store.cat, fs.w.ws, tx, f, fs.usableBookmark(f), last)
}

// usableBookmark returns the bookmark of a fork. It returns nil if the fork has no bookmark, or the bookmark has
// no files or cannot be read.
func (fs Forks) usableBookmark(f *catalogue.Workspace) *catalogue.Snapshot {
	sn := fs.w.store.cat.Snapshots.At(f.BookmarkView)
	if sn == nil || sn.Files == 0 {
		return nil
	}

	if _, err := sn.Tree(fs.w.store.src); err != nil {
		fs.w.store.logger.Warn("what a fork was before it was emptied cannot be kept", "fork", f.Name, "err", err)
		return nil
	}

	return sn
}

// Bookmark captures the present state of a fork as its bookmark, and drops the fork's former bookmark. The mount
// calls it before the first of several removals, because `rm -rf .forks/NAME` empties the fork before its last
// rmdir ends the fork. End then makes a snapshot of the bookmark, too. A bookmark needs as much space as a
// snapshot, but no list contains it. Only a checkpoint seals it.
func (w *Workspace) Bookmark() error {
	s := w.store
	return s.commitNewRecord(actors.Caller{}, func(tx *live.Tx) (catalogue.Record, error) { return w.ws.NewBookmark(tx, s.opt.Now()) })
}
