package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/internal/strictjson"
)

// A Policy has the rules for automatic snapshots and retention, the right to delete snapshots, and
// the limits of a workspace and its forks.
type Policy struct {
	// IntervalSeconds is the time between automatic snapshots of a workspace with
	// changes. 0: no automatic snapshots.
	IntervalSeconds int64 `json:"interval_seconds"`
	// QuietSeconds is the time without a change after which a changed workspace gets a
	// snapshot. 0: no such snapshots.
	QuietSeconds int64 `json:"quiet_seconds"`
	Keep         Keep  `json:"keep"`
	// ManualLimit is the limit for manual snapshots. 0: no limit.
	ManualLimit int `json:"manual_limit"`
	// ExpireSeconds is the age at which a manual snapshot without its own expiry is deleted. 0:
	// never.
	ExpireSeconds int64 `json:"expire_seconds"`
	// ByteLimit is the limit for the store's size on disk. 0: no limit.
	ByteLimit int64 `json:"byte_limit"`
	// Delete is the set of users who may delete or rename snapshots: anyone (with write permission
	// on .snapshots), owner (of the store, or root) or nobody.
	Delete string `json:"delete"`
	// MinAgeSeconds is the age below which only root may delete a snapshot.
	MinAgeSeconds int64 `json:"min_age_seconds"`
	// Protect forbids deleting and renaming snapshots and changing the policy through
	// the mount, for every user. A program in a sandbox has the mount, not the socket.
	Protect bool `json:"protect"`
	// Forks has the limits for each fork. Only the policy of main is used.
	Forks ForkLimits `json:"forks"`
	// UnsharedBytes is the limit for the fork of main that has this policy, including the forks in
	// it. 0: only the limit of Forks. It cannot be changed through the mount.
	UnsharedBytes int64 `json:"unshared_bytes"`
	// UndoSeconds is the time for which deleted snapshots, ended forks, and the states after restores, merges and
	// imports are kept, so that these operations can be undone. 0: they are not kept. Only the policy of main is
	// used.
	UndoSeconds int64 `json:"undo_seconds"`
	// RestoreKeeps are paths below the root, such as .git, that restores of the whole workspace do not change.
	RestoreKeeps []string `json:"restore_keeps"`
	// Hide are patterns, as in .gitignore, of paths that forks of the workspace do not have. A fork gets its
	// patterns when it is created. Later changes of the parent's policy do not change them.
	Hide []string `json:"hide,omitempty"`
	// HideAsEmpty shows hidden files and directories as empty ones, instead of leaving them out.
	HideAsEmpty bool `json:"hide_empty,omitempty"`
	// ReadOnly are paths below the root that cannot be changed, and neither can the paths below them. The field
	// cannot be changed through the mount.
	ReadOnly []string `json:"read_only,omitempty"`
	// Forget are patterns, as in .gitignore, of paths that are left out of pushes and exports. Only the policy of
	// main is used. The field cannot be changed through the mount.
	Forget []string `json:"forget,omitempty"`
	// Push sends snapshots of main to a remote. Only the policy of main is used.
	Push Push `json:"push"`
}

// Push has the rules for automatic pushes.
type Push struct {
	// Remote is the name of a remote, "" for none. Users other than the owner of the
	// store can push to this remote only.
	Remote string `json:"remote"`
	// IntervalSeconds is the time between pushes. 0: no automatic pushes.
	IntervalSeconds int64 `json:"interval_seconds"`
	// Only selects the snapshots: PushManual or PushTurn for the snapshots of that kind, or
	// PushAll for all. With PushAll, a snapshot is taken first if the workspace has changes.
	Only string `json:"only"`
}

const (
	PushManual = "manual"
	PushTurn   = "turn"
	PushAll    = "all"
)

// ForkLimits are the limits of a fork of main, including the forks in it. 0: no limit.
type ForkLimits struct {
	Snapshots     int   `json:"snapshots"`      // number of snapshots and forks
	TextBytes     int64 `json:"text_bytes"`     // bytes of messages and labels in JSON
	UnsharedBytes int64 `json:"unshared_bytes"` // bytes that only the fork uses
	Renderings    int   `json:"renderings"`     // number of control files generated at the same time
}

// Default is the policy of a new workspace.
func Default() Policy {
	keep := Keep{
		Auto:       Rule{Last: 10},
		Turn:       Rule{Last: 100, Within: Span(week)},
		Call:       Rule{Last: 100, Within: Span(day)},
		Actor:      Rule{Last: 1000, Within: Span(week)},
		PreRestore: Rule{Last: 10, Within: Span(30 * day)},
		Fork:       Rule{Within: Span(30 * day)},
	}
	return Policy{
		IntervalSeconds: 300, Keep: keep, Delete: "anyone",
		UndoSeconds:  int64(day / time.Second),
		RestoreKeeps: []string{},
		// With these limits the list of a fork's snapshots fits into the memory of the control files
		// of one fork, and the messages and labels of some hundred forks fit into the catalogue.
		Forks: ForkLimits{Snapshots: 10_000, TextBytes: 1 << 20, Renderings: 4},
		Push:  Push{IntervalSeconds: 300, Only: PushAll},
	}
}

// MaxPolicyBytes is the maximum size of a policy in JSON. The record of the workspace contains it.
const MaxPolicyBytes = 1 << 20

// maxSeconds is the largest number of seconds that a time.Duration can represent, rounded down.
const maxSeconds = 9_000_000_000

