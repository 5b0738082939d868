package daemon

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// memoryGoal is how much memory the daemon should keep below, in bytes, as long as
	// what is in use fits well.
	memoryGoal = 150 << 20
	// limitStep is what limits beyond that are multiples of.
	limitStep = 4 << 20
	// someGarbage is how much is left free beside what is in use, unless a fifth of that
	// is more.
	someGarbage = 32 << 20

	// The daemon rests if it allocates less than restAlloc bytes in restTime. It had
	// worked if it allocated workAlloc between two collections.
	restTime  = 2 * time.Second
	restAlloc = 1 << 20
	workAlloc = 4 << 20
)

// garbage keeps garbage from doubling the memory of a daemon that holds a large tree,
// and from staying when there is nothing more to do.
type garbage struct {
	mu     sync.Mutex
	limit  int64
	giving bool // the next collection is ours

	timer     *time.Timer // from a collection on until the daemon rests
	ticked    uint64      // bytes allocated since the start, when the timer was last set
	collected uint64      // the same at the last collection
}

// bound works harder for less garbage from memoryGoal on. What is in use may be more than
// that; some of it again is left free then, or the collector would do nothing but run.
func (g *garbage) bound() {
	g.mu.Lock()
	defer g.mu.Unlock()
	live := sample("/gc/heap/live:bytes")
	// What the limit counts and no collection can free: stacks, tables, gaps between
	// objects.
	rest := sample("/memory/classes/total:bytes") - sample("/memory/classes/heap/released:bytes") -
		sample("/memory/classes/heap/objects:bytes") - sample("/memory/classes/heap/free:bytes")
	room := min(live/2, max(live/5, someGarbage))
	limit := max(memoryGoal, int64(live+rest+room)&^(limitStep-1))
	if limit != g.limit { // setting it stops the world
		debug.SetMemoryLimit(limit)
		g.limit = limit
	}
	allocated := sample("/gc/heap/allocs:bytes")
	if g.timer == nil && !g.giving && allocated-g.collected > workAlloc {
		g.ticked, g.timer = allocated, time.AfterFunc(restTime, g.tick)
	}
	g.giving, g.collected = false, allocated
	runtime.AddCleanup(new([16]byte), (*garbage).bound, g) // after the next collection
}

// tick gives memory back to the kernel if the daemon rests.
func (g *garbage) tick() {
	g.mu.Lock()
	allocated := sample("/gc/heap/allocs:bytes")
	rests := allocated-g.ticked < restAlloc
	if rests {
		g.timer, g.giving = nil, true
	} else {
		g.ticked = allocated
		g.timer.Reset(restTime)
	}
	g.mu.Unlock()
	if rests {
		debug.FreeOSMemory()
	}
}

// sample returns one of the runtime's figures.
func sample(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
