package catalogue

import (
	"fmt"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
)

// checkDelete returns an error if the caller may not delete a snapshot.
func (w *Workspace) checkDelete(sn *Snapshot, caller actors.Caller, now time.Time) error {
	if sn.View == w.Base {
		return errs.New(errs.Protected, "protected: base cannot be deleted")
	}
	if sn.Pinned {
		return errs.New(errs.Busy, "busy: snapshot %q is pinned; unpin it first: `amberfs unpin %s`", sn.Name, sn.Name)
	}
	if err := w.checkRenameAndDelete(caller); err != nil {
		return err
	}
	if !w.isOldEnough(sn, caller, now) {
		return errs.New(errs.Protected, "protected: snapshot %q is younger than the %s that the policy requires", sn.Name, w.minAge())
	}

	return nil
}

func (w *Workspace) minAge() time.Duration {
	return time.Duration(w.Policy.MinAgeSeconds) * time.Second
}

// isOldEnough reports whether a snapshot has the least age at which the policy allows a deletion. The
// policy does not bind root.
func (w *Workspace) isOldEnough(sn *Snapshot, caller actors.Caller, now time.Time) bool {
	return caller.UID == 0 || now.Sub(sn.Created) >= w.minAge()
}

// checkEnd returns an error if f, a fork of w, has snapshots and the policy of w forbids its end. base is
// the base of f, nil if the base was removed. Pins in f, the policy of f and the age of its snapshots have
// no effect: otherwise a process in the fork could keep the fork forever.
func (w *Workspace) checkEnd(f *Workspace, base *Snapshot, caller actors.Caller, now time.Time) error {
	if f.Snapshots.Len() == 0 {
		return nil
	}
	if err := w.checkRenameAndDelete(caller); err != nil {
		return fmt.Errorf("fork %s cannot be deleted: %w", f.Name, err)
	}
	if base != nil && !w.isOldEnough(base, caller, now) {
		return errs.New(errs.Protected, "protected: fork %s has snapshots and is younger than the %s that the policy requires", f.Name, w.minAge())
	}

	return nil
}

// checkRenameAndDelete returns an error if the policy forbids the caller to rename and delete snapshots.
func (w *Workspace) checkRenameAndDelete(caller actors.Caller) error {
	if w.Policy.Protect && !caller.ViaSocket {
		return errs.New(errs.Protected, "protected: the policy forbids deleting and renaming snapshots through the mount; use the command line")
	}

	switch w.Policy.Delete {
	case "nobody":
		return errs.New(errs.Protected, "protected: the policy forbids deleting and renaming snapshots; the owner can change it in .snapshots/policy")
	case "owner":
		if !caller.OwnsStore() {
			return errs.New(errs.Protected, "protected: the policy allows only the owner to delete and rename snapshots")
		}
	}

	return nil
}

// CheckCompact returns an error if snaps may not be compacted into a snapshot with the given name: because
// the name is in use, or because one of snaps was deleted or may not be deleted. Pinned snapshots are
// allowed, because a compaction does not delete them.
func (c *Catalogue) CheckCompact(w *Workspace, name string, snaps []*Snapshot, caller actors.Caller, now time.Time) error {
	if err := w.CheckAlive(); err != nil {
		return err
	}
	if w.Snapshots.Named(name) != nil {
		return errs.New(errs.Exist, "snapshot %q exists", name)
	}

	for _, sn := range snaps {
		if c.Snapshots.At(sn.View) != sn {
			return DeletedError(sn.Info)
		}
		if err := w.checkDelete(sn, caller, now); err != nil && !sn.Pinned {
			return err
		}
	}

	return nil
}

// checkManualLimit returns an error if one more manual snapshot is over the limit of the policy.
func (w *Workspace) checkManualLimit(kind string) error {
	if kind != info.KindManual || w.Policy.ManualLimit == 0 {
		return nil
	}
	n := 0
	for i := range w.Snapshots.rows {
		if w.Snapshots.info(&w.Snapshots.rows[i]).Kind == info.KindManual {
			n++
		}
	}
	if n >= w.Policy.ManualLimit {
		return errs.New(errs.Quota, "limit reached: the policy allows %d manual snapshots; delete one first", w.Policy.ManualLimit)
	}

	return nil
}

// HasRoomForActors reports whether a workspace may have one more snapshot of KindActor. In a fork,
// snapshots of KindActor may use only half of the limit; the other half is for other kinds.
func (c *Catalogue) HasRoomForActors(w *Workspace) bool {
	if !w.Fork {
		return true
	}
	limit := c.Parent(c.UppermostFork(w)).Policy.Forks.Snapshots
	return limit <= 0 || w.Snapshots.Len() < limit/2
}

// checkLimits returns an error if one more snapshot or fork in w would exceed a limit of main's policy.
// Each limit applies to a fork of main together with the forks below it. text is the size in bytes of the
// new message and labels.
func (c *Catalogue) checkLimits(w *Workspace, text int64) error {
	if !w.Fork {
		return nil
	}
	upper := c.UppermostFork(w)
	limits := c.Parent(upper).Policy.Forks
	n, count := -1, limits.TextBytes > 0 && text > 0 // -1: the uppermost fork does not count
	upper.WalkFamily(func(f *Workspace) {
		n += 1 + f.Snapshots.Len()
		if !count {
			return
		}

		for _, sn := range f.Snapshots.All() {
			text += sn.textSize()
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

// textSize returns the size of the message and the labels of a snapshot.
func (s *Snapshot) textSize() int64 {
	if s.TextBytes == 0 {
		s.TextBytes = textBytes(s.Message, s.Labels)
	}
	return s.TextBytes
}

// textBytes returns the size in bytes of a message and of labels in JSON.
func textBytes(message string, labels map[string]string) int64 {
	n := gitquote.JSONLen(message)
	for k, v := range labels {
		n += gitquote.JSONLen(k) + gitquote.JSONLen(v)
	}
	return int64(n)
}
