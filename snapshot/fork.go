package snapshot

import (
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

type ForkInfo struct {
	Name      string    `json:"name"`
	Base      string    `json:"base"` // the snapshot from which the fork was made, "" for a present state
	Created   time.Time `json:"created"`
	Snapshots int       `json:"snapshots"`
	Files     int64     `json:"files"`
	Bytes     int64     `json:"bytes"`
	// Expires is the time at which the fork ends automatically.
	Expires *time.Time `json:"expires,omitempty"`
	View    uint32     `json:"-"`
}

// Node returns the root directory of the fork.
func (i ForkInfo) Node() live.NodeID { return live.Node(i.View, live.RootIno) }

type ForkOptions struct {
	Name     string `json:"name" jsonschema:"the name of the fork"`
	Snapshot string `json:"snapshot,omitempty" jsonschema:"the snapshot it begins with: a name, FORK/NAME for one of a fork, FORK/ for the present state of a fork, label:KEY=VALUE for the newest with that label, or REMOTE@SNAPSHOT; if empty, the present state"`
	// TTL is the time after which the fork ends, as if Forks.End were called. If TTL is empty, the fork
	// never expires.
	TTL string `json:"ttl,omitempty" jsonschema:"delete the fork after this time: 30m, 1h, 7d"`
	// As is an option of the service. New and Claim ignore it.
	As string `json:"as,omitempty" jsonschema:"the actor of changes whose program cannot be seen; if empty, the name of the fork"`
	// Discard ends the fork without a snapshot of its last state, also when it expires.
	Discard bool `json:"discard,omitempty" jsonschema:"keep no snapshot of its last state when it ends"`
	// Hide, HideAsEmpty and ReadOnly are added to the fields of the same names in the policy of the parent.
	Hide        []string `json:"hide,omitempty" jsonschema:"patterns, as in .gitignore, of paths that the fork does not have"`
	HideAsEmpty bool     `json:"hide_empty,omitempty" jsonschema:"hidden files and directories exist, and are empty"`
	ReadOnly    []string `json:"read_only,omitempty" jsonschema:"paths that cannot be changed in the fork, with all below them"`
	// Newer makes a claim begin with Snapshot, even if an ended fork of the label left a last
	// state in this store.
	Newer  bool          `json:"-"`
	Caller actors.Caller `json:"-"`
}

// A forkPlan has the checked options of a fork, and values that are not options of users.
type forkPlan struct {
	ForkOptions
	claim        string            // the label of the claim, "" for New
	expires      *time.Time        // from TTL
	placeholders []naming.BytePath // paths that a fork of the present state does not get, see Workspace.placeholders
	hiddenStates                   // the states of the fork without hidden paths
}

// checkOptions returns a plan with the options, or an error if they are not valid.
func (fs Forks) checkOptions(o ForkOptions) (p forkPlan, err error) {
	p.ForkOptions = o
	if err := naming.Check(o.Name); err != nil {
		return p, err
	}

	ttl, err := policy.ParseTTL(o.TTL)
	if err != nil {
		return p, err
	}

	if ttl > 0 {
		end := fs.w.store.opt.Now().Add(ttl)
		p.expires = &end
	}

	if p.placeholders, err = fs.w.placeholders(o.Caller); err != nil {
		return p, err
	}
	return p, fs.setRestrictions(&p)
}

// New makes a fork that is equal to a snapshot, or to the present state. The time does not depend
// on the size of the tree, unless paths are hidden (see HidesPaths).
func (fs Forks) New(o ForkOptions) (*Workspace, error) {
	p, err := fs.checkOptions(o)
	if err != nil {
		return nil, err
	}

	var fork *Workspace
	start := time.Now()
	defer p.release()
	if err := fs.makeHiddenStates(&p, p.Snapshot); err != nil {
		return nil, err
	}

	err = fs.w.store.forest.Update(true, func(tx *live.Tx) (err error) {
		fork, err = fs.makeFork(tx, p)
		return err
	})
	if err != nil {
		return fork, err
	}

	fs.reportFork(fork, o, start)

	return fork, nil
}

// reportFork updates the metrics and emits the event of a new fork.
func (fs Forks) reportFork(fork *Workspace, o ForkOptions, start time.Time) {
	fs.w.store.parts.Metrics.Update(func(m *info.Metrics) { m.Forks++; m.LastForkMs = info.MsSince(start) })
	fs.w.store.Hooks.emit(events.Event{Workspace: fs.w.ws.View, Action: "forked", From: fork.BaseSnapshotName(), Detail: o.Name}, o.Caller)
}

// makeFork commits the record of a fork. The caller holds the lock of the forest.
func (fs Forks) makeFork(tx *live.Tx, p forkPlan) (*Workspace, error) {
	s := fs.w.store
	r := &catalogue.Fork{Name: p.Name, Claim: p.claim, Expires: p.expires, Discard: p.Discard}
	r.Base.Created, r.Base.UID, r.Base.PID = s.opt.Now(), p.Caller.UID, p.Caller.PID
	if err := r.StartFrom(s.cat, s.applier(tx), fs.w.ws, p.Snapshot); err != nil {
		return nil, err
	}
	if r.FromPresent {
		r.Placeholders = p.placeholders
	}
	if r.Restrictions = p.restrictions; p.matcher != nil {
		if p.stateID == "" || p.startName != p.Snapshot {
			return nil, errs.New(errs.Busy, "busy: another state of %s is its last one now; do it again", p.Name)
		}
		r.State, r.DirState = p.stateID, p.dirID
	}

	err := s.applier(tx).commit(r, p.Caller)
	return s.workspaces.byView[r.View], err
}

// BaseSnapshotName returns the name of the snapshot from which the fork was made. If that snapshot was renamed
// since, it is the old name. If the fork was made from a present state, it returns "".
func (w *Workspace) BaseSnapshotName() string {
	defer w.store.forest.ReadLock()()
	if o := w.store.cat.Snapshots.At(w.ws.Base); o != nil {
		return o.Parent
	}
	return ""
}

// List returns the forks, sorted by name.
func (fs Forks) List() []ForkInfo {
	var out []ForkInfo
	s := fs.w.store
	s.forest.WithReadLock(func(tx *live.Tx) {
		for f := range fs.w.ws.Forks() {
			i := ForkInfo{Name: f.Name, Snapshots: f.Snapshots.Len(), Expires: f.Expires, View: f.View}
			if o := s.cat.Snapshots.At(f.Base); o != nil {
				i.Base, i.Created = o.Parent, o.Created
			}

			st := f.PresentState(tx)
			i.Files, i.Bytes = st.Inodes-1, st.Bytes
			out = append(out, i)
		}
	})

	slices.SortStableFunc(out, func(a, b ForkInfo) int { return strings.Compare(a.Name, b.Name) })

	return out
}

// Named returns the fork with a name. The error is catalogue.ErrNoFork if there is no such fork.
func (fs Forks) Named(name string) (*Workspace, error) {
	defer fs.w.store.forest.ReadLock()()
	ws, err := fs.w.ws.ForkNamed(name)
	if err != nil {
		return nil, err
	}
	return fs.w.store.workspaces.byView[ws.View], nil
}

func (fs Forks) Rename(name, newName string, c actors.Caller) error {
	s := fs.w.store
	if err := s.commitNewRecord(c, func(*live.Tx) (catalogue.Record, error) {
		r, err := fs.w.ws.NewRenameFork(name, newName)
		if err != nil {
			return nil, err
		}

		r.Op = fs.w.Ops().newOp(catalogue.OpRenameFork, name, c)
		r.Op.NewName, r.Op.View = newName, r.View

		return r, nil
	}); err != nil {
		return err
	}

	s.Hooks.emit(events.Event{Workspace: fs.w.ws.View, Action: "renamed-fork", From: name, Detail: newName}, c)

	return nil
}
