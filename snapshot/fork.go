package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ForkInfo describes a fork.
type ForkInfo struct {
	Name      string    `json:"name"`
	Origin    string    `json:"origin"` // the snapshot that it began from, "" for a present state
	Created   time.Time `json:"created"`
	Snapshots int       `json:"snapshots"`
	Files     int64     `json:"files"`
	Bytes     int64     `json:"bytes"`
	View      uint32    `json:"-"`
}

// Node returns the root node of the fork.
func (i ForkInfo) Node() live.NodeID { return live.Node(i.View, live.RootIno) }

// Fork makes a workspace that starts equal to a snapshot, or to the present
// state when snapshot is empty. It takes the same time whatever the size.
func (w *Workspace) Fork(_ context.Context, snapshot, name string, c live.Caller) (*Workspace, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	s := w.store
	start := time.Now()
	var fork *Workspace
	err := s.forest.Update(true, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		if _, used := w.forks[name]; used {
			return fmt.Errorf("%w: there is a fork %q already; choose another name", ErrExists, name)
		}
		r := forkRecord{WS: w.view, Name: name, Now: snapshot == ""}
		from := ""
		if snapshot != "" {
			sn, err := s.find(w, snapshot)
			if err != nil {
				return err
			}
			if _, err := s.stateOf(sn); err != nil {
				return err
			}
			r.From, from = sn.View, sn.Name
		}
		var err error
		if r.View, err = tx.NewView(); err != nil {
			return err
		}
		if r.Origin.View, err = tx.NewView(); err != nil {
			return err
		}
		r.Origin.WS = r.View
		r.Origin.Info = Info{Name: "origin", Origin: OriginFork, Parent: from, Created: time.Now(), UID: c.UID, PID: c.PID}
		if err := s.journal(tx, recFork, r); err != nil {
			return err
		}
		fork, err = s.applyFork(tx, r)
		return err
	})
	if err == nil {
		s.figures.forked(time.Since(start))
	}
	return fork, err
}

func (s *Store) applyFork(tx *live.Tx, r forkRecord) (*Workspace, error) {
	parent, ok := s.cat.workspaces[r.WS]
	if !ok {
		return nil, fmt.Errorf("%w: the parent of %s", ErrNoFork, r.Name)
	}
	st, err := tx.Capture(r.WS)
	if err != nil {
		return nil, err
	}
	if !r.Now {
		sn, ok := s.cat.snaps[r.From]
		if !ok {
			return nil, fmt.Errorf("%w: fork %s from a snapshot that is gone", ErrNotFound, r.Name)
		}
		if st, err = s.stateOf(sn); err != nil {
			return nil, err
		}
	}
	tx.UseView(r.View)
	w := newWorkspace(s, r.View, r.Name)
	w.fork, w.parent = true, r.WS
	w.policy = parent.policy
	s.cat.workspaces[r.View] = w
	s.cat.touchWS(r.View)
	parent.forks[r.Name] = w
	tx.AddView(r.View, st)
	w.at = tx.Changed(w.view)
	return w, s.setOrigin(tx, w, st, r.Origin)
}

