package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
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
	Snapshot string // that it starts from; the present state when empty
	Name     string
	// TTL is how long it lives; then it ends as Forks.End ends it. 0: until it is
	// ended.
	TTL    time.Duration
	Caller actors.Caller

	claim string // see Claim
}

// New makes a workspace that starts equal to a snapshot, or to the present
// state. It takes the same time whatever the size.
func (fs Forks) New(o ForkOptions) (*Workspace, error) {
	if err := naming.Check(o.Name); err != nil {
		return nil, err
	}
	var fork *Workspace
	start := time.Now()
	err := fs.w.store.forest.Update(true, func(tx *live.Tx) (err error) {
		fork, err = fs.make(tx, o)
		return err
	})
	if err == nil {
		fs.forked(fork, o, start)
	}
	return fork, err
}

func (fs Forks) forked(fork *Workspace, o ForkOptions, start time.Time) {
	fs.w.store.metrics.Note(func(m *info.Metrics) { m.Forks++; m.LastForkMs = info.MsSince(start) })
	fs.w.store.event(Event{Workspace: fs.w.rec.View, Action: "forked", From: fork.BeganFrom(), Detail: o.Name}, o.Caller)
}

// make journals and makes a fork. The lock is held.
func (fs Forks) make(tx *live.Tx, o ForkOptions) (*Workspace, error) {
	s := fs.w.store
	if err := fs.w.alive(); err != nil {
		return nil, err
	}
	if _, used := fs.w.forks[o.Name]; used {
		return nil, errs.New(errs.Exist, "name in use: fork %q exists; choose another name", o.Name)
	}
	if err := fs.w.Snapshots().hasRoom(CaptureOptions{}); err != nil {
		return nil, err
	}
	r := forkRecord{WS: fs.w.rec.View, Name: o.Name, Now: o.Snapshot == "", Claim: o.claim, Expires: fs.w.store.after(o.TTL)}
	if !r.Now {
		sn, err := s.cat.find(fs.w, o.Snapshot)
		if err != nil {
			return nil, err
		}
		if _, err := sn.Tree(s.src); err != nil {
			return nil, err
		}
		r.From, r.Base.Parent = sn.View, sn.Name
	}
	var err error
	if r.View, err = tx.NewView(); err != nil {
		return nil, err
	}
	if r.Base.View, err = tx.NewView(); err != nil {
		return nil, err
	}
	r.Base.WS, r.Base.Name, r.Base.Kind = r.View, "base", KindFork
	r.Base.Created, r.Base.UID, r.Base.PID = s.opt.Now(), o.Caller.UID, o.Caller.PID
	err = s.commit(tx, recFork, &r)
	return s.cat.workspaces[r.View], err
}

// after is the time when a ttl that begins now is over, nil for none.
func (s *core) after(ttl time.Duration) *time.Time {
	if ttl <= 0 {
		return nil
	}
	t := s.opt.Now().Add(ttl)
	return &t
}

type forkRecord struct {
	WS   uint32         `json:"ws"`   // the parent
	View uint32         `json:"view"` // of the fork
	Name string         `json:"name"`
	Base storedSnapshot `json:"base"`
	// From is the view of the snapshot that it starts from; the present state
	// when Now is set.
	From uint32 `json:"from"`
	Now  bool   `json:"now"`
	// Claim is the label that it was claimed by.
	Claim   string     `json:"claim,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
}

func (r *forkRecord) apply(c *entries, tx *live.Tx) error {
	parent, ok := c.workspaces[r.WS]
	if !ok {
		return fmt.Errorf("%w: the parent of %s", ErrNoFork, r.Name)
	}
	st, dir := parent.freeze(tx), parent.rec.Dir
	if !r.Now {
		var err error
		sn, ok := c.snaps[r.From]
		if !ok {
			return fmt.Errorf("%w: fork %s from a deleted snapshot", ErrNotFound, r.Name)
		}
		if st, err = sn.Tree(c.src); err != nil {
			return err
		}
		dir = sn.Dir
	}
	tx.UseView(r.View)
	w := c.newWorkspace(catalogue.WorkspaceRecord{
		View: r.View, Parent: r.WS, Fork: true, Name: r.Name, NextSeq: 1, Policy: parent.rec.Policy, Claim: r.Claim, Expires: r.Expires, Dir: dir,
	})
	c.workspaces[r.View] = w
	c.changed(r.View)
	parent.forks[r.Name] = w
	tx.AddView(r.View, st)
	w.at = tx.Changed(w.rec.View)
	r.Base.Dir = dir
	return c.setOrigin(tx, w, st, r.Base)
}

// BeganFrom is the name that the snapshot had which a fork began from; "" if it was a
// present state.
func (w *Workspace) BeganFrom() (name string) {
	w.read(func() {
		if o, ok := w.store.cat.snaps[w.rec.Base]; ok {
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
		for _, f := range fs.w.forks {
			i := ForkInfo{Name: f.rec.Name, Snapshots: f.snaps.Len(), Expires: f.rec.Expires, View: f.rec.View}
			if o, ok := s.cat.snaps[f.rec.Base]; ok {
				i.Base, i.Created = o.Parent, o.Created
			}
			st := f.present(tx)
			i.Files, i.Bytes = st.Inodes-1, st.Bytes
			out = append(out, i)
		}
	})
	slices.SortFunc(out, func(a, b ForkInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Named returns a fork of the workspace. ErrNoFork when there is none.
func (fs Forks) Named(name string) (f *Workspace, err error) {
	fs.w.read(func() { f, err = fs.named(name) })
	return f, err
}

func (fs Forks) named(name string) (*Workspace, error) {
	f, ok := fs.w.forks[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q; see `ls .forks` or `amberfs forks`", ErrNoFork, name)
	}
	return f, nil
}

func (fs Forks) Rename(a, b string, c actors.Caller) error {
	if err := naming.Check(b); err != nil {
		return err
	}
	s := fs.w.store
	err := s.forest.Update(true, func(tx *live.Tx) error {
		f, err := fs.named(a)
		if err != nil {
			return err
		}
		if _, used := fs.w.forks[b]; used {
			return errs.New(errs.Exist, "name in use: fork %q exists", b)
		}
		return s.commit(tx, recRenameFork, &renameForkRecord{View: f.rec.View, Name: b})
	})
	if err == nil {
		s.event(Event{Workspace: fs.w.rec.View, Action: "renamed-fork", From: a, Detail: b}, c)
	}
	return err
}

type renameForkRecord struct {
	View uint32 `json:"view"`
	Name string `json:"name"`
}

func (r *renameForkRecord) apply(c *entries, _ *live.Tx) error {
	f, ok := c.workspaces[r.View]
	if !ok {
		return nil
	}
	if p, ok := c.workspaces[f.rec.Parent]; ok {
		delete(p.forks, f.rec.Name)
		p.forks[r.Name] = f
	}
	f.rec.Name = r.Name
	c.changed(f.rec.View)
	return nil
}
