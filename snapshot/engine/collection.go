package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// A gc begins delay after the first removal, or rarely after it if what was removed is less
	// than the store's size divided by unused.
	delay  = 2 * time.Minute
	unused = 20
	rarely = 24 * time.Hour
	// unknown is the size of what was removed before the store was opened: it makes a gc due.
	unknown = 1 << 60
	// growth is how many bytes more than after the last gc make one due when
	// nothing was removed: what checkpoints stored of a state that has changed
	// since is garbage too.
	growth = 256 << 20
)

// ErrNoCheckpoint means that a checkpoint would take too long for a gc to wait for it.
var ErrNoCheckpoint = errors.New("a checkpoint takes long, and gc does not wait for it")

// rounds bounds how often a gc starts again on a full disk.
const rounds = 3

// CollectorParts are what a Collector uses of the store. Objects and Source may be set later.
type CollectorParts struct {
	Objects     tree.Objects
	Source      *tree.Source
	Stored      *atomic.Int64 // bytes of packs
	Left        func() int64  // bytes that can still be stored
	Incomplete  *atomic.Bool  // objects are missing
	Checkpoints Checkpoints
	Roots       func() (*Roots, error)
	Elapsed     func() time.Duration // goes on evenly, more than 0
	Loops       *loops.Group
	Metrics     *info.Recorder
	Logger      *slog.Logger
}

// Checkpoints seal the journal, so that it can be dropped.
type Checkpoints interface {
	Grown() int64   // bytes that were journaled since the last one
	Outgrown() bool // that is JournalMost
	Ask()           // for one soon
	// Try makes one at once, unless another one or a gc is under way.
	Try() (tried bool)
	// Hold makes one, and calls fn before the next one can begin. It returns why there is none,
	// ErrNoCheckpoint if it takes too long, and the error of fn.
	Hold(ctx context.Context, fn func() error) (full, err error)
	ShrinkJournal()
}

// A Collector decides when a gc is worth its work, and runs it.
type Collector struct {
	CollectorParts
	Signal loops.Wake    // something was removed, or more is stored
	Puts   loops.Barrier // callers that put objects that nothing refers to yet
	Base   atomic.Int64  // bytes of packs after the last gc

	imports atomic.Int32 // under way
	garbage garbage
	damage  atomic.Pointer[string]
}

// garbage describes the removals since the last gc.
type garbage struct {
	mu sync.Mutex
	weight
}

// A weight is an estimate of how much a gc would free.
type weight struct {
	removals int
	own      int64         // about how many bytes only what was removed had
	since    time.Duration // by Elapsed, when the first of them was, or for now, when they were counted
}

