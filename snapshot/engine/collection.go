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
	// A gc begins at the time delay after the first removal. If the removed bytes are fewer than
	// 1/unused of the store's size, it begins at the time rarely after the first removal.
	delay  = 2 * time.Minute
	unused = 20
	rarely = 24 * time.Hour
	// unknown stands for the removed bytes before the store was opened. It makes a gc due.
	unknown = 1 << 60
	// growth is the number of bytes since the last gc that make a gc due without a removal,
	// because sealed states of checkpoints become garbage when the workspace changes.
	growth = 256 << 20
)

// ErrNoCheckpoint ends a checkpoint for which a gc would have to wait: a checkpoint that was running
// when the gc began, or the gc's own checkpoint if it would take too long.
var ErrNoCheckpoint = errors.New("a checkpoint takes long, and gc does not wait for it")

// rounds is the limit for the rounds of a gc on a full disk.
const rounds = 3

// CollectorParts are the components of the store that a Collector uses. Objects and Source may be
// set later.
type CollectorParts struct {
	Objects     tree.Objects
	Source      *tree.Source
	Stored      *atomic.Int64 // bytes of packs
	Left        func() int64  // bytes that can still be stored
	Incomplete  *atomic.Bool  // see Parts.Incomplete
	Checkpoints Checkpoints
	Roots       func() (*Roots, error)
	Elapsed     func() time.Duration // a monotonic clock, never 0
	Loops       *loops.Group
	Metrics     *info.Recorder
	Logger      *slog.Logger
}

// Checkpoints is implemented by Checkpointer, which documents the methods.
type Checkpoints interface {
	Grown() int64
	Outgrown() bool
	Ask()
	Try() (tried bool)
	Hold(ctx context.Context, fn func() error) (full, err error)
	ShrinkJournal()
}

// A Collector decides when a gc is worth its cost, and runs it.
type Collector struct {
	CollectorParts
	Signal loops.Signal  // makes Loop check again whether a gc is due
	Puts   loops.Barrier // entered by callers that put objects that are not referenced yet
	Base   atomic.Int64  // bytes of packs after the last gc

	imports atomic.Int32 // number of running imports
	garbage garbage
	damage  atomic.Pointer[string]
}

// garbage counts the removals since the last gc.
type garbage struct {
	mu sync.Mutex
	weight
}

// A weight is an estimate of the bytes that a gc would free.
type weight struct {
	removals int
	own      int64         // approximate number of bytes that only the removed workspaces and snapshots used
	since    time.Duration // time of the first removal by Elapsed; in the result of estimate: time of the call
}

// Removed counts the removal of a workspace or snapshot. own is the approximate number of bytes
// that no other workspace or snapshot uses.
func (g *Collector) Removed(own int64) {
	g.garbage.add(own, g.Elapsed())
	g.Signal.Send()
}

func (g *garbage) add(own int64, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if g.removals == 0 {
		g.since = now
	}

	g.removals++
	g.own += own
}

// estimate returns the weight that the beginning gc will free. Its since is now, the time of the call.
func (g *garbage) estimate(now time.Duration) weight {
	g.mu.Lock()
	defer g.mu.Unlock()
	return weight{g.removals, g.own, now}
}

// subtract is called at the end of a gc. w is the weight that estimate returned at the beginning of
// this gc. If the gc freed only some of w, subtract only moves since to the beginning of the gc.
func (g *garbage) subtract(w weight, some bool) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if !some {
		g.removals -= w.removals
		g.own -= w.own
	}

	g.since = max(g.since, w.since)
}

func (g *garbage) get() weight {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.weight
}

// HasGarbage reports whether a workspace or snapshot was removed since the last gc.
func (g *Collector) HasGarbage() bool { return g.garbage.get().removals > 0 }

// dueIn returns the time until a gc is due. Further removals and seals can shorten it.
func (g *Collector) dueIn() time.Duration {
	stored, base, removed := g.Stored.Load(), g.Base.Load(), g.garbage.get()
	grown := stored - base
	if grown > max(growth, base/2) {
		return 0
	}
	if removed.removals == 0 {
		return loops.Forever
	}

	// Bytes stored since the last gc may belong to the removed snapshots, so they count as removed.
	wait := rarely
	if removed.own+max(grown, 0) >= min(stored, g.Left())/unused {
		wait = delay
	}

	return max(0, removed.since+wait-g.Elapsed())
}

// Import protects the objects that an import puts until done is called. No automatic gc begins
// in that time.
func (g *Collector) Import() (done func()) {
	g.imports.Add(1)
	leave := g.Puts.Enter()
	return func() {
		leave()
		g.imports.Add(-1)
	}
}

// Due reports whether an automatic gc should begin.
func (g *Collector) Due() bool { return g.imports.Load() == 0 && g.dueIn() == 0 }

