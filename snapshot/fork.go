package snapshot

import (
	"slices"
	"strings"
	"time"

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
	Base      string    `json:"base"` // the snapshot that it began from, "" for a present state
	Created   time.Time `json:"created"`
	Snapshots int       `json:"snapshots"`
	Files     int64     `json:"files"`
	Bytes     int64     `json:"bytes"`
	// Expires is when it ends automatically.
	Expires *time.Time `json:"expires,omitempty"`
	View    uint32     `json:"-"`
}

func (i ForkInfo) Node() live.NodeID { return live.Node(i.View, live.RootIno) }

type ForkOptions struct {
	Name     string `json:"name" jsonschema:"the name of the fork"`
	Snapshot string `json:"snapshot,omitempty" jsonschema:"the snapshot it begins with: a name, FORK/NAME for one of a fork, FORK/ for the present state of a fork, label:KEY=VALUE for the newest with that label, or REMOTE@SNAPSHOT; if empty, the present state"`
	// TTL is the time after which the fork ends, as by Forks.End. Empty: never.
	TTL string `json:"ttl,omitempty" jsonschema:"delete the fork after this time: 30m, 1h, 7d"`
	// As is for the service: New registers no actor.
	As string `json:"as,omitempty" jsonschema:"the actor of changes whose program cannot be seen; if empty, the name of the fork"`
	// Discard: when the fork ends, however it does, no snapshot of its last state is kept.
	Discard bool `json:"discard,omitempty" jsonschema:"keep no snapshot of its last state when it ends"`
	// Newer: a claim does not begin with what the fork of the label left here.
	Newer  bool          `json:"-"`
	Caller actors.Caller `json:"-"`
}

// A forkPlan is what a fork is made with. ForkOptions are arguments of operations, which have exported
// fields alone.
type forkPlan struct {
	ForkOptions
	claim        string            // see Claim
	expires      *time.Time        // see TTL
	placeholders []naming.BytePath // of the caller's sandbox, which a fork of the present state leaves out
}

// plan checks what is asked for.
func (fs Forks) plan(o ForkOptions) (p forkPlan, err error) {
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

	p.placeholders, err = fs.w.placeholders(o.Caller)
	return p, err
}

// New makes a workspace that starts equal to a snapshot, or to the present
// state. It takes the same time whatever the size.
func (fs Forks) New(o ForkOptions) (*Workspace, error) {
	p, err := fs.plan(o)
	if err != nil {
		return nil, err
	}

	var fork *Workspace
	start := time.Now()
	err = fs.w.store.forest.Update(true, func(tx *live.Tx) (err error) {
		fork, err = fs.make(tx, p)
		return err
	})
	if err == nil {
		fs.forked(fork, o, start)
	}
	return fork, err
}

func (fs Forks) forked(fork *Workspace, o ForkOptions, start time.Time) {
	fs.w.store.metrics.Note(func(m *info.Metrics) { m.Forks++; m.LastForkMs = info.MsSince(start) })
	fs.w.store.event(events.Event{Workspace: fs.w.ws.View, Action: "forked", From: fork.BeganFrom(), Detail: o.Name}, o.Caller)
}

// make journals and makes a fork. The lock is held.
func (fs Forks) make(tx *live.Tx, o forkPlan) (*Workspace, error) {
	s := fs.w.store
	r := &catalogue.Fork{Name: o.Name, Claim: o.claim, Expires: o.expires, Discard: o.Discard}
	r.Base.Created, r.Base.UID, r.Base.PID = s.opt.Now(), o.Caller.UID, o.Caller.PID
	if err := s.cat.NewFork(&trees{Tx: tx, s: s}, fs.w.ws, o.Snapshot, r); err != nil {
		return nil, err
	}
	if r.Now {
		r.Placeholders = o.placeholders
	}
	err := s.commit(tx, r, o.Caller)
	return s.workspaces[r.View], err
}

// BeganFrom is the name of the snapshot that a fork was made from, at that time; "" if the fork
// was made from a present state.
func (w *Workspace) BeganFrom() (name string) {
	w.read(func() {
		if o, ok := w.store.cat.Snapshots[w.ws.Base]; ok {
			name = o.Parent
		}
	})
	return name
}

// List returns the forks, by name.
func (fs Forks) List() []ForkInfo {
	var out []ForkInfo
	s := fs.w.store
	s.look(func(tx *live.Tx) {
		for _, f := range fs.w.ws.Forks {
			i := ForkInfo{Name: f.Name, Snapshots: f.Snapshots.Len(), Expires: f.Expires, View: f.View}
			if o, ok := s.cat.Snapshots[f.Base]; ok {
				i.Base, i.Created = o.Parent, o.Created
			}
			st := f.Present(tx)
			i.Files, i.Bytes = st.Inodes-1, st.Bytes
			out = append(out, i)
		}
	})
	slices.SortFunc(out, func(a, b ForkInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Named returns a fork of the workspace. ErrNoFork when there is none.
func (fs Forks) Named(name string) (f *Workspace, err error) {
	fs.w.read(func() {
		var ws *catalogue.Workspace
		if ws, err = fs.w.ws.ForkNamed(name); err == nil {
			f = fs.w.store.workspaces[ws.View]
		}
	})
	return f, err
}

func (fs Forks) Rename(a, b string, c actors.Caller) error {
	s := fs.w.store
	err := s.forest.Update(true, func(tx *live.Tx) error {
		r, err := fs.w.ws.NewRenameFork(a, b)
		if err != nil {
			return err
		}
		return s.commit(tx, r, c)
	})
	if err == nil {
		s.event(events.Event{Workspace: fs.w.ws.View, Action: "renamed-fork", From: a, Detail: b}, c)
	}
	return err
}
