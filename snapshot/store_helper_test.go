package snapshot

import (
	"context"
	"encoding/json"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// SetPolicy replaces the policy.
func (w *Workspace) SetPolicy(p policy.Policy, c actors.Caller) error {
	b, err := json.Marshal(p)
	if err == nil {
		_, err = w.PatchPolicy(b, c)
	}
	return err
}

// Delete removes a snapshot.
func (ss Snapshots) Delete(name string, c actors.Caller) error {
	_, err := ss.DeleteAll([]string{name}, c)
	return err
}

// Workspaces returns all workspaces.
func (s *Store) Workspaces() []*Workspace {
	var out []*Workspace
	s.forest.WithReadLock(func(*live.Tx) {
		for _, w := range s.workspaces.byView {
			out = append(out, w)
		}
	})
	return out
}

// GCWithoutCheckpoint has no checkpoint made before a gc if there is anything to seal.
func (s *Store) GCWithoutCheckpoint() { s.ckpt.MaxGCSealBytes = -1 }

// SealThrough has seals read objects from elsewhere, with a cache of a few bytes.
func (s *Store) SealThrough(o content.ObjectStore) { s.sealer.Source = tree.NewSource(o, s.log, 1) }

// ApplyPolicies applies the policies of all workspaces once.
func (s *Store) ApplyPolicies() { s.policies.Round() }

// Reachable returns every object that a gc has to keep, each state looked at alone.
func (s *Store) Reachable(ctx context.Context) (map[cas.Hash]bool, error) {
	roots, err := s.parts.Roots()
	if err == nil {
		err = roots.ReadCheckpoint()
	}
	if err != nil {
		return nil, err
	}
	all := map[cas.Hash]bool{}
	for _, h := range roots.LeafObjects {
		all[h] = true
	}
	mark := func(st *tree.State) error {
		return st.Mark(ctx, s.src, nil, false, func(h cas.Hash) bool {
			all[h] = true
			return true
		})
	}
	for _, r := range roots.Snapshots {
		for _, h := range r.ActorSets {
			all[h] = true
		}
		st, err := tree.Load(s.src, r.ID)
		if err != nil {
			return nil, err
		}
		if err := mark(st); err != nil {
			return nil, err
		}
	}
	return all, roots.EachState(mark)
}
