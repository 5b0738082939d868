package snapshot

import (
	"fmt"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// mayDelete refuses what the policy protects. The lock is held.
func (ss Snapshots) mayDelete(sn *snap, c actors.Caller) error {
	if sn.View == ss.w.rec.Base {
		return errs.New(errs.Protected, "protected: base cannot be deleted")
	}
	if sn.Pinned {
		return errs.New(errs.Busy, "busy: snapshot %q is pinned; unpin it first: `amberfs unpin %s`", sn.Name, sn.Name)
	}
	if err := ss.mayRename(c); err != nil {
		return err
	}
	if !ss.oldEnough(sn, c) {
		return errs.New(errs.Protected, "protected: snapshot %q is younger than the %s that the policy requires", sn.Name, ss.minAge())
	}
	return nil
}

func (ss Snapshots) minAge() time.Duration {
	return time.Duration(ss.w.rec.Policy.MinAgeSeconds) * time.Second
}

func (ss Snapshots) oldEnough(sn *snap, c actors.Caller) bool {
	return c.UID == 0 || ss.w.store.opt.Now().Sub(sn.Created) >= ss.minAge()
}

// mayEnd refuses the end of a fork with snapshots while the policy of this workspace,
// the parent, protects them. Pins in the fork, the fork's policy and new snapshots do
// not count: otherwise a process in the fork could keep it forever. The lock is held.
func (fs Forks) mayEnd(f *Workspace, c actors.Caller) error {
	if f.snaps.Len() == 0 {
		return nil
	}
	if err := fs.w.Snapshots().mayRename(c); err != nil {
		return fmt.Errorf("fork %s cannot be deleted: %w", f.rec.Name, err)
	}
	if began, ok := fs.w.store.cat.snaps[f.rec.Base]; ok && !fs.w.Snapshots().oldEnough(began, c) {
		return errs.New(errs.Protected, "protected: fork %s has snapshots and is younger than the %s that the policy requires", f.rec.Name, fs.w.Snapshots().minAge())
	}
	return nil
}

func (ss Snapshots) mayRename(c actors.Caller) error {
	if ss.w.rec.Policy.Protect && !c.Direct {
		return errs.New(errs.Protected, "protected: the policy forbids deleting and renaming snapshots through the mount; use the command line")
	}
	switch ss.w.rec.Policy.Delete {
	case "nobody":
		return errs.New(errs.Protected, "protected: the policy forbids deleting and renaming snapshots; the owner can change it in .snapshots/policy")
	case "owner":
		if !c.OwnsStore() {
			return errs.New(errs.Protected, "protected: the policy allows only the owner to delete and rename snapshots")
		}
	}
	return nil
}

// admitCapture refuses a manual snapshot over the limit. The lock is held.
func (ss Snapshots) admitCapture(kind string) error {
	if kind != KindManual || ss.w.rec.Policy.ManualLimit == 0 {
		return nil
	}
	n := 0
	for _, sn := range ss.w.snaps.All() {
		if sn.Kind == KindManual {
			n++
		}
	}
	if n >= ss.w.rec.Policy.ManualLimit {
		return errs.New(errs.Quota, "limit reached: the policy allows %d manual snapshots; delete one first", ss.w.rec.Policy.ManualLimit)
	}
	return nil
}

// hasRoom reports whether a fork of main, with the forks in it, may have one more
// snapshot or fork by what the policy of main allows each. The lock is held.
func (ss Snapshots) hasRoom(o CaptureOptions) error {
	if !ss.w.rec.Fork {
		return nil
	}
	limits := ss.w.store.cat.workspaces[live.MainView].rec.Policy.Forks
	text, n := textOf(o.Message, o.Labels), -1
	count := limits.TextBytes > 0 && text > 0
	ss.w.uppermost().family(func(f *Workspace) {
		n += 1 + f.snaps.Len()
		if !count {
			return
		}
		for _, sn := range f.snaps.All() {
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