// Parse reads a whole policy. Missing fields get their defaults. Unknown fields and
// values are errors.
func Parse(b []byte) (Policy, error) {
	p := Default()
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return p, invalidPolicy("it must be one JSON object")
	}
	if err := strictjson.Decode(b, &p); err != nil {
		return p, invalidPolicy("%w", err)
	}

	return p, p.Check()
}

// invalidPolicy returns an errs.Invalid error about a policy.
func invalidPolicy(format string, args ...any) error {
	return errs.New(errs.Invalid, "malformed request: policy: "+format, args...)
}

// Patch returns the policy changed by a JSON merge patch (RFC 7396): fields that are not in the patch keep their
// values, and null restores the default. A rule of the field keep is replaced as a whole.
func (p Policy) Patch(patch []byte) (Policy, error) {
	present, err := json.Marshal(p)
	if err != nil {
		return p, err
	}

	var doc map[string]any
	if err := json.Unmarshal(present, &doc); err != nil {
		return p, err
	}

	var change any
	if err := strictjson.Decode(patch, &change); err != nil {
		return p, invalidPolicy("%w", err)
	}

	fields, ok := change.(map[string]any)
	if !ok {
		return p, invalidPolicy("a patch must be a JSON object with the fields to change")
	}

	if rules, ok := fields["keep"].(map[string]any); ok {
		for kind := range rules {
			if keep, ok := doc["keep"].(map[string]any); ok {
				delete(keep, kind)
			}
		}
	}

	merged, err := json.Marshal(mergePatch(doc, change))
	if err != nil {
		return p, err
	}

	return Parse(merged)
}

// PatchTo returns the patch that changes the policy p into target.
func (p Policy) PatchTo(target Policy) (json.RawMessage, error) {
	var docs [2]map[string]any
	for i, side := range []Policy{p, target} {
		b, err := json.Marshal(side)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &docs[i]); err != nil {
			return nil, err
		}
	}

	patch := difference(docs[0], docs[1])
	for name, value := range patch {
		was, ok := docs[0][name].(map[string]any)
		if fields, isMap := value.(map[string]any); ok && isMap {
			patch[name] = difference(was, fields)
		}
	}

	return json.Marshal(patch)
}

// difference returns the patch that changes the object from into the object to. It has null for each removed field.
func difference(from, to map[string]any) map[string]any {
	patch := make(map[string]any)
	for name := range from {
		if _, ok := to[name]; !ok {
			patch[name] = nil
		}
	}

	for name, value := range to {
		if !reflect.DeepEqual(from[name], value) {
			patch[name] = value
		}
	}

	return patch
}

// mergePatch applies a merge patch, as the function MergePatch in section 2 of RFC 7396 does.
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

// Check returns an error if a value is out of range.
func (p *Policy) Check() error {
	switch p.Delete {
	case "anyone", "owner", "nobody":
	default:
		return invalidPolicy("delete is %q; it can be anyone, owner or nobody", p.Delete)
	}

	switch p.Push.Only {
	case PushManual, PushTurn, PushAll:
	default:
		return invalidPolicy("push.only is %q; it can be manual, turn or all", p.Push.Only)
	}

	for name, v := range map[string]int64{
		"push.interval_seconds": p.Push.IntervalSeconds,
		"interval_seconds":      p.IntervalSeconds, "quiet_seconds": p.QuietSeconds, "expire_seconds": p.ExpireSeconds,
		"min_age_seconds": p.MinAgeSeconds, "undo_seconds": p.UndoSeconds, "manual_limit": int64(p.ManualLimit), "byte_limit": p.ByteLimit,
		"forks.snapshots": int64(p.Forks.Snapshots), "forks.text_bytes": p.Forks.TextBytes,
		"unshared_bytes": p.UnsharedBytes, "forks.unshared_bytes": p.Forks.UnsharedBytes, "forks.renderings": int64(p.Forks.Renderings),
	} {
		if v < 0 {
			return invalidPolicy("%s is negative", name)
		}
		if strings.HasSuffix(name, "_seconds") && v > maxSeconds {
			return invalidPolicy("%s is over %d", name, maxSeconds)
		}
	}

	if _, err := hide.New(p.Hide); err != nil {
		return invalidPolicy("hide: %w", err)
	}
	if _, err := hide.New(p.Forget); err != nil {
		return invalidPolicy("forget: %w", err)
	}
	if err := errors.Join(checkPaths("restore_keeps", p.RestoreKeeps), checkPaths("read_only", p.ReadOnly)); err != nil {
		return err
	}

	if b, err := json.Marshal(p); err != nil || len(b) > MaxPolicyBytes {
		return errors.Join(err, errs.New(errs.TooBig, "the policy has %d bytes, at most %d are possible: name fewer paths in restore_keeps, hide, forget and read_only", len(b), MaxPolicyBytes))
	}

	return p.Keep.check()
}

// checkPaths returns an error if a field has a path that is not below the root.
func checkPaths(field string, paths []string) error {
	for _, k := range paths {
		if k == "" || path.IsAbs(k) || path.Clean(k) != k || k == "." || k == ".." || strings.HasPrefix(k, "../") {
			return invalidPolicy("%s has %q, which is not a path below the root", field, k)
		}
	}
	return nil
}

// HideMatcher returns the matcher of the paths that a fork with the policy does not have.
func (p *Policy) HideMatcher() *hide.Matcher {
	m, _ := hide.New(p.Hide) // Check refuses malformed patterns
	return m
}
