package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/loops"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// A gc begins gcDelay after the first removal. If the removed bytes are fewer than 1/gcShareDivisor of the
	// store's size, it begins gcLongDelay after the first removal.
	gcDelay        = 2 * time.Minute
	gcShareDivisor = 20
	gcLongDelay    = 24 * time.Hour
	// unknownGarbageBytes is used as the number of bytes that were removed before the store was opened, because
	// this number is unknown. It makes a gc due.
	unknownGarbageBytes = 1 << 60
	// gcGrowthBytes is the number of bytes since the last gc that make a gc due without a removal,
	// because sealed states of checkpoints become garbage when the workspace changes.
	gcGrowthBytes = 256 << 20
)

// ErrNoCheckpoint ends a checkpoint for which a gc would have to wait: a checkpoint that was running
// when the gc began, or the gc's own checkpoint if it would take too long.
var ErrNoCheckpoint = errors.New("a checkpoint takes long, and gc does not wait for it")

// maxGCRounds is the limit for the rounds of a gc on a full disk.
const maxGCRounds = 3

// CollectorParts are the components of the store that a Collector uses. Objects and Source may be
// set later.
type CollectorParts struct {
	Objects       tree.Objects
	Source        *tree.Source
	StoredBytes   *atomic.Int64 // bytes of packs
	StorableBytes func() int64  // bytes that can still be stored
	Incomplete    *atomic.Bool  // see Parts.Incomplete
	Checkpoints   Checkpoints
	Roots         func() (*Roots, error)
	Elapsed       func() time.Duration // a monotonic clock, never 0
	Loops         *loops.Group
	Metrics       *info.Recorder
	Logger        *slog.Logger
}

// Checkpoints is implemented by Checkpointer, which documents the methods.
type Checkpoints interface {
	JournalGrowth() int64
	JournalOutgrown() bool
	CheckSoon()
	TryCheckpoint() (tried bool)
	CheckpointForGC(ctx context.Context, fn func() error) (checkpointErr, err error)
	ShrinkJournal()
}

// A Collector decides when a gc is worth its cost, and runs it.
type Collector struct {
	CollectorParts
	Signal    loops.Signal  // makes Loop check again whether a gc is due
	Puts      loops.Barrier // entered by callers that put objects that are not referenced yet
	BaseBytes atomic.Int64  // bytes of packs after the last gc

	runningImports atomic.Int32 // number of running imports
	garbage        removalCounter
	damage         atomic.Pointer[string]
}

// removalCounter counts the removals since the last gc.
type removalCounter struct {
	mu sync.Mutex
	garbageWeight
}

// A garbageWeight is an estimate of the bytes that a gc would free.
type garbageWeight struct {
	removals int
	ownBytes int64 // approximate number of bytes that only the removed workspaces and snapshots used
	// firstRemoval is the value of Elapsed when the first removal was counted. In the result of estimate, it is
	// the value of Elapsed at the call of estimate.
	firstRemoval time.Duration
}

// CountRemoval counts the removal of a workspace or snapshot. ownBytes is the approximate number of bytes
// that no other workspace or snapshot uses.
func (g *Collector) CountRemoval(ownBytes int64) {
	g.garbage.add(ownBytes, g.Elapsed())
	g.Signal.Send()
}

func (g *removalCounter) add(own int64, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if g.removals == 0 {
		g.firstRemoval = now
	}

	g.removals++
	g.ownBytes += own
}

// estimate returns the weight that a gc that begins now will free. now is the present value of Elapsed.
func (g *removalCounter) estimate(now time.Duration) garbageWeight {
	g.mu.Lock()
	defer g.mu.Unlock()
	return garbageWeight{g.removals, g.ownBytes, now}
}

// subtract is called at the end of a gc. w is the weight that estimate returned at the beginning of this gc. If
// partly is set, the gc freed only a part of w: then subtract only moves firstRemoval to the beginning of the gc.
func (g *removalCounter) subtract(w garbageWeight, partly bool) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if !partly {
		g.removals -= w.removals
		g.ownBytes -= w.ownBytes
	}

	g.firstRemoval = max(g.firstRemoval, w.firstRemoval)
}

func (g *removalCounter) current() garbageWeight {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.garbageWeight
}

// HasGarbage reports whether a workspace or snapshot was removed since the last gc.
func (g *Collector) HasGarbage() bool { return g.garbage.current().removals > 0 }

// timeUntilDue returns the time until a gc is due. Further removals and seals can shorten it.
func (g *Collector) timeUntilDue() time.Duration {
	stored, base, removed := g.StoredBytes.Load(), g.BaseBytes.Load(), g.garbage.current()
	grown := stored - base
	if grown > max(gcGrowthBytes, base/2) {
		return 0
	}
	if removed.removals == 0 {
		return loops.Forever
	}

	// Bytes stored since the last gc may belong to the removed snapshots, so they count as removed.
	wait := gcLongDelay
	if removed.ownBytes+max(grown, 0) >= min(stored, g.StorableBytes())/gcShareDivisor {
		wait = gcDelay
	}

	return max(0, removed.firstRemoval+wait-g.Elapsed())
}

// ProtectImport protects the objects that an import puts, until the import calls done. No automatic gc begins
// in that time.
func (g *Collector) ProtectImport() (done func()) {
	g.runningImports.Add(1)
	leave := g.Puts.Enter()
	return func() {
		leave()
		g.runningImports.Add(-1)
	}
}

// IsDue reports whether an automatic gc should begin.
func (g *Collector) IsDue() bool { return g.runningImports.Load() == 0 && g.timeUntilDue() == 0 }

