package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
)

// A Policy says what happens to a workspace's snapshots by itself and who may
// remove them. Its JSON form is the control file `policy`.
type Policy struct {
	// IntervalSeconds between automatic captures, when something changed.
	// 0: none.
	IntervalSeconds int64 `json:"interval_seconds"`
	// Ring is how many automatic snapshots are kept; pre-restore ones count
	// apart, with the same number.
	Ring int `json:"ring"`
	// ManualLimit is how many manual snapshots there may be. 0: any number.
	ManualLimit int `json:"manual_limit"`
	// ExpireSeconds after which a manual snapshot without an expiry of its
	// own is removed. 0: never.
	ExpireSeconds int64 `json:"expire_seconds"`
	// ByteLimit is how many bytes the store may take on disk. 0: the disk's.
	ByteLimit int64 `json:"byte_limit"`
	// Delete says who may remove or rename snapshots: anyone (who may write
	// to .snapshots at all), owner (of the store, or root), or nobody.
	Delete string `json:"delete"`
	// MinAgeSeconds is the age below which nobody but root may remove a
	// snapshot.
	MinAgeSeconds int64 `json:"min_age_seconds"`
	// Protect lets nothing that comes through the mount remove or rename
	// snapshots, or change this policy, whoever it is: a program in a sandbox
	// has the mount, but not the store with the socket.
	Protect bool `json:"protect"`
	// QuietSeconds without a change, after which the next change is preceded
	// by a capture. 0: no such captures.
	QuietSeconds int64 `json:"quiet_seconds"`
}

// DefaultPolicy is what a new workspace has.
func DefaultPolicy() Policy {
	return Policy{IntervalSeconds: 300, Ring: 10, Delete: "anyone"}
}

// maxSeconds is what a time.Duration can hold, rounded down.
const maxSeconds = 9_000_000_000

// ParsePolicy reads a whole policy. Unknown fields and values are refused.
func ParsePolicy(b []byte) (Policy, error) {
	p := DefaultPolicy()
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return p, fmt.Errorf("%w: policy: it is one JSON object, as `cat .snapshots/policy` shows it", ErrInvalid)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("%w: policy: %v", ErrInvalid, err)
	}
	if d.InputOffset() < int64(len(b)) {
		return p, fmt.Errorf("%w: policy: something follows after the object", ErrInvalid)
	}
	switch p.Delete {
	case "anyone", "owner", "nobody":
	default:
		return p, fmt.Errorf("%w: policy: delete is %q; it can be anyone, owner or nobody", ErrInvalid, p.Delete)
	}
	for name, v := range map[string]int64{
		"interval_seconds": p.IntervalSeconds, "ring": int64(p.Ring), "manual_limit": int64(p.ManualLimit), "expire_seconds": p.ExpireSeconds,
		"byte_limit": p.ByteLimit, "min_age_seconds": p.MinAgeSeconds, "quiet_seconds": p.QuietSeconds,
	} {
		if v < 0 {
			return p, fmt.Errorf("%w: policy: %s is negative", ErrInvalid, name)
		}
		if strings.HasSuffix(name, "_seconds") && v > maxSeconds {
			return p, fmt.Errorf("%w: policy: %s is over %d", ErrInvalid, name, maxSeconds)
		}
	}
	if p.IntervalSeconds > 0 && p.Ring == 0 {
		return p, fmt.Errorf("%w: policy: a ring of 0 keeps no automatic snapshot; set interval_seconds to 0 to have none", ErrInvalid)
	}
	return p, nil
}

// Policy returns the workspace's policy.
func (w *Workspace) Policy() (p Policy) {
	w.read(func() { p = w.policy })
	return p
}

// SetPolicy changes the policy; only the store's owner and root may.
func (w *Workspace) SetPolicy(p Policy, c live.Caller) error {
	if !isOwner(c) {
		return fmt.Errorf("%w: only the owner of the store changes the policy", ErrProtected)
	}
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		if w.policy.Protect && !c.Direct {
			return fmt.Errorf("%w: the policy cannot be changed through the mount; use `amberfs policy`", ErrProtected)
		}
		r := policyRecord{WS: w.view, Policy: p}
		if err := s.journal(tx, recPolicy, r); err != nil {
			return err
		}
		s.applyPolicy(r)
		return nil
	})
}

func (s *Store) applyPolicy(r policyRecord) {
	w, ok := s.cat.workspaces[r.WS]
	if !ok {
		return
	}
	w.policy = r.Policy
	s.cat.touchWS(r.WS)
	select {
	case s.policies <- struct{}{}:
	default:
	}
	s.refreshLimit()
}

// refreshLimit takes the byte limit from the policy of main.
func (s *Store) refreshLimit() {
	if w, ok := s.cat.workspaces[live.MainView]; ok {
		s.limit.Store(w.policy.ByteLimit)
	}
}

// isOwner reports whether the caller is the user that the daemon runs as, or
// root.
func isOwner(c live.Caller) bool { return c.UID == 0 || int(c.UID) == os.Geteuid() }

// mayDelete refuses what the policy protects. The lock is held.
func (w *Workspace) mayDelete(sn *snap, c live.Caller) error {
	if sn.View == w.origin {
		return fmt.Errorf("%w: the origin cannot be deleted", ErrProtected)
	}
	if sn.Pinned {
		return fmt.Errorf("%w: snapshot %q is pinned; let it go with `amberfs unpin %s` first", ErrBusy, sn.Name, sn.Name)
	}
	if err := w.mayRename(c); err != nil {
		return err
	}
	age := time.Duration(w.policy.MinAgeSeconds) * time.Second
	if c.UID != 0 && time.Since(sn.Created) < age {
		return fmt.Errorf("%w: snapshot %q is younger than the %s that the policy asks for", ErrProtected, sn.Name, age)
	}
	return nil
}

