package info

import (
	"sync"
	"time"
)

// A Recorder counts the metrics of an open store. It is safe for concurrent use.
type Recorder struct {
	mu      sync.Mutex
	metrics Metrics
}

// Metrics are counts and durations of operations since the store was opened. Durations are in
// milliseconds.
type Metrics struct {
	Snapshots        int64   `json:"snapshots"`
	LastSnapshotMs   float64 `json:"last_snapshot_ms"`
	Restores         int64   `json:"restores"`
	LastRestoreMs    float64 `json:"last_restore_ms"`
	Forks            int64   `json:"forks"`
	LastForkMs       float64 `json:"last_fork_ms"`
	Stored           int64   `json:"stored"`
	LastStoreMs      float64 `json:"last_store_ms"`
	PackedBytes      int64   `json:"packed_bytes"`
	Checkpoints      int64   `json:"checkpoints"`
	LastCheckpointMs float64 `json:"last_checkpoint_ms"`
	// CheckpointsFailed counts failed checkpoints, which Checkpoints does not include.
	CheckpointsFailed int64 `json:"checkpoints_failed"`
	GarbageCollects   int64 `json:"gcs"`
}

// MsSince returns the milliseconds since start.
func MsSince(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }

// Update calls fn, which changes the metrics.
func (r *Recorder) Update(fn func(m *Metrics)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.metrics)
}

// Get returns a copy of the metrics.
func (r *Recorder) Get() (m Metrics) {
	r.Update(func(now *Metrics) { m = *now })
	return m
}

// PackSizes are the sizes of the packs of a store.
type PackSizes struct {
	StoredBytes int64 `json:"stored_bytes" jsonschema:"size of the packs on disk"`
	ChunkBytes  int64 `json:"chunk_bytes" jsonschema:"contents of the packs before compression"`
	Objects     int64 `json:"objects"`
	Packs       int   `json:"packs"`
}

// Status is the state of a workspace and its store.
type Status struct {
	Store           string `json:"store"`
	Workspace       string `json:"workspace"`
	Snapshots       int    `json:"snapshots"`
	Forks           int    `json:"forks"`
	Files           int64  `json:"files" jsonschema:"number of files of the workspace, without its root"`
	LogicalBytes    int64  `json:"logical_bytes" jsonschema:"sum of its file sizes"`
	ReferencedBytes int64  `json:"referenced_bytes" jsonschema:"the same sum over all workspaces and snapshots: their size without sharing"`
	PackSizes
	JournalBytes   int64     `json:"journal_bytes" jsonschema:"size of the journal"`
	Records        uint64    `json:"journal_records" jsonschema:"records written to the journal since the store was created"`
	NotStored      int       `json:"not_stored" jsonschema:"number of snapshots that are not stored yet"`
	CacheBytes     int64     `json:"cache_bytes" jsonschema:"decoded pages and chunks in memory"`
	Frozen         bool      `json:"frozen" jsonschema:"whether changes wait for the end of a freeze"`
	LastSnapshot   string    `json:"last_snapshot,omitempty"`
	LastSnapshotAt time.Time `json:"last_snapshot_time,omitzero"`
	Metrics        Metrics   `json:"metrics" jsonschema:"counts and durations of operations since the mount"`
	Health         string    `json:"health" jsonschema:"ok, or the problem"`
	DiskFreeBytes  int64     `json:"disk_free_bytes" jsonschema:"bytes that can still be written"`
	UnsharedBytes  int64     `json:"unshared_bytes,omitempty" jsonschema:"bytes that only this fork stored"`
	UnsharedLimit  int64     `json:"unshared_limit,omitempty" jsonschema:"the limit of unshared_bytes, if any"`
}
