package journal

import (
	"fmt"
	"sync"
	"time"
)

// syncState is where callers that want the log durable wait for each other.
type syncState struct {
	mu      sync.Mutex
	done    sync.Cond
	running bool
	names   int64 // value of Journal.names that the last directory sync covered
}

// Sync returns when everything appended before the call survives a power cut.
// Callers that wait at the same time share one fdatasync.
func (j *Journal) Sync() error { return j.syncTo(j.end.Load()) }

func (j *Journal) syncTo(target int64) error {
	if j.durable.Load() >= target {
		return j.Failed()
	}
	st := &j.sync
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		if err := j.Failed(); err != nil {
			return err
		}
		if j.durable.Load() >= target {
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

// syncAll makes everything appended so far durable. The one that set
// syncState.running runs it.
func (j *Journal) syncAll() error {
	// The order matters: whatever is before end is in a segment of the list,
	// and its name is among the names.
	from, end := j.durable.Load(), j.end.Load()
	names := j.names.Load()
	segs := j.segments()
	for i, s := range segs {
		if i+1 < len(segs) && segs[i+1].base <= from {
			continue
		}
		if s.base >= end {
			continue // later than what is asked for
		}
		// The file is open, because only durable segments are dropped.
		if err := s.f.Sync(); err != nil {
			return j.fail(j.log, fmt.Sprintf("syncing segment %s", s.name), err)
		}
	}
	if names != j.sync.names {
		if err := j.disk.fs.SyncDir(j.disk.dir); err != nil {
			return j.fail(j.log, "syncing the directory", err)
		}
		j.sync.names = names
	}
	j.durable.Store(end)
	return nil
}

// syncBehind is how many bytes of the log may be not durable before a background sync starts. The
// next Open reads all of them to find the end, and a caller of Sync waits for them.
const syncBehind = 128 << 20

// syncFarBehind syncs the log in the background if much of it is not durable. j.mu is
// held.
func (j *Journal) syncFarBehind() {
	if j.end.Load()-j.durable.Load() >= j.behind {
		j.SyncSoon()
	}
}

// syncDelay keeps the disk free for the caller of SyncSoon and for the changes that
// follow at once, and lets later calls share one Sync.
const syncDelay = 10 * time.Millisecond

// SyncSoon starts a Sync in the background, syncDelay later. A failure is logged, and
// every later call returns it.
func (j *Journal) SyncSoon() {
	if j.soon.CompareAndSwap(false, true) {
		time.AfterFunc(syncDelay, func() {
			j.soon.Store(false)
			_ = j.Sync()
		})
	}
}

// Durable is the position up to which the log survives a power cut.
func (j *Journal) Durable() int64 { return j.durable.Load() }