// Loop runs a gc when it is due, with a tenth of the processors unless the disk is nearly full. It
// does not begin a gc during an import, because the gc would wait for the import and keep all
// objects that are put in that time.
func (g *Collector) Loop() {
	runtime.LockOSThread() // because share measures the time of its thread; locked until the goroutine ends
	own := newShare(g.Loops)
	slowly := func(gc *cas.Recording) {
		if g.Left() >= growth {
			gc.Yield = own.yield
		}
	}

	for g.Loops.Context.Err() == nil {
		g.Loops.Await(g.Signal, nil, g.dueIn())
		g.Loops.Pause(time.Second)
		if g.Loops.Context.Err() != nil || !g.Due() {
			continue
		}

		if _, err := g.run(g.Loops.Context, slowly, nil); err != nil && g.Loops.Context.Err() == nil {
			g.Logger.Warn("gc", "err", err, guard.Stack(err))
			g.Loops.Pause(time.Minute)
		}
	}
}

// Run runs a gc. If a full disk prevented the checkpoint of the gc, Run runs further rounds, at most
// rounds in all. It returns the sums of all rounds. progress is called with numbers of bytes of packs.
func (g *Collector) Run(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error) {
	return g.run(ctx, func(*cas.Recording) {}, progress)
}

// Wipe runs a gc as Run does, and also overwrites the removed objects on the disk.
func (g *Collector) Wipe(ctx context.Context) (cas.GCResult, error) {
	return g.run(ctx, func(gc *cas.Recording) { gc.Wipe = true }, nil)
}

// run implements Run and Wipe. how sets the fields of the Recording of each round.
func (g *Collector) run(ctx context.Context, how func(*cas.Recording), progress func(done, total int64)) (cas.GCResult, error) {
	var sum cas.GCResult
	for range rounds {
		again, err := g.collect(ctx, how, &sum, progress)
		if isDamage(err) {
			err = NeedsRepair(err)
			g.SetDamage(err)
		}
		if err != nil {
			return sum, err
		}
		if !again {
			break
		}
		// The freed space may be enough for the checkpoint now. After it, the next round can free
		// the journal and the snapshots deleted since the last checkpoint.
	}

	g.Checkpoints.ShrinkJournal()
	return sum, nil
}

// collect runs one round of a gc and adds its result to sum. again reports whether the disk had no
// space for the checkpoint.
func (g *Collector) collect(ctx context.Context, how func(*cas.Recording), sum *cas.GCResult, progress func(done, total int64)) (again bool, err error) {
	// Wait for callers, such as imports, that put objects before the recording began. When they are
	// done, a root references their objects.
	gc, err := g.Objects.Record(ctx, g.Puts.Wait)
	if err != nil {
		return false, err
	}
	defer gc.Close()

	how(gc)
	weighed := g.garbage.estimate(g.Elapsed())
	var roots *Roots
	full, err := g.Checkpoints.Hold(ctx, func() (err error) {
		roots, err = g.Roots()
		return err
	})
	if err != nil {
		return false, err
	}

	long := errors.Is(full, ErrNoCheckpoint)
	if again = full != nil && !long; again {
		// The gc can free space without a checkpoint, because it also marks the objects of the
		// last checkpoint.
		g.Logger.Warn("no checkpoint before gc", "err", full, guard.Stack(full))
	}

	res, err := gc.Collect(ctx, g.Incomplete.Load(), func(k *cas.Keeper) error { return g.mark(ctx, roots, k) }, progress)
	sum.Removed += res.Removed
	sum.FreedBytes += res.FreedBytes
	if err != nil {
		return again, err
	}

	g.Stored.Store(g.Objects.Stats().Stored)
	g.Base.Store(g.Stored.Load())
	g.garbage.subtract(weighed, long) // long: the gc kept the objects of the last checkpoint, the next gc removes them
	g.Metrics.Update(func(m *info.Metrics) { m.GarbageCollects++ })

	return again, nil
}

// mark marks the objects of all roots.
func (g *Collector) mark(ctx context.Context, roots *Roots, k *cas.Keeper) error {
	if err := roots.Read(); err != nil {
		return err
	}

	m := &marking{ctx: ctx, Collector: g, k: k, to: localKeeper{g.Objects, k}}
	m.src = g.Source.WithObjects(m.to)
	if err := m.snapshots(roots.Snapshots); err != nil {
		return err
	}

	for _, h := range roots.Sets {
		if _, err := m.leaf(h); err != nil {
			return err
		}
	}

	return roots.Each(m.state)
}

// NeedsRepair adds advice to the error of a damaged store. A gc does not run in a damaged store,
// because it would remove the objects that only a damaged object references, and a repair may
// restore the damaged object.
func NeedsRepair(err error) error {
	if isDamage(err) {
		return fmt.Errorf("the store is damaged; run `amberfs verify --repair` before gc: %w", err)
	}
	return err
}

func isDamage(err error) bool { return errors.Is(err, errs.Damaged) || errors.Is(err, cas.ErrNotFound) }

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

// Damage returns the text of the error that SetDamage set last, "" for nil.
func (g *Collector) Damage() string {
	if text := g.damage.Load(); text != nil {
		return *text
	}
	return ""
}
