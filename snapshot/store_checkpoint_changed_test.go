package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// TestCheckpointOfChangedWorkspaces: a checkpoint writes only workspaces that changed, however
// many there are.
func TestCheckpointOfChangedWorkspaces(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	for i := range 100 {
		forkNamed(t, s.Main(), fmt.Sprint("f", i))
	}
	must.OK(t, s.Checkpoint(t.Context()))
	written := func() int64 {
		i, err := os.Stat(filepath.Join(s.Dir(), "manifest"))
		must.OK(t, err)
		return i.Size()
	}
	before := written()
	_, err = s.Forest().Create(s.Main().Root(), "x", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	must.OK(t, s.Checkpoint(t.Context()))
	if n := written() - before; n <= 0 || n > 4<<10 {
		t.Errorf("a checkpoint of one change wrote %d bytes of the catalogue", n)
	}
	s.SameAsStored(t)
}

// TestCheckpointOfAChangedRecord: a checkpoint that writes a workspace for its record alone keeps
// the unlinked files that a program has open.
func TestCheckpointOfAChangedRecord(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	s.Forest().Takeover.SetMount(live.Mount{IsHeld: func(live.NodeID) bool { return true }})
	_, err = s.Forest().Create(s.Main().Root(), "x", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	_, err = s.Forest().Unlink(s.Main().Root(), "x")
	must.OK(t, err)
	must.OK(t, s.Checkpoint(t.Context()))
	_, err = s.Main().PatchPolicy([]byte(`{"expire_seconds":55}`), actors.Caller{})
	must.OK(t, err)
	must.OK(t, s.Checkpoint(t.Context()))
	s.SameAsStored(t)
}

// SameAsStored compares every workspace with its record in the last checkpoint. Nothing
// changed since.
func (s *Store) SameAsStored(t *testing.T) {
	t.Helper()
	stored := make(map[uint32]catalogue.WorkspaceRecord)
	must.OK(t, catalogue.Scan(s.cas, catalogue.WorkspacePrefix, func(r catalogue.WorkspaceRecord) error {
		stored[r.View] = r
		return nil
	}))
	present, states := make(map[uint32]catalogue.WorkspaceRecord), make(map[uint32]*tree.State)
	var orphans map[uint32]*tree.State
	s.forest.WithLock(func(tx *live.Tx) {
		for view, w := range s.cat.Workspaces.All() {
			states[view] = tx.Freeze(w.View)
			r := w.Record(states[view])
			r.Exports, r.Actors, r.ActorSets = s.meter.ExportedBytes(view), w.PresentActors(tx), nil
			present[view] = r
		}
		var err error
		orphans, err = tx.Orphans(slices.Collect(maps.Keys(present)))
		must.OK(t, err)
	})
	id := func(view uint32, st *tree.State) cas.Hash {
		new(tree.UnsealedContents).Each(st, true, func(*content.Content) { t.Errorf("workspace %d has files that are not sealed", view) })
		h, err := s.sealer.SealInTurn(t.Context(), view, st)
		must.OK(t, err)
		return h
	}
	for view, r := range present {
		r.State = id(view, states[view]).String()
		if st := orphans[view]; st != nil {
			r.Orphans = &catalogue.PartlySealedState{State: id(view, st)}
		}
		was := stored[view]
		was.ActorSets = nil
		a, _ := json.Marshal(r)
		b, _ := json.Marshal(was)
		if string(a) != string(b) {
			t.Errorf("workspace %d is\n%s, stored is\n%s", view, a, b)
		}
	}
	if len(stored) != len(present) {
		t.Errorf("%d workspaces, %d are stored", len(present), len(stored))
	}
}