// Forks returns the forks of the workspace, by name.
func (w *Workspace) Forks() []ForkInfo {
	var out []ForkInfo
	s := w.store
	s.look(func(tx *live.Tx) {
		for _, f := range w.forks {
			i := ForkInfo{Name: f.name, Snapshots: len(f.snaps), View: f.view}
			if o, ok := s.cat.snaps[f.origin]; ok {
				i.Origin, i.Created = o.Parent, o.Created
			}
			if st, ok := tx.State(f.view); ok {
				i.Files, i.Bytes = st.Inodes-1, st.Bytes
			}
			out = append(out, i)
		}
	})
	slices.SortFunc(out, func(a, b ForkInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ForkNamed returns a fork of the workspace. ErrNoFork when there is none.
func (w *Workspace) ForkNamed(name string) (f *Workspace, err error) {
	w.read(func() { f, err = w.forkNamed(name) })
	return f, err
}

func (w *Workspace) forkNamed(name string) (*Workspace, error) {
	f, ok := w.forks[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q; see `ls .forks` or `amberfs forks`", ErrNoFork, name)
	}
	return f, nil
}

// EndFork removes a fork. Its last state becomes a snapshot of this
// workspace, whose Info is returned.
func (w *Workspace) EndFork(name string, c live.Caller) (Info, error) {
	s := w.store
	var info Info
	var view uint32
	err := s.forest.Update(true, func(tx *live.Tx) error {
		f, err := w.forkNamed(name)
		if err != nil {
			return err
		}
		if len(f.forks) > 0 {
			return fmt.Errorf("%w: fork %q has forks of its own; end those first", ErrBusy, name)
		}
		if err := f.mayEnd(c); err != nil {
			return err
		}
		last, err := w.newSnapshot(tx, CaptureOptions{
			Name: w.freeName(name), Origin: OriginFork, Message: "last state of fork " + name, Caller: c,
		})
		if err != nil {
			return err
		}
		r := endForkRecord{View: f.view, Last: last}
		if st, ok := tx.State(f.view); ok {
			r.Last.Files, r.Last.Bytes = st.Inodes-1, st.Bytes
		}
		full, ok := s.cat.snaps[f.before]
		if ok && r.Last.Files == 0 && full.Files > 0 {
			if _, err := s.stateOf(full); err != nil {
				s.logger.Warn("what a fork was before it was emptied cannot be kept", "fork", name, "error", err)
				ok = false
			}
		}
		if ok && r.Last.Files == 0 && full.Files > 0 {
			k, err := w.newSnapshot(tx, CaptureOptions{
				Name: w.freeName(name + "-before"), Origin: OriginFork, Message: "fork " + name + " before it was emptied", Caller: c,
			})
			if err != nil {
				return err
			}
			k.Files, k.Bytes = full.Files, full.Bytes
			r.Full = &k
			r.Last.Seq++
		}
		if err := s.journal(tx, recEndFork, r); err != nil {
			return err
		}
		info, view = last.Info, f.view
		return s.applyEndFork(tx, r)
	})
	if err != nil {
		return info, err
	}
	s.event(Event{Workspace: w.view, Action: "captured", From: info.Name, Caller: c})
	s.event(Event{Workspace: view, Action: "ended", Caller: c})
	return info, nil
}

// freeName is the fork's name if no snapshot has it, or one made from it.
func (w *Workspace) freeName(name string) string {
	free := name
	for i := 2; ; i++ {
		if _, used := w.byName[free]; !used && CheckName(free) == nil {
			return free
		}
		free = fmt.Sprintf("%.100s-%d", name, i)
	}
}

func (s *Store) applyEndFork(tx *live.Tx, r endForkRecord) error {
	f, ok := s.cat.workspaces[r.View]
	if !ok {
		return nil
	}
	parent := s.cat.workspaces[f.parent]
	st, err := tx.Capture(r.View)
	if err != nil {
		return err
	}
	if full, ok := s.cat.snaps[f.before]; ok && r.Full != nil {
		was, err := s.stateOf(full)
		if err != nil {
			return err
		}
		if err := s.keepLast(tx, *r.Full, was); err != nil {
			return err
		}
	}
	if err := s.keepLast(tx, r.Last, st); err != nil {
		return err
	}
	for _, old := range slices.Clone(f.snaps) {
		s.cat.remove(old)
	}
	for _, view := range []uint32{f.origin, f.before} {
		if sn, ok := s.cat.snaps[view]; ok {
			s.cat.remove(sn)
		}
	}
	tx.DropView(f.view)
	delete(s.cat.workspaces, f.view)
	if parent != nil {
		delete(parent.forks, f.name)
	}
	s.cat.touchWS(f.view)
	s.garbage.removed.Add(1)
	return nil
}

// keepLast makes a state of a fork that ends a snapshot of its parent.
func (s *Store) keepLast(tx *live.Tx, r stored, st *tree.State) error {
	sn, err := fromStored(r)
	if err != nil {
		return err
	}
	tx.UseView(sn.View)
	sn.state.Store(st)
	s.cat.add(sn)
	s.seal.push(sn)
	return nil
}

// RenameFork gives a fork another name.
func (w *Workspace) RenameFork(a, b string) error {
	if err := CheckName(b); err != nil {
		return err
	}
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		f, err := w.forkNamed(a)
		if err != nil {
			return err
		}
		if _, used := w.forks[b]; used {
			return fmt.Errorf("%w: there is a fork %q already", ErrExists, b)
		}
		r := renameForkRecord{View: f.view, Name: b}
		if err := s.journal(tx, recRenameFork, r); err != nil {
			return err
		}
		s.applyRenameFork(r)
		return nil
	})
}

func (s *Store) applyRenameFork(r renameForkRecord) {
	f, ok := s.cat.workspaces[r.View]
	if !ok {
		return
	}
	if p, ok := s.cat.workspaces[f.parent]; ok {
		delete(p.forks, f.name)
		p.forks[r.Name] = f
	}
	f.name = r.Name
	s.cat.touchWS(f.view)
}