// Removed notes that something was removed, and about how many bytes it had of its own.
func (g *Collector) Removed(own int64) {
	g.garbage.add(own, g.Elapsed())
	g.Signal.Up()
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

// now returns the weight before a gc, which frees at least that.
func (g *garbage) now(now time.Duration) weight {
	g.mu.Lock()
	defer g.mu.Unlock()
	return weight{g.removals, g.own, now}
}

// collected subtracts what a gc freed. With some, the gc freed a part, and only its time is noted.
func (g *garbage) collected(w weight, some bool) {
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

// Any reports whether something was removed since the last gc.
func (g *Collector) Any() bool { return g.garbage.get().removals > 0 }

// dueIn returns when a gc is due if nothing more is removed or stored.
func (g *Collector) dueIn() time.Duration {
	stored, base, removed := g.Stored.Load(), g.Base.Load(), g.garbage.get()
	grown := stored - base
	if grown > max(growth, base/2) {
		return 0
	}
	if removed.removals == 0 {
		return loops.Forever
	}
	wait := rarely
	// What was stored since the last gc may have been of what was removed.
	if removed.own+max(grown, 0) >= min(stored, g.Left())/unused {
		wait = delay
	}
	return max(0, removed.since+wait-g.Elapsed())
}

// Import guards objects that an import puts until done is called. No automatic gc begins
// meanwhile.
func (g *Collector) Import() (done func()) {
	g.imports.Add(1)
	leave := g.Puts.Enter()
	return func() {
		leave()
		g.imports.Add(-1)
	}
}

// Due reports whether a gc is to begin by itself.
func (g *Collector) Due() bool { return g.imports.Load() == 0 && g.dueIn() == 0 }

// Loop gives space back when it is time. It does not begin while an import is
// under way: what is put while a gc waits for it is kept by that gc.
func (g *Collector) Loop() {
	for g.Loops.Context.Err() == nil {
		g.Loops.Await(g.Signal, nil, g.dueIn())
		g.Loops.Pause(time.Second)
		if g.Loops.Context.Err() != nil || !g.Due() {
			continue
		}
		if _, err := g.Run(g.Loops.Context, nil); err != nil && g.Loops.Context.Err() == nil {
			g.Logger.Warn("gc", "err", err, guard.Stack(err))
			g.Loops.Pause(time.Minute)
		}
	}
}

// Run makes a gc, and again while a full disk gets more room by it, at most rounds times.
func (g *Collector) Run(ctx context.Context, progress func(done, total int64)) (cas.GCResult, error) {
	var sum cas.GCResult
	for range rounds {
		again, err := g.collect(ctx, &sum, progress)
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
		// What it gave back may be enough for the checkpoint. Then the journal
		// goes, and what was removed but is still in the last checkpoint.
	}
	g.Checkpoints.ShrinkJournal()
	return sum, nil
}

// collect is one round of a gc. It reports whether there was no room for the
// checkpoint.
func (g *Collector) collect(ctx context.Context, sum *cas.GCResult, progress func(done, total int64)) (again bool, err error) {
	// This waits for callers that put objects before the recording began: when they are done, a
	// root refers to these. It waits for imports, too.
	gc, err := g.Objects.Record(ctx, g.Puts.Wait)
	if err != nil {
		return false, err
	}
	defer gc.Close()
	weighed := g.garbage.now(g.Elapsed())
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
		// Space can be given back on a full disk too: what the last checkpoint
		// refers to is marked as well.
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
	g.garbage.collected(weighed, long) // else what the last checkpoint refers to goes with the next gc
	g.Metrics.Note(func(m *info.Metrics) { m.GarbageCollects++ })
	return again, nil
}

// mark marks everything that the store still needs.
func (g *Collector) mark(ctx context.Context, roots *Roots, k *cas.Keeper) error {
	if err := roots.Read(); err != nil {
		return err
	}
	to := marking{g.Objects, k}
	for _, h := range roots.Sets {
		if here, err := g.Objects.Has(h); here || err != nil { // nothing is lost with one that is damaged
			to.KeepLeaf(h)
		}
	}
	src := g.Source.With(to)
	var before *tree.State
	return roots.Each(func(st *tree.State) error {
		err := st.MarkFor(ctx, src, before, g.Incomplete.Load(), to)
		before = st
		return err
	})
}

// marking is a cas.Keeper for a store that need not have all objects.
type marking struct {
	tree.Objects
	k *cas.Keeper
}

func (m marking) Keep(h cas.Hash) bool { return m.Here(h) && m.k.Keep(h) }

func (m marking) KeepLeaf(h cas.Hash) {
	if m.Here(h) {
		m.k.KeepLeaf(h)
	}
}

func (m marking) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if m.Elsewhere != nil {
		return m.Objects.Get(h, dst)
	}
	return m.k.Read(h, dst)
}

// NeedsRepair explains why gc does nothing in a damaged store: what hangs below
// a damaged object would be taken for garbage, and the object may be repaired yet.
func NeedsRepair(err error) error {
	if isDamage(err) {
		return fmt.Errorf("the store is damaged; run `amberfs verify --repair` before gc: %w", err)
	}
	return err
}

func isDamage(err error) bool { return errors.Is(err, errs.Damaged) || errors.Is(err, cas.ErrNotFound) }

// SetDamage keeps what a gc or a verification found damaged, for the status. nil: nothing.
func (g *Collector) SetDamage(err error) {
	if err == nil {
		g.damage.Store(nil)
		return
	}
	text := err.Error()
	g.damage.Store(&text)
}

// Damage returns what was found damaged, "" if nothing was.
func (g *Collector) Damage() string {
	if text := g.damage.Load(); text != nil {
		return *text
	}
	return ""
}
