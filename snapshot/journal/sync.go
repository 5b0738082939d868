package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A syncState records the durable part of the log, and lets several callers of Sync share one fdatasync.
type syncState struct {
	mu      sync.Mutex
	done    sync.Cond
	running bool // one caller runs syncAll

	durable  atomic.Int64 // position up to which the log was synced
	names    atomic.Int64 // number of segments that were created
	dirNames int64        // the value of names before the last sync of the directory
	behind   int64        // syncBehind; tests set a lower value
	soon     atomic.Bool  // a background Sync is scheduled, see SyncSoon
}

// Sync returns when all records that were appended before the call survive a power cut.
// Callers that wait at the same time share one fdatasync.
func (j *Journal) Sync() error { return j.syncTo(j.end.Load()) }

// syncTo returns when the log is durable up to target.
func (j *Journal) syncTo(target int64) error {
	if j.sync.durable.Load() >= target {
		return j.Failed()
	}
	st := &j.sync
	st.mu.Lock()
	defer st.mu.Unlock()

	for {
		if err := j.Failed(); err != nil {
			return err
		}
		if j.sync.durable.Load() >= target {
			return nil
		}
		if !st.running {
			break
		}
		st.done.Wait()
	}

	st.running = true
	st.mu.Unlock()
	err := j.syncAll()
	st.mu.Lock()
	st.running = false
	st.done.Broadcast()

	return err
}

// syncAll makes all records so far durable. Only the caller that has set
// syncState.running may call it.
func (j *Journal) syncAll() error {
	// The order of the loads matters: the records before end are in segments of the list, and
	// names counts these segments.
	from, end := j.sync.durable.Load(), j.end.Load()
	names := j.sync.names.Load()
	segs := j.segments()
	for i, s := range segs {
		if i+1 < len(segs) && segs[i+1].base <= from {
			continue
		}
		if s.base >= end {
			continue // all its records are after end
		}
		// The file of this segment is open: DropBefore closes only files of durable segments.
		if err := s.f.Sync(); err != nil {
			return j.fail(j.log, fmt.Sprintf("syncing segment %s", s.name), err)
		}
	}

	if names != j.sync.dirNames {
		if err := j.disk.fs.SyncDir(j.disk.dir); err != nil {
			return j.fail(j.log, "syncing the directory", err)
		}
		j.sync.dirNames = names
	}

	j.sync.durable.Store(end)

	return nil
}

// syncBehind is the number of bytes that are not durable at which a background Sync starts. Such bytes
// cost time later: the next Open reads them to find the end of the log, and a Sync writes them.
const syncBehind = 128 << 20

// syncFarBehind starts a background Sync if syncBehind bytes are not durable. The caller holds j.mu.
func (j *Journal) syncFarBehind() {
	if j.end.Load()-j.sync.durable.Load() >= j.sync.behind {
		j.SyncSoon()
	}
}

// syncDelay is the time between SyncSoon and its Sync. In this time the disk is free for the caller of
// SyncSoon and for the next changes, and further calls of SyncSoon share the Sync.
const syncDelay = 10 * time.Millisecond

// SyncSoon starts a Sync in the background, syncDelay later. An error is logged, and
// every later Append and Sync returns it.
func (j *Journal) SyncSoon() {
	if j.sync.soon.CompareAndSwap(false, true) {
		time.AfterFunc(syncDelay, func() {
			j.sync.soon.Store(false)
			_ = j.Sync()
		})
	}
}

// Durable returns the position up to which the log survives a power cut.
func (j *Journal) Durable() int64 { return j.sync.durable.Load() }
