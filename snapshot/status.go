package snapshot

import (
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Status returns sizes and counts of the workspace and the store. Health is "ok" or the most urgent problem, as a
// sentence for the user. The status of a fork does not mention other forks.
func (w *Workspace) Status() info.Status {
	s := w.store
	c := s.cas.Stats()
	st := info.Status{
		Store: s.dir, PackSizes: info.PackSizes{StoredBytes: c.StoredBytes, ChunkBytes: c.PlainBytes, Objects: c.Objects, Packs: c.Packs},
		JournalBytes: s.log.Size(), Records: s.log.RecordCount(), NotStored: s.sealer.Len(), CacheBytes: s.src.CacheBytes(), Health: "ok",
		Frozen: s.forest.Freezer.IsFrozen(),
	}

	s.forest.WithReadLock(func(tx *live.Tx) {
		st.Workspace, st.Snapshots, st.Forks = w.ws.Name, w.ws.Snapshots.Len(), w.ws.ForkCount()
		if t, ok := tx.State(w.ws.View); ok {
			st.Files, st.LogicalBytes = t.Inodes-1, t.Bytes
		}

		referenced := s.cat.Bytes
		for _, w := range s.cat.Workspaces.All() {
			referenced.Add(w.PresentState(tx).Bytes)
		}

		st.ReferencedBytes = referenced.Int64()
		if sn := w.ws.Snapshots.Newest(); sn != nil {
			st.LastSnapshot, st.LastSnapshotAt = sn.Name, sn.Created
		}
	})

	st.Metrics = s.parts.Metrics.Get()
	st.UnsharedBytes, st.UnsharedLimit = w.Quota().Usage()

	if err := errors.Join(s.log.WriteErr(), s.forest.Failure()); err != nil {
		st.Health = err.Error() + "; unmount and mount again before changes are possible"
	} else if free, err := s.FreeBytes(); err == nil {
		st.DiskFreeBytes = free
		if free <= 0 {
			st.Health = "the store's disk is full; delete snapshots and run `amberfs gc`"
		} else if free < nearlyFullBytes {
			st.Health = fmt.Sprintf("the store's disk is nearly full (%d KiB are free), and writes fail; delete snapshots and run `amberfs gc`", free>>10)
		}
	}

	if st.Health == "ok" && s.readOnlyWorkspace != "" && (s.readOnlyWorkspace == st.Workspace || !w.ws.Fork) {
		st.Health = fmt.Sprintf("workspace %s is read-only: daemons were killed while they opened it, perhaps for want of memory; unmount, and mount again with more memory", s.readOnlyWorkspace)
	}

	if failing := s.ckpt.LastError(); st.Health == "ok" && failing != "" {
		st.Health = "changes are not sealed: the last checkpoint failed for them; nothing is lost"
		if !w.ws.Fork { // the text may contain the name of another fork
			st.Health += ": " + failing
		}
	}

	if damage := s.gc.DamageText(); st.Health == "ok" && damage != "" && !w.ws.Fork { // the text may contain the name of another fork
		st.Health = damage
	}
	if st.Health == "ok" && st.UnsharedLimit > 0 && st.UnsharedBytes >= st.UnsharedLimit-engine.NewNameBytes {
		st.Health = fmt.Sprintf("the fork has reached its limit of %d bytes; delete files, and snapshots that contain them", st.UnsharedLimit)
	}

	return st
}

// nearlyFullBytes is a number of free bytes on the disk. With fewer bytes most writes fail, because the journal
// cannot grow.
const nearlyFullBytes = 4 << 20
