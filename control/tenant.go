package control

import (
	"context"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
)

const (
	// maxRenderings is how many diffs of main are made at a time, or of a fork whose
	// policy has no limit; maxCommands is how many commands of a tenant that may
	// take long run.
	maxRenderings = 4
	maxCommands   = 16
	// maxWaiting is how many more of each may wait for their turn.
	maxWaiting = 60
	// maxStored is what large contents of a tenant may have together, in bytes.
	// Beyond, the kernel is asked to forget the oldest, which else it keeps until it
	// needs memory itself.
	maxStored = 256 << 20
	// maxHeld is the same for those that are still there because programs have them
	// open.
	maxHeld = 1 << 30
	// maxPartial is what the beginnings of commands may have together, in bytes.
	maxPartial = 4 << 20
)

// A tenant is who shares limits: a fork of main with all forks of its own, or main.
// Tree.mu guards it.
type tenant struct {
	renderings, commands *turns

	stored   int64   // bytes of contents in files
	large    []*node // with such a content, oldest first
	partials []*partial
}

// A turns lets a few of many run at a time.
type turns struct {
	most int

	mu struct {
		sync.Mutex
		running int
		waiting []chan struct{} // each closed when it is its turn
	}
}

func newTurns(most int) *turns { return &turns{most: most} }

// limit changes how many run at a time from now on.
func (t *turns) limit(most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = most
	t.nextLocked()
}

// take waits for a turn. What it returns is an errs.Quota when too many wait.
func (t *turns) take(ctx context.Context) error {
	t.mu.Lock()
	if t.mu.running < t.most && len(t.mu.waiting) == 0 {
		t.mu.running++
		t.mu.Unlock()
		return nil
	}
	if len(t.mu.waiting) >= maxWaiting {
		defer t.mu.Unlock()
		return errs.New(errs.Quota, "%d requests of this kind run and %d wait already", t.mu.running, maxWaiting)
	}
	mine := make(chan struct{})
	t.mu.waiting = append(t.mu.waiting, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.mu.waiting, mine); i >= 0 {
		t.mu.waiting = slices.Delete(t.mu.waiting, i, i+1)
		return ctx.Err()
	}
	return nil // it came all the same
}

// done ends a turn.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.running--
	t.nextLocked()
}

func (t *turns) nextLocked() {
	for t.mu.running < t.most && len(t.mu.waiting) > 0 {
		close(t.mu.waiting[0])
		t.mu.waiting = t.mu.waiting[1:]
		t.mu.running++
	}
}

// tenantLocked returns whose a workspace is.
func (t *Tree) tenantLocked(ws *snapshot.Workspace) *tenant {
	for up := ws.Parent(); up != nil && up.IsFork(); up = ws.Parent() {
		ws = up
	}
	k, ok := t.mu.tenants[ws.View()]
	if !ok {
		k = &tenant{renderings: newTurns(maxRenderings), commands: newTurns(maxCommands)}
		t.mu.tenants[ws.View()] = k
	}
	return k
}

func (t *Tree) tenant(ws *snapshot.Workspace) *tenant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dirLocked(ws).tenant
}

// renderings are the turns of those who ask for diffs of a workspace: as many at a time
// as the policy of main says, in a fork.
func (t *Tree) renderings(ws *snapshot.Workspace) *turns {
	turn, most := t.tenant(ws).renderings, maxRenderings
	if n := t.store.ForkLimits().Renderings; ws.IsFork() && n > 0 {
		most = n
	}
	turn.limit(most)
	return turn
}

// work runs what may take long, when it is its turn. Meanwhile the kernel's other
// requests are answered. fn's context ends when the caller is killed.
func (t *Tree) work(turn *turns, r Request, fn func(ctx context.Context) error) (err error) {
	ctx, stop := r.Context()
	defer stop()
	t.Kernel.Blocking(func() {
		if err = turn.take(ctx); err == nil {
			defer turn.done()
			err = fn(ctx)
		}
	})
	return err
}

// compute runs what keeps a processor busy, as one of few of its tenant and of fewer in
// all.
func (t *Tree) compute(ws *snapshot.Workspace, r Request, fn func(ctx context.Context) error) error {
	return t.work(t.renderings(ws), r, func(ctx context.Context) error {
		if err := t.rendering.Acquire(ctx, 1); err != nil {
			return err
		}
		defer t.rendering.Release(1)
		return fn(ctx)
	})
}

// chargeLocked puts a large content on a tenant's account.
func (k *tenant) chargeLocked(c *content) {
	if c != nil && c.file != nil && c.owner == nil {
		c.owner = k
		k.stored += c.size
	}
}
