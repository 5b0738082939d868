package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A syncState records the durable part of the log, and lets several callers of Sync share one fdatasync.
type syncState struct {
	mu       sync.Mutex
	finished sync.Cond
	running  bool // one caller runs syncAll

	durablePos      atomic.Int64 // position up to which the log was synced
	segmentsCreated atomic.Int64 // number of segments that were created
	segmentsInDir   int64        // the value of segmentsCreated before the last sync of the directory
	maxUnsynced     int64        // maxUnsyncedBytes; tests set a lower value
	scheduled       atomic.Bool  // a background Sync is scheduled, see SyncSoon
}

// Sync returns when all records that were appended before the call survive a power cut.
// Callers that wait at the same time share one fdatasync.
func (j *Journal) Sync() error { return j.syncTo(j.end.Load()) }

// syncTo returns when the log is durable up to target.
func (j *Journal) syncTo(target int64) error {
	if j.sync.durablePos.Load() >= target {
		return j.WriteErr()
	}
	st := &j.sync
	st.mu.Lock()
	defer st.mu.Unlock()

	for {
		if err := j.WriteErr(); err != nil {
			return err
		}
		if j.sync.durablePos.Load() >= target {
			return nil
		}
		if !st.running {
			break
		}
		st.finished.Wait()
	}

	st.running = true
	st.mu.Unlock()
	err := j.syncAll()
	st.mu.Lock()
	st.running = false
	st.finished.Broadcast()

	return err
}

// syncAll makes all records so far durable. Only the caller that has set
// syncState.running may call it.
func (j *Journal) syncAll() error {
	// The order of the loads matters: the records before end are in segments of the list, and
	// segmentsCreated counts these segments.
	from, end := j.sync.durablePos.Load(), j.end.Load()
	created := j.sync.segmentsCreated.Load()
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

	if created != j.sync.segmentsInDir {
		if err := j.disk.fs.SyncDir(j.disk.dir); err != nil {
			return j.fail(j.log, "syncing the directory", err)
		}
		j.sync.segmentsInDir = created
	}

	j.sync.durablePos.Store(end)

	return nil
}

// maxUnsyncedBytes is the number of bytes that are not durable at which a background Sync starts. Such bytes
// cost time later: the next Open reads them to find the end of the log, and a Sync writes them.
const maxUnsyncedBytes = 128 << 20

// syncIfFarBehind starts a background Sync if maxUnsyncedBytes bytes are not durable. The caller holds j.mu.
func (j *Journal) syncIfFarBehind() {
	if j.end.Load()-j.sync.durablePos.Load() >= j.sync.maxUnsynced {
		j.SyncSoon()
	}
}

// syncDelay is the time between SyncSoon and its Sync. In this time the disk is free for the caller of
// SyncSoon and for the next changes, and further calls of SyncSoon share the Sync.
const syncDelay = 10 * time.Millisecond

// SyncSoon starts a Sync in the background, syncDelay later. An error is logged, and
// every later Append and Sync returns it.
func (j *Journal) SyncSoon() {
	if j.sync.scheduled.CompareAndSwap(false, true) {
		time.AfterFunc(syncDelay, func() {
			j.sync.scheduled.Store(false)
			_ = j.Sync()
		})
	}
}

// DurablePos returns the position up to which the log survives a power cut.
func (j *Journal) DurablePos() int64 { return j.sync.durablePos.Load() }
