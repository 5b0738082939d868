package snapshot

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A Policy says what happens to a workspace's snapshots by itself and who may
// remove them. Its JSON form is the control file `policy`.
type Policy struct {
	// IntervalSeconds between automatic captures, when something changed.
	// 0: none.
	IntervalSeconds int64 `json:"interval_seconds"`
	// QuietSeconds without a change, after which the next change is preceded
	// by a capture. 0: no such captures.
	QuietSeconds int64 `json:"quiet_seconds"`
	// Keep says which snapshots stay, by their origin.
	Keep Keep `json:"keep"`
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
	// Forks bounds each fork. Only what the policy of main says counts.
	Forks ForkLimits `json:"forks"`
	// Push sends the snapshots of main to a remote by itself. Only what the policy
	// of main says counts.
	Push PushPolicy `json:"push"`
}

// A PushPolicy says what is pushed by itself.
type PushPolicy struct {
	// Remote is its name; empty: none. Naming one also lets those push to it, by
	// .snapshots/push, who are not the owner of the store.
	Remote string `json:"remote"`
	// IntervalSeconds between pushes. 0: nothing is pushed by itself.
	IntervalSeconds int64 `json:"interval_seconds"`
	// Only is the origin of the snapshots that are pushed, manual or turn, or all.
	// With all, what changed since the last snapshot is captured first.
	Only string `json:"only"`
}

// The snapshots that a PushPolicy sends.
const (
	PushManual = "manual"
	PushTurn   = "turn"
	PushAll    = "all"
)

// ForkLimits are what a fork of main may take of the store, with the forks in it. 0 is
// without a limit.
type ForkLimits struct {
	// Snapshots are also the forks in it.
	Snapshots int `json:"snapshots"`
	// TextBytes are those of the messages and labels of its snapshots.
	TextBytes int64 `json:"text_bytes"`
	// UnsharedBytes are those that were written in it, and that its files or its
	// snapshots still have.
	UnsharedBytes int64 `json:"unshared_bytes"`
	// Renderings are how many may be made at a time.
	Renderings int `json:"renderings"`
}

// DefaultPolicy is what a new workspace has.
func DefaultPolicy() Policy {
	return Policy{
		IntervalSeconds: 300, Keep: defaultKeep(), Delete: "anyone",
		Forks: ForkLimits{Snapshots: 10_000, TextBytes: 16 << 20, Renderings: 4},
		Push:  PushPolicy{IntervalSeconds: 300, Only: PushAll},
	}
}

// complete gives a policy that an older version stored what it lacks.
func (p Policy) complete() Policy {
	if p.Push.Only == "" {
		p.Push = DefaultPolicy().Push
	}
	return p
}

// maxSeconds is what a time.Duration can hold, rounded down.
const maxSeconds = 9_000_000_000

// ParsePolicy reads a whole policy; what is missing has its default. Unknown
// fields and values are refused.
func ParsePolicy(b []byte) (Policy, error) {
	p := DefaultPolicy()
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return p, errs.New(errs.Invalid, "malformed request: policy: it is one JSON object, as `cat .snapshots/policy` shows it")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, errs.New(errs.Invalid, "malformed request: policy: %w", err)
	}
	if d.InputOffset() < int64(len(b)) {
		return p, errs.New(errs.Invalid, "malformed request: policy: something follows after the object")
	}
	return p, p.check()
}

// Patch returns the policy changed by a JSON merge patch (RFC 7396): fields that it
// does not name stay as they are, null brings the default back. Nothing of a patch
// takes effect if some of it is refused.
func (p Policy) Patch(patch []byte) (Policy, error) {
	present, err := json.Marshal(p)
	if err != nil {
		return p, err
	}
	var doc, change any
	if err := json.Unmarshal(present, &doc); err != nil {
		return p, err
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return p, errs.New(errs.Invalid, "malformed request: policy: %w", err)
	}
	if _, ok := change.(map[string]any); !ok {
		return p, errs.New(errs.Invalid, "malformed request: policy: a patch is a JSON object with the fields to change")
	}
	merged, err := json.Marshal(mergePatch(doc, change))
	if err != nil {
		return p, err
	}
	return ParsePolicy(merged)
}

