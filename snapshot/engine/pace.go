package engine

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/snapshot/content"
)

const (
	// Writers are idle while they write less than idleTickBytes in idleTick.
	idleTick      = 20 * time.Millisecond
	idleTickBytes = 256 << 10
	// maxIdleWait is the longest time that AwaitIdle waits.
	maxIdleWait = 5 * time.Second
	// While writers are active, a seal pauses after each sealTurnTime. With one processor it pauses for
	// sealTurnTime, else for turnPause, in which Go's scheduler gives the processor (P) to waiting requests.
	sealTurnTime = 2 * time.Millisecond
	turnPause    = 50 * time.Microsecond
)

// A Pacer measures how fast the journal grows, and slows seals down while writers are active.
type Pacer struct {
	JournalEnd      func() int64 // returns the end of the journal
	JournalOutgrown func() bool  // reports whether the journal should be sealed soon

	sealWaiters atomic.Int32 // number of callers that wait for a seal
	measuredAt  atomic.Int64 // time of the last measurement, in ns
	measuredEnd atomic.Int64 // end of the journal at that time
	growthBytes atomic.Int64 // growth of the journal between the last two measurements
	pausedAt    atomic.Int64 // time of the last pause, in ns
}

// IsThrottled reports whether a seal should leave a processor to writers. The result depends on the growth of
// the journal in the last idleTick:
//   - without growth, false;
//   - below idleTickBytes, true;
//   - above, true unless a caller waits for the seal or the journal is too large.
func (p *Pacer) IsThrottled() bool {
	now, end := time.Now().UnixNano(), p.JournalEnd()
	if now-p.measuredAt.Load() > int64(idleTick) {
		p.measuredAt.Store(now)
		p.growthBytes.Store(end - p.measuredEnd.Swap(end))
	}

	growth := max(p.growthBytes.Load(), end-p.measuredEnd.Load())
	return growth > 0 && (growth < idleTickBytes || p.sealWaiters.Load() == 0 && !p.JournalOutgrown())
}

// BeginUrgent makes seals run without pauses until done is called.
func (p *Pacer) BeginUrgent() (done func()) {
	p.sealWaiters.Add(1)
	return func() { p.sealWaiters.Add(-1) }
}

// AwaitIdle waits until the writers are idle, because files that they remove before that time need
// not be sealed unless a snapshot contains them. It waits for maxIdleWait at most, and not at all when
// the journal should be sealed soon.
func (p *Pacer) AwaitIdle(g *loops.Group) {
	for began := time.Now(); time.Since(began) < maxIdleWait && !p.JournalOutgrown() && g.Context.Err() == nil; {
		end := p.JournalEnd()
		g.Pause(idleTick)
		if p.JournalEnd()-end < idleTickBytes {
			return
		}
	}
}

// Objects returns an object store that yields to writers after each Put.
func (p *Pacer) Objects(o content.ObjectStore) content.ObjectStore { return yieldingStore{o, p} }

// A yieldingStore is the result of Pacer.Objects.
type yieldingStore struct {
	content.ObjectStore
	pacer *Pacer
}

func (y yieldingStore) Put(k cas.Kind, b []byte) (cas.Hash, error) {
	h, err := y.ObjectStore.Put(k, b)
	y.pacer.giveWay()
	return h, err
}

// giveWay lets other goroutines run. Without it a seal keeps a processor for 10 ms, and a request of the kernel
// waits that long. A throttled seal runs in its own thread, so giveWay yields the processor to other threads, and
// pauses after each sealTurnTime.
func (p *Pacer) giveWay() {
	if !p.IsThrottled() {
		runtime.Gosched()
		return
	}

	now := time.Now()
	if now.UnixNano()-p.pausedAt.Load() < int64(sealTurnTime) {
		syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
		return
	}

	rest := turnPause
	if runtime.GOMAXPROCS(0) == 1 {
		rest = sealTurnTime
	}

	p.pausedAt.Store(now.Add(rest).UnixNano())
	time.Sleep(rest)
}
