package snapshot

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/usage"
)

// metrics are the counts and times of Status.
type metrics struct {
	mu sync.Mutex
	s  Metrics
}

// Metrics count what the store did since it was opened. Times are in milliseconds.
type Metrics struct {
	Snapshots       int64   `json:"snapshots"`
	LastSnapshotMs  float64 `json:"last_snapshot_ms"`
	Restores        int64   `json:"restores"`
	LastRestoreMs   float64 `json:"last_restore_ms"`
	Forks           int64   `json:"forks"`
	LastForkMs      float64 `json:"last_fork_ms"`
	Stored          int64   `json:"stored"`
	LastStoreMs     float64 `json:"last_store_ms"`
	PackedBytes     int64   `json:"packed_bytes"`
	Checkpoints     int64   `json:"checkpoints"`
	LastCheckpoint  float64 `json:"last_checkpoint_ms"`
	GarbageCollects int64   `json:"gcs"`
}

// msSince is in milliseconds.
func msSince(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }

func (f *metrics) note(fn func(s *Metrics)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(&f.s)
}

// Status is the state of a workspace and its store.
type Status struct {
	Store           string    `json:"store" jsonschema:"the store's directory"`
	Workspace       string    `json:"workspace"`
	Snapshots       int       `json:"snapshots" jsonschema:"number of snapshots of the workspace"`
	Forks           int       `json:"forks" jsonschema:"number of forks of the workspace"`
	Files           int64     `json:"files" jsonschema:"number of files of the workspace, without its root"`
	LogicalBytes    int64     `json:"logical_bytes" jsonschema:"sum of its file sizes"`
	ReferencedBytes int64     `json:"referenced_bytes" jsonschema:"the same sum over all workspaces and snapshots: their size without sharing"`
	StoredBytes     int64     `json:"stored_bytes" jsonschema:"size of the packs on disk"`
	ChunkBytes      int64     `json:"chunk_bytes" jsonschema:"contents of the packs before compression"`
	Objects         int64     `json:"objects" jsonschema:"number of objects in the packs"`
	Packs           int       `json:"packs" jsonschema:"number of packs"`
	JournalBytes    int64     `json:"journal_bytes" jsonschema:"size of the journal"`
	Records         uint64    `json:"journal_records" jsonschema:"records written to the journal since the store was created"`
	NotStored       int       `json:"not_stored" jsonschema:"number of snapshots that are not stored yet"`
	CacheBytes      int64     `json:"cache_bytes" jsonschema:"decoded pages and chunks in memory"`
	Frozen          bool      `json:"frozen" jsonschema:"whether changes wait for the end of a freeze"`
	LastSnapshot    string    `json:"last_snapshot,omitempty" jsonschema:"the newest snapshot"`
	LastSnapshotAt  time.Time `json:"last_snapshot_time,omitzero" jsonschema:"when it was taken"`
	Metrics         Metrics   `json:"metrics" jsonschema:"counts and durations of operations since the mount"`
	Health          string    `json:"health" jsonschema:"ok, or the problem"`
	DiskFreeBytes   int64     `json:"disk_free_bytes" jsonschema:"bytes that can still be written"`
	UnsharedBytes   int64     `json:"unshared_bytes,omitempty" jsonschema:"bytes that only this fork stored"`
	UnsharedLimit   int64     `json:"unshared_limit,omitempty" jsonschema:"the limit of unshared_bytes, if any"`
}

// Status returns the state of the workspace and its store.
func (w *Workspace) Status() Status {
	s := w.store
	c := s.cas.Stats()
	st := Status{
		Store: s.dir, StoredBytes: c.Stored, ChunkBytes: c.Bytes, Objects: c.Objects, Packs: c.Packs,
		JournalBytes: s.log.Size(), Records: s.log.Records(), NotStored: s.seal.len(), CacheBytes: s.src.CacheBytes(), Health: "ok",
		Frozen: s.forest.Frozen(),
	}
	s.look(func(tx *live.Tx) {
		st.Workspace, st.Snapshots, st.Forks = w.name, len(w.snaps), len(w.forks)
		if t, ok := tx.State(w.view); ok {
			st.Files, st.LogicalBytes = t.Inodes-1, t.Bytes
		}
		st.ReferencedBytes = s.cat.bytes
		for view := range s.cat.workspaces {
			if t, ok := tx.State(view); ok {
				st.ReferencedBytes += t.Bytes
			}
		}
		if n := len(w.snaps); n > 0 {
			st.LastSnapshot, st.LastSnapshotAt = w.snaps[n-1].Name, w.snaps[n-1].Created
		}
	})
	s.metrics.note(func(f *Metrics) { st.Metrics = *f })
	st.UnsharedBytes, st.UnsharedLimit = w.Usage()
	if err := errors.Join(s.log.Failed(), s.forest.Failed()); err != nil {
		st.Health = err.Error() + "; unmount and mount again before changes are possible"
	} else if free, err := s.Free(); err == nil {
		st.DiskFreeBytes = free
		if free <= 0 {
			st.Health = "the store's disk is full; delete snapshots and run `amberfs gc`"
		}
	}
	if st.Health == "ok" && st.UnsharedLimit > 0 && st.UnsharedBytes >= st.UnsharedLimit-usage.CreateBytes {
		st.Health = fmt.Sprintf("the fork has reached its limit of %d bytes; delete files, and snapshots that contain them", st.UnsharedLimit)
	}
	return st
}
