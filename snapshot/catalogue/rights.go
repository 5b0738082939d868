package catalogue

import (
	"fmt"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
)

// mayDelete refuses what the policy protects.
func (w *Workspace) mayDelete(sn *Snapshot, by actors.Caller, now time.Time) error {
	if sn.View == w.Base {
		return errs.New(errs.Protected, "protected: base cannot be deleted")
	}
	if sn.Pinned {
		return errs.New(errs.Busy, "busy: snapshot %q is pinned; unpin it first: `amberfs unpin %s`", sn.Name, sn.Name)
	}
	if err := w.mayRename(by); err != nil {
		return err
	}
	if !w.oldEnough(sn, by, now) {
		return errs.New(errs.Protected, "protected: snapshot %q is younger than the %s that the policy requires", sn.Name, w.minAge())
	}
	return nil
}

func (w *Workspace) minAge() time.Duration {
	return time.Duration(w.Policy.MinAgeSeconds) * time.Second
}

func (w *Workspace) oldEnough(sn *Snapshot, by actors.Caller, now time.Time) bool {
	return by.UID == 0 || now.Sub(sn.Created) >= w.minAge()
}

// mayEnd refuses the end of a fork with snapshots while the policy of w, the parent,
// protects them. The fork began as a snapshot, nil if that is gone. Pins in the fork, the fork's policy and new snapshots do
// not count: otherwise a process in the fork could keep it forever.
func (w *Workspace) mayEnd(f *Workspace, began *Snapshot, by actors.Caller, now time.Time) error {
	if f.Snapshots.Len() == 0 {
		return nil
	}
	if err := w.mayRename(by); err != nil {
		return fmt.Errorf("fork %s cannot be deleted: %w", f.Name, err)
	}
	if began != nil && !w.oldEnough(began, by, now) {
		return errs.New(errs.Protected, "protected: fork %s has snapshots and is younger than the %s that the policy requires", f.Name, w.minAge())
	}
	return nil
}

func (w *Workspace) mayRename(by actors.Caller) error {
	if w.Policy.Protect && !by.Direct {
		return errs.New(errs.Protected, "protected: the policy forbids deleting and renaming snapshots through the mount; use the command line")
	}
	switch w.Policy.Delete {
	case "nobody":
		return errs.New(errs.Protected, "protected: the policy forbids deleting and renaming snapshots; the owner can change it in .snapshots/policy")
	case "owner":
		if !by.OwnsStore() {
			return errs.New(errs.Protected, "protected: the policy allows only the owner to delete and rename snapshots")
		}
	}
	return nil
}

// MayCompact refuses a name in use for one snapshot of several, and what may not be deleted.
func (c *Catalogue) MayCompact(w *Workspace, name string, snaps []*Snapshot, by actors.Caller, now time.Time) error {
	if err := w.Alive(); err != nil {
		return err
	}
	if w.Snapshots.Named(name) != nil {
		return errs.New(errs.Exist, "snapshot %q exists", name)
	}
	for _, sn := range snaps {
		if c.Snapshots[sn.View] != sn {
			return RemovedMeanwhile(sn.Info)
		}
		if err := w.mayDelete(sn, by, now); err != nil && !sn.Pinned {
			return err
		}
	}
	return nil
}

// mayCapture refuses a manual snapshot over the limit.
func (w *Workspace) mayCapture(kind string) error {
	if kind != info.KindManual || w.Policy.ManualLimit == 0 {
		return nil
	}
	n := 0
	for _, sn := range w.Snapshots.All() {
		if sn.Kind == info.KindManual {
			n++
		}
	}
	if n >= w.Policy.ManualLimit {
		return errs.New(errs.Quota, "limit reached: the policy allows %d manual snapshots; delete one first", w.Policy.ManualLimit)
	}
	return nil
}

// HasRoomForActors reports whether a workspace may have one more snapshot that is taken between
// two actors: half of those that a fork may have are for the others.
func (c *Catalogue) HasRoomForActors(w *Workspace) bool {
	if !w.Fork {
		return true
	}
	limit := c.Parent(c.Uppermost(w)).Policy.Forks.Snapshots
	return limit <= 0 || w.Snapshots.Len() < limit/2
}

// hasRoom reports whether a fork of main, with the forks in it, may have one more
// snapshot or fork, with so many bytes of text, by what the policy of main allows each.
func (c *Catalogue) hasRoom(w *Workspace, text int64) error {
	if !w.Fork {
		return nil
	}
	upper := c.Uppermost(w)
	limits := c.Parent(upper).Policy.Forks
	n, count := -1, limits.TextBytes > 0 && text > 0
	upper.Family(func(f *Workspace) {
		n += 1 + f.Snapshots.Len()
		if !count {
			return
		}
		for _, sn := range f.Snapshots.All() {
			if sn.Text == 0 {
				sn.Text = textOf(sn.Message, sn.Labels)
			}
			text += sn.Text
		}
	})
	if limits.Snapshots > 0 && n >= limits.Snapshots {
		return errs.New(errs.Quota, "limit reached: a fork can have %d snapshots and forks; delete one first", limits.Snapshots)
	}
	if count && text > limits.TextBytes {
		return errs.New(errs.Quota, "limit reached: messages and labels of a fork can have %d bytes; delete a snapshot first", limits.TextBytes)
	}
	return nil
}

// textOf counts the bytes of a message and of labels, as they are rendered.
func textOf(message string, labels map[string]string) int64 {
	n := gitquote.JSONLen(message)
	for k, v := range labels {
		n += gitquote.JSONLen(k) + gitquote.JSONLen(v)
	}
	return int64(n)
}
