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
	// Writers rest while they write less than restBytes in restTick.
	restTick  = 20 * time.Millisecond
	restBytes = 256 << 10
	// restWait is how long AwaitRest waits at most.
	restWait = 5 * time.Second
	// Beside writers a seal rests after each sealTurn: for as long if there is one
	// processor, or else for turnRest, in which Go's scheduler gives its turn (P) to
	// requests that wait for one.
	sealTurn = 2 * time.Millisecond
	turnRest = 50 * time.Microsecond
)

// A Pacer watches how fast the journal grows.
type Pacer struct {
	End      func() int64 // of the journal
	Outgrown func() bool  // it had better shrink

	waiting atomic.Int32 // callers that wait for a seal
	looked  atomic.Int64 // ns, when a seal last looked
	seen    atomic.Int64 // end of the journal then
	busy    atomic.Int64 // bytes by which it had grown since the look before
	rested  atomic.Int64 // ns, when one last rested
}

// Throttled reports whether a seal should leave a processor to writers: while they write.
// If they write much it need not when a reader waits for the seal or the journal had
// better shrink.
func (p *Pacer) Throttled() bool {
	now, end := time.Now().UnixNano(), p.End()
	if now-p.looked.Load() > int64(restTick) {
		p.looked.Store(now)
		p.busy.Store(end - p.seen.Swap(end))
	}
	busy := max(p.busy.Load(), end-p.seen.Load())
	return busy > 0 && (busy < restBytes || p.waiting.Load() == 0 && !p.Outgrown())
}

// Urgent has seals go on without a rest until the function it returns is called.
func (p *Pacer) Urgent() (done func()) {
	p.waiting.Add(1)
	return func() { p.waiting.Add(-1) }
}

// AwaitRest returns when the writers rest: what they remove until then need not be
// sealed, if no snapshot has it. It does not wait for long, and not at all when the
// journal had better shrink.
func (p *Pacer) AwaitRest(g *loops.Group) {
	for began := time.Now(); time.Since(began) < restWait && !p.Outgrown() && g.Context.Err() == nil; {
		end := p.End()
		g.Pause(restTick)
		if p.End()-end < restBytes {
			return
		}
	}
}

// Objects gives way to writers after each object that is put.
func (p *Pacer) Objects(o content.ObjectStore) content.ObjectStore { return yielding{o, p} }

type yielding struct {
	content.ObjectStore
	pacer *Pacer
}

func (y yielding) Put(k cas.Kind, b []byte) (cas.Hash, error) {
	h, err := y.ObjectStore.Put(k, b)
	y.pacer.giveWay()
	return h, err
}

// giveWay calls Go's scheduler: without it a seal keeps a processor for 10 ms, and a
// request that was read waits as long. A seal that is throttled has a thread of its own, which
// lets others run that wait for its processor, and rests now and then.
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
