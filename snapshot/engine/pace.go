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
	// Writers are idle while they write less than restBytes in restTick.
	restTick  = 20 * time.Millisecond
	restBytes = 256 << 10
	// restWait is the longest time that AwaitRest waits.
	restWait = 5 * time.Second
	// While writers are active, a seal pauses after each sealTurn. With one processor it pauses for
	// sealTurn, else for turnRest, in which Go's scheduler gives the processor (P) to waiting requests.
	sealTurn = 2 * time.Millisecond
	turnRest = 50 * time.Microsecond
)

// A Pacer measures how fast the journal grows, and slows seals down while writers are active.
type Pacer struct {
	End      func() int64 // returns the end of the journal
	Outgrown func() bool  // reports whether the journal should be sealed soon

	waiting atomic.Int32 // number of callers that wait for a seal
	looked  atomic.Int64 // time of the last measurement, in ns
	seen    atomic.Int64 // end of the journal at that time
	busy    atomic.Int64 // growth of the journal between the last two measurements, in bytes
	rested  atomic.Int64 // time of the last pause, in ns
}

// Throttled reports whether a seal should leave a processor to writers. It returns true while writers
// are active, except when they write at least restBytes in restTick and a caller waits for the seal
// or the journal is too large.
func (p *Pacer) Throttled() bool {
	now, end := time.Now().UnixNano(), p.End()
	if now-p.looked.Load() > int64(restTick) {
		p.looked.Store(now)
		p.busy.Store(end - p.seen.Swap(end))
	}

	busy := max(p.busy.Load(), end-p.seen.Load())
	return busy > 0 && (busy < restBytes || p.waiting.Load() == 0 && !p.Outgrown())
}

// Urgent makes seals run without pauses until done is called.
func (p *Pacer) Urgent() (done func()) {
	p.waiting.Add(1)
	return func() { p.waiting.Add(-1) }
}

// AwaitRest waits until the writers are idle, because files that they remove before that time need
// not be sealed unless a snapshot contains them. It waits for restWait at most, and not at all when
// the journal should be sealed soon.
func (p *Pacer) AwaitRest(g *loops.Group) {
	for began := time.Now(); time.Since(began) < restWait && !p.Outgrown() && g.Context.Err() == nil; {
		end := p.End()
		g.Pause(restTick)
		if p.End()-end < restBytes {
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

// giveWay lets other goroutines run. Without it a seal keeps a processor for 10 ms, and a request of
// the kernel waits that long. A throttled seal runs in its own thread, so giveWay yields the processor
// to other threads, and pauses after each sealTurn.
func (p *Pacer) giveWay() {
	if !p.Throttled() {
		runtime.Gosched()
		return
	}

	now := time.Now()
	if now.UnixNano()-p.rested.Load() < int64(sealTurn) {
		syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
		return
	}

	rest := turnRest
	if runtime.GOMAXPROCS(0) == 1 {
		rest = sealTurn
	}

	p.rested.Store(now.Add(rest).UnixNano())
	time.Sleep(rest)
}
