package snapshot

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
)

// figures are the counts and times that Status tells of.
type figures struct {
	mu sync.Mutex
	s  Figures
}

// Figures tell what the store did since it was opened. Times are in
// milliseconds.
type Figures struct {
	Captures        int64   `json:"captures"`
	LastCaptureMs   float64 `json:"last_capture_ms"`
	Restores        int64   `json:"restores"`
	LastRestoreMs   float64 `json:"last_restore_ms"`
	Forks           int64   `json:"forks"`
	LastForkMs      float64 `json:"last_fork_ms"`
	Seals           int64   `json:"seals"`
	LastSealMs      float64 `json:"last_seal_ms"`
	SealedBytes     int64   `json:"sealed_bytes"`
	Checkpoints     int64   `json:"checkpoints"`
	LastCheckpoint  float64 `json:"last_checkpoint_ms"`
	GarbageCollects int64   `json:"gcs"`
}

// msSince is in milliseconds.
func msSince(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }

func (f *figures) note(fn func(s *Figures)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(&f.s)
}

// Status tells how a workspace and its store are.
type Status struct {
	Store        string `json:"store"`
	Workspace    string `json:"workspace"`
	Snapshots    int    `json:"snapshots"`
	Forks        int    `json:"forks"`
	Files        int64  `json:"files"`         // of the workspace, without its root
	LogicalBytes int64  `json:"logical_bytes"` // sum of its file sizes
	// ReferencedBytes is that sum over all workspaces and snapshots: what they
	// would take without sharing.
	ReferencedBytes int64     `json:"referenced_bytes"`
	StoredBytes     int64     `json:"stored_bytes"` // packs, on disk
	ChunkBytes      int64     `json:"chunk_bytes"`  // what is in the packs, uncompressed
	Objects         int64     `json:"objects"`
	Packs           int       `json:"packs"`
	JournalBytes    int64     `json:"journal_bytes"`
	Records         uint64    `json:"journal_records"` // written since the store was made
	Unsealed        int       `json:"unsealed"`        // snapshots that wait for their id
	CacheBytes      int64     `json:"cache_bytes"`
	Frozen          bool      `json:"frozen"`
	LastSnapshot    string    `json:"last_snapshot,omitempty"`
	LastCaptured    time.Time `json:"last_captured,omitzero"`
	Figures         Figures   `json:"figures"`
	Health          string    `json:"health"` // ok, or what is wrong
	DiskFreeBytes   int64     `json:"disk_free_bytes"`
	// UnsharedBytes are those that a fork has and others have not, and UnsharedLimit
	// how many it may have, if there is a limit.
	UnsharedBytes int64 `json:"unshared_bytes,omitempty"`
	UnsharedLimit int64 `json:"unshared_limit,omitempty"`
}

// Status tells how the workspace and its store are.
func (w *Workspace) Status() Status {
	s := w.store
	c := s.cas.Stats()
	st := Status{
		Store: s.dir, StoredBytes: c.Stored, ChunkBytes: c.Bytes, Objects: c.Objects, Packs: c.Packs,
		JournalBytes: s.log.Size(), Records: s.log.Records(), Unsealed: s.seal.len(), CacheBytes: s.src.CacheBytes(), Health: "ok",
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
			st.LastSnapshot, st.LastCaptured = w.snaps[n-1].Name, w.snaps[n-1].Created
		}
	})
	s.figures.note(func(f *Figures) { st.Figures = *f })
	st.UnsharedBytes, st.UnsharedLimit = w.Usage()
	if err := errors.Join(s.log.Failed(), s.forest.Failed()); err != nil {
		st.Health = err.Error() + "; nothing can be changed before it is unmounted and mounted again"
	} else if free, err := s.Free(); err == nil {
		st.DiskFreeBytes = free
		if free <= 0 {
			st.Health = "the store's disk is full; remove snapshots and run `amberfs gc`"
		}
	}
	if st.Health == "ok" && st.UnsharedLimit > 0 && st.UnsharedBytes >= st.UnsharedLimit-createBytes {
		st.Health = fmt.Sprintf("the fork has all %d bytes of its own that it may have; remove files, and snapshots that have them", st.UnsharedLimit)
	}
	return st
}