// mayEnd refuses the end of a fork whose own snapshots, which go with it, are
// protected. The lock is held.
func (w *Workspace) mayEnd(c live.Caller) error {
	for _, sn := range w.snaps {
		if err := w.mayDelete(sn, c); err != nil {
			return fmt.Errorf("fork %s cannot end: %w", w.name, err)
		}
	}
	return nil
}

func (w *Workspace) mayRename(c live.Caller) error {
	if w.policy.Protect && !c.Direct {
		return fmt.Errorf("%w: the policy lets nobody remove or rename snapshots through the mount; use the command line", ErrProtected)
	}
	switch w.policy.Delete {
	case "nobody":
		return fmt.Errorf("%w: the policy lets nobody remove or rename snapshots; the owner can change it in .snapshots/policy", ErrProtected)
	case "owner":
		if !isOwner(c) {
			return fmt.Errorf("%w: the policy lets only the owner remove or rename snapshots", ErrProtected)
		}
	}
	return nil
}

// admitCapture refuses a manual snapshot over the limit. The lock is held.
func (w *Workspace) admitCapture(origin string) error {
	if origin != OriginManual || w.policy.ManualLimit == 0 {
		return nil
	}
	n := 0
	for _, sn := range w.snaps {
		if sn.Origin == OriginManual {
			n++
		}
	}
	if n >= w.policy.ManualLimit {
		return fmt.Errorf("%w: the policy allows %d manual snapshots; remove one first", ErrQuota, w.policy.ManualLimit)
	}
	return nil
}

// keepLoop captures at intervals and removes what expired.
func (s *Store) keepLoop() {
	known := make(map[uint32]*pace)
	var culled time.Time
	for wait := keepTick; ; {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
		case <-s.policies:
		}
		wait = keepTick
		cull := time.Since(culled) >= keepTick
		if cull {
			culled = time.Now()
		}
		for _, w := range s.Workspaces() {
			k := known[w.view]
			if k == nil {
				k = &pace{captured: time.Now()}
				known[w.view] = k
			}
			if s.captureDue(w, k, time.Now()) {
				if _, err := w.Capture(s.ctx, CaptureOptions{Origin: OriginAuto}); err != nil {
					s.logger.Warn("automatic capture", "workspace", w.Name(), "error", err)
				}
				k.captured = time.Now()
			}
			if k.quiet {
				wait = quietTick
			}
			if !cull {
				continue
			}
			if err := s.cull(w, time.Now()); err != nil {
				s.logger.Warn("removing old snapshots", "workspace", w.Name(), "error", err)
			}
		}
	}
}

const (
	// keepTick is how exactly the times of a policy are kept, and quietTick
	// the end of a quiet time.
	keepTick  = time.Second
	quietTick = 50 * time.Millisecond
)

// pace is what keepLoop knows of a workspace.
type pace struct {
	captured time.Time // by itself
	changes  uint64    // live.Tx.Changed
	changed  time.Time // when that was seen to grow
	quiet    bool      // the policy asks for captures after a quiet time
}

// captureDue reports whether an automatic capture is due.
func (s *Store) captureDue(w *Workspace, k *pace, now time.Time) (due bool) {
	s.look(func(tx *live.Tx) {
		n := tx.Changed(w.view)
		if n != k.changes {
			k.changes, k.changed = n, now
		}
		p := w.policy
		k.quiet = p.QuietSeconds > 0
		if n == w.at {
			return
		}
		due = p.IntervalSeconds > 0 && now.Sub(k.captured) >= time.Duration(p.IntervalSeconds)*time.Second
		// After a quiet time the state is captured, so that the next change is
		// preceded by it.
		if k.quiet && now.Sub(k.changed) >= time.Duration(p.QuietSeconds)*time.Second {
			due = true
		}
	})
	return due
}

// cull removes the snapshots that expired or fell out of the ring.
func (s *Store) cull(w *Workspace, now time.Time) error {
	find := func() []uint32 {
		var out []uint32
		kept := map[string]int{}
		for i := len(w.snaps) - 1; i >= 0; i-- {
			sn := w.snaps[i]
			if sn.Pinned || sn.View == w.undo {
				continue
			}
			if sn.Expires != nil && now.After(*sn.Expires) {
				out = append(out, sn.View)
				continue
			}
			if sn.Origin == OriginAuto || sn.Origin == OriginPreRestore {
				// Whoever restores again and again must not push out what was
				// there before.
				young := now.Sub(sn.Created) < time.Duration(w.policy.MinAgeSeconds)*time.Second
				if kept[sn.Origin]++; kept[sn.Origin] > max(w.policy.Ring, 1) && !young {
					out = append(out, sn.View)
				}
			}
		}
		return out
	}
	var any bool
	w.read(func() { any = len(find()) > 0 })
	if !any {
		return nil
	}
	return s.forest.Update(true, func(tx *live.Tx) error {
		r := deleteRecord{Views: find()}
		if err := s.journal(tx, recDelete, r); err != nil {
			return err
		}
		s.applyDelete(r)
		return nil
	})
}