// mergePatch is MergePatch of RFC 7396, section 2.
func mergePatch(target, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	doc, ok := target.(map[string]any)
	if !ok {
		doc = make(map[string]any)
	}
	for name, value := range change {
		if value == nil {
			delete(doc, name)
		} else {
			doc[name] = mergePatch(doc[name], value)
		}
	}
	return doc
}

func (p *Policy) check() error {
	switch p.Delete {
	case "anyone", "owner", "nobody":
	default:
		return errs.New(errs.Invalid, "malformed request: policy: delete is %q; it can be anyone, owner or nobody", p.Delete)
	}
	switch p.Push.Only {
	case PushManual, PushTurn, PushAll:
	default:
		return errs.New(errs.Invalid, "malformed request: policy: push.only is %q; it can be manual, turn or all", p.Push.Only)
	}
	for name, v := range map[string]int64{
		"push.interval_seconds": p.Push.IntervalSeconds,
		"interval_seconds":      p.IntervalSeconds, "quiet_seconds": p.QuietSeconds, "expire_seconds": p.ExpireSeconds,
		"min_age_seconds": p.MinAgeSeconds, "manual_limit": int64(p.ManualLimit), "byte_limit": p.ByteLimit,
		"forks.snapshots": int64(p.Forks.Snapshots), "forks.text_bytes": p.Forks.TextBytes,
		"forks.unshared_bytes": p.Forks.UnsharedBytes, "forks.renderings": int64(p.Forks.Renderings),
	} {
		if v < 0 {
			return errs.New(errs.Invalid, "malformed request: policy: %s is negative", name)
		}
		if strings.HasSuffix(name, "_seconds") && v > maxSeconds {
			return errs.New(errs.Invalid, "malformed request: policy: %s is over %d", name, maxSeconds)
		}
	}
	return p.Keep.check()
}

// Policy returns the workspace's policy.
func (w *Workspace) Policy() (p Policy) {
	w.read(func() { p = w.policy })
	return p
}

// SetPolicy replaces the policy.
func (w *Workspace) SetPolicy(p Policy, c live.Caller) error {
	_, err := w.changePolicy(func(Policy) (Policy, error) { return p, p.check() }, c)
	return err
}

// PatchPolicy changes the policy by a JSON merge patch, and returns what it is then.
func (w *Workspace) PatchPolicy(patch []byte, c live.Caller) (Policy, error) {
	return w.changePolicy(func(p Policy) (Policy, error) { return p.Patch(patch) }, c)
}

func (w *Workspace) changePolicy(change func(Policy) (Policy, error), c live.Caller) (p Policy, err error) {
	s := w.store
	err = s.forest.Update(true, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		if w.policy.Protect && !c.Direct {
			return errs.New(errs.Protected, "protected: the policy cannot be changed through the mount; use `amberfs policy`")
		}
		if p, err = change(w.policy); err != nil {
			return err
		}
		if w.fork && p.Push != w.policy.Push {
			return errs.New(errs.Invalid, "malformed request: policy: what is pushed is a matter of the policy of main")
		}
		r := policyRecord{WS: w.view, Policy: p}
		if err := s.journal(tx, recPolicy, r); err != nil {
			return err
		}
		s.applyPolicy(r)
		return nil
	})
	if err == nil {
		s.event(Event{Workspace: w.view, Action: "policy", Caller: c})
	}
	return p, err
}

func (s *Store) applyPolicy(r policyRecord) {
	w, ok := s.cat.workspaces[r.WS]
	if !ok {
		return
	}
	w.policy = r.Policy.complete()
	s.cat.touchWS(r.WS)
	s.keep.signal.up()
	s.refreshLimit()
}

// refreshLimit takes the limits of bytes from the policy of main.
func (s *Store) refreshLimit() {
	main, ok := s.cat.workspaces[live.MainView]
	if !ok {
		return
	}
	s.room.limit.Store(main.policy.ByteLimit)
	if s.forkLimit.Swap(main.policy.Forks.UnsharedBytes) != 0 {
		return
	}
	for _, w := range s.cat.workspaces {
		w.usage.ready.Store(false) // nobody kept count until now
	}
}

// ForkLimits are what the policy of main allows each fork.
func (s *Store) ForkLimits() (l ForkLimits) {
	s.look(func(*live.Tx) {
		if main, ok := s.cat.workspaces[live.MainView]; ok {
			l = main.policy.Forks
		}
	})
	return l
}