// Loop runs a gc when it is due, with a tenth of the processors unless the disk is nearly full. It
// does not begin a gc during an import, because the gc would wait for the import and keep all
// objects that are put in that time.
func (g *Collector) Loop() {
	runtime.LockOSThread() // processorShare measures the time of its thread; the lock ends with the goroutine
	own := newProcessorShare(g.Loops)
	slowly := func(gc *cas.Collection) {
		if g.StorableBytes() >= gcGrowthBytes {
			gc.Yield = own.yield
		}
	}

	for g.Loops.Context.Err() == nil {
		g.Loops.Await(g.Signal, nil, g.timeUntilDue())
		g.Loops.Pause(time.Second)
		if g.Loops.Context.Err() != nil || !g.IsDue() {
			continue
		}

		if _, err := g.run(g.Loops.Context, slowly, nil); err != nil && g.Loops.Context.Err() == nil {
			g.Logger.Warn("gc", "err", err, guard.Stack(err))
			g.Loops.Pause(time.Minute)
		}
	}
}

// Run runs a gc. If a full disk prevented the checkpoint of the gc, Run runs further rounds, at most maxGCRounds in
// all. It returns the sums of all rounds. progress is called with numbers of bytes of packs.
func (g *Collector) Run(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error) {
	return g.run(ctx, func(*cas.Collection) {}, progress)
}

// Wipe runs a gc as Run does, and also overwrites the removed objects on the disk.
func (g *Collector) Wipe(ctx context.Context) (cas.GCResult, error) {
	return g.run(ctx, func(gc *cas.Collection) { gc.Wipe = true }, nil)
}

// run implements Run and Wipe. configure sets the fields of the Collection of each round.
func (g *Collector) run(ctx context.Context, configure func(*cas.Collection), progress func(done, total int64)) (cas.GCResult, error) {
	var sum cas.GCResult
	for range maxGCRounds {
		noSpace, err := g.runRound(ctx, configure, &sum, progress)
		if isDamageError(err) {
			err = WithRepairAdvice(err)
			g.SetDamage(err)
		}
		if err != nil {
			return sum, err
		}
		if !noSpace {
			break
		}
		// The freed space may be enough for the checkpoint now. After it, the next round can free
		// the journal and the snapshots deleted since the last checkpoint.
	}

	g.Checkpoints.ShrinkJournal()
	return sum, nil
}

// runRound runs one round of a gc and adds its result to sum. noSpace reports whether the disk had no
// space for the checkpoint.
func (g *Collector) runRound(ctx context.Context, configure func(*cas.Collection), sum *cas.GCResult, progress func(done, total int64)) (noSpace bool, err error) {
	// BeginCollection waits for callers, such as imports, that put objects before its call. When they are
	// done, a root references their objects.
	gc, err := g.Objects.BeginCollection(ctx, g.Puts.Wait)
	if err != nil {
		return false, err
	}
	defer gc.Close()

	configure(gc)
	estimate := g.garbage.estimate(g.Elapsed())
	var roots *Roots
	checkpointErr, err := g.Checkpoints.CheckpointForGC(ctx, func() (err error) {
		roots, err = g.Roots()
		return err
	})
	if err != nil {
		return false, err
	}

	tookLong := errors.Is(checkpointErr, ErrNoCheckpoint)
	if noSpace = checkpointErr != nil && !tookLong; noSpace {
		// The gc can free space without a checkpoint, because it also marks the objects of the
		// last checkpoint.
		g.Logger.Warn("no checkpoint before gc", "err", checkpointErr, guard.Stack(checkpointErr))
	}

	res, err := gc.Collect(ctx, g.Incomplete.Load(), func(k *cas.Marker) error { return g.mark(ctx, roots, k) }, progress)
	sum.RemovedObjects += res.RemovedObjects
	sum.FreedBytes += res.FreedBytes
	if err != nil {
		return noSpace, err
	}

	g.StoredBytes.Store(g.Objects.Stats().StoredBytes)
	g.BaseBytes.Store(g.StoredBytes.Load())
	// If the checkpoint was not ready in time (tookLong), this gc has kept the objects of the last checkpoint. The
	// next gc can free them, so the estimate is not subtracted.
	g.garbage.subtract(estimate, tookLong)
	g.Metrics.Update(func(m *info.Metrics) { m.GarbageCollects++ })

	return noSpace, nil
}

// mark marks the objects of all roots.
func (g *Collector) mark(ctx context.Context, roots *Roots, k *cas.Marker) error {
	if err := roots.ReadCheckpoint(); err != nil {
		return err
	}

	m := &markRun{ctx: ctx, Collector: g, marker: k, local: localMarker{g.Objects, k}}
	m.src = g.Source.WithObjects(m.local)
	if err := m.markSnapshots(roots.Snapshots); err != nil {
		return err
	}

	for _, h := range roots.LeafObjects {
		if _, err := m.markLeaf(h); err != nil {
			return err
		}
	}

	return roots.EachState(m.markState)
}

// WithRepairAdvice adds advice to the error of a damaged store. A gc does not run in a damaged store: it would
// remove objects that only a damaged object references, although a repair may restore the damaged object.
func WithRepairAdvice(err error) error {
	if isDamageError(err) {
		return fmt.Errorf("the store is damaged; run `amberfs verify --repair` before gc: %w", err)
	}
	return err
}

func isDamageError(err error) bool {
	return errors.Is(err, errs.Damaged) || errors.Is(err, cas.ErrNotFound)
}

// SetDamage sets the damage that a gc or a verification found, for the status. err is nil if a verification
// found no damage.
func (g *Collector) SetDamage(err error) {
	if err == nil {
		g.damage.Store(nil)
		return
	}
	text := err.Error()
	g.damage.Store(&text)
}

// DamageText returns the text of the error that SetDamage set last, "" for nil.
func (g *Collector) DamageText() string {
	if text := g.damage.Load(); text != nil {
		return *text
	}
	return ""
}
