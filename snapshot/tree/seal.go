package tree

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// Seal writes all parts of s that are not sealed, bottom-up: contents and directories, then the table, then the
// state object, whose hash it returns. sealer has the destination and the parameters of chunking. Each of its
// workers seals one file or directory at a time.
//
// The state must be frozen. During Seal the state can be read, and so can states that share pages with it. Sealed
// pages move from memory to the page cache. If Seal is interrupted by ctx, by sealer.Spend or by an error, the
// next call continues where it ended.
func Seal(ctx context.Context, src *Source, sealer *content.Sealer, s *State) (cas.Hash, error) {
	r := &sealRun{src: src, sealer: sealer}
	r.buffers.New = func() any { return new(wire.Encoder) }
	h, err := r.sealState(ctx, s)
	if err != nil {
		return cas.Hash{}, fmt.Errorf("seal: %w", err)
	}

	return h, nil
}

const (
	maxJobs = 64 // inodes that wait for a worker
	// workerSleep is how long each worker except the first sleeps before each chunk or inode while writers are
	// active.
	workerSleep = 50 * time.Millisecond
)

// sealRun is the state of one call of Seal.
type sealRun struct {
	src     *Source
	sealer  *content.Sealer
	buffers sync.Pool // of *wire.Encoder

	firstWorkerEnded atomic.Bool // the first worker has ended
}

// sealState does the work of Seal.
func (r *sealRun) sealState(ctx context.Context, s *State) (cas.Hash, error) {
	if h, ok := s.ID(); ok {
		return h, nil
	}

	// Workers seal the contents and the directories of all inodes in memory.
	g, gctx := errgroup.WithContext(ctx)
	jobs := make(chan *Inode, maxJobs)
	for i := range max(1, r.sealer.Workers) {
		g.Go(func() error { return r.work(gctx, jobs, i > 0) })
	}

	err := eachUnsealed(s.root, nil, func(n *Inode) error {
		if n.Dir.root.unsealedBody() == nil && n.Content.SealedMap() != nil {
			return gctx.Err()
		}

		select {
		case jobs <- n:
			return nil
		case <-gctx.Done():
			return gctx.Err()
		}
	})

	close(jobs)
	// The first failure cancels gctx, so Wait's error is the cause of err.
	if werr := g.Wait(); werr != nil {
		err = werr
	}
	if err != nil {
		return cas.Hash{}, err
	}

	var root cas.Hash
	if s.root != nil {
		if root, err = r.sealPage(ctx, s.root); err != nil {
			return cas.Hash{}, err
		}
	}

	var e wire.Encoder
	encodeState(&e, s, root)
	h, err := r.sealer.Objects.Put(cas.KindTree, e.Bytes())
	if err != nil {
		return cas.Hash{}, fmt.Errorf("write the state: %w", err)
	}

	s.id.Store(&h)

	return h, nil
}

// checkTurn returns content.ErrTurnOver if the time of this turn is spent.
func (r *sealRun) checkTurn() error {
	if r.sealer.Spend != nil && r.sealer.Spend(0) {
		return content.ErrTurnOver
	}
	return nil
}

// work seals the inodes of jobs, one after the other. While writers are active, workers with mayRest, which are
// all but the first, sleep before each chunk: they finish the files that they have begun, but slowly. The first
// worker then locks its operating system thread. Otherwise it could run on the thread that has just answered a
// request, and occupy the processor that the client of the request needs.
func (r *sealRun) work(ctx context.Context, jobs <-chan *Inode, mayRest bool) error {
	sealer, locked := *r.sealer, false
	lockThread := func(lock bool) {
		switch {
		case lock && !locked:
			runtime.LockOSThread()
		case locked && !lock:
			runtime.UnlockOSThread()
		}

		locked = lock
	}
	defer lockThread(false)

	sealer.Pace = func() bool {
		throttled := r.sealer.Pace != nil && r.sealer.Pace()
		rests := throttled && mayRest && !r.firstWorkerEnded.Load()
		lockThread(throttled && !rests)
		if rests {
			time.Sleep(workerSleep)
		}

		return throttled
	}
	if !mayRest {
		defer r.firstWorkerEnded.Store(true)
	}

	for n := range jobs {
		sealer.Pace()
		if err := guard.Do(func() error { return r.sealInode(ctx, &sealer, n) }); err != nil {
			return err
		}
		if err := r.checkTurn(); err != nil {
			return err
		}
	}

	return nil
}

// unsealedBody returns the body of a page that is not sealed, else nil.
func (p *page) unsealedBody() *body {
	if p == nil || p.isSealed() {
		return nil
	}
	return p.mem.Load() // nil if another goroutine has sealed the page since the check
}

// eachUnsealed calls fn for the inodes in cells of leaves that are not sealed, at and below p. If skip is not nil
// and returns true for a page, the page and the pages below it are skipped.
func eachUnsealed(p *page, skip func(p *page) bool, fn func(n *Inode) error) error {
	b := p.unsealedBody()
	if b == nil || skip != nil && skip(p) {
		return nil
	}

	for _, k := range b.kids {
		if err := eachUnsealed(k, skip, fn); err != nil {
			return err
		}
	}
	if b.leaf == nil {
		return nil
	}

	for i := range tableFanout {
		if n := b.leaf.cell(i); n != nil {
			if err := fn(n); err != nil {
				return err
			}
		}
	}

	return nil
}

// sealInode seals the entries of a directory, or the content of a file.
func (r *sealRun) sealInode(ctx context.Context, sealer *content.Sealer, n *Inode) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("inode %d: %w", n.Ino, err)
	}
	if err := r.sealDir(ctx, n.Dir.root); err != nil {
		return fmt.Errorf("inode %d: %w", n.Ino, err)
	}
	if _, err := sealer.Seal(ctx, n.Content); err != nil {
		return fmt.Errorf("inode %d: %w", n.Ino, err)
	}

	return nil
}

// sealDir seals the topmost page of a directory and all pages below it. Small directories become
// inline.
func (r *sealRun) sealDir(ctx context.Context, p *page) error {
	b := p.unsealedBody()
	if b == nil {
		return nil
	}

	if b.kind == wire.KindDirLeaf {
		e := r.newEncoder()
		defer r.buffers.Put(e)
		if encodeEntries(e, b.ents); e.Len() <= maxInlineSize {
			p.sealInline(string(e.Bytes()))
			return nil
		}
	}

	_, err := r.sealPage(ctx, p)
	return err
}

// newEncoder returns an empty encoder. The caller puts it into buffers after use.
func (r *sealRun) newEncoder() *wire.Encoder {
	e := r.buffers.Get().(*wire.Encoder)
	e.Reset()
	return e
}

// sealPage seals p and all pages below it, and returns its hash. The contents and directories of
// inodes must be sealed already.
func (r *sealRun) sealPage(ctx context.Context, p *page) (cas.Hash, error) {
	b := p.unsealedBody()
	if b == nil {
		return *p.hash.Load(), nil
	}
	if err := cmp.Or(ctx.Err(), r.checkTurn()); err != nil {
		return cas.Hash{}, err
	}

	for _, k := range b.kids {
		if k != nil {
			if _, err := r.sealPage(ctx, k); err != nil {
				return cas.Hash{}, err
			}
		}
	}

	e := r.newEncoder()
	defer r.buffers.Put(e)

	if b.leaf == nil {
		encodeBody(e, b)
	} else if err := encodeTableLeaf(e, b.leaf, r.sealer.Objects); err != nil {
		return cas.Hash{}, err
	}

	h, err := r.sealer.Objects.Put(cas.KindTree, e.Bytes())
	if err != nil {
		return cas.Hash{}, fmt.Errorf("write a page: %w", err)
	}

	if b.leaf != nil {
		// The inodes in cells refer to the journal and to older contents, so this leaf is not put into the
		// cache. Instead, a leaf is decoded from the object, as when it is loaded.
		if b, err = decodeBody(append([]byte(nil), e.Bytes()...)); err != nil {
			return cas.Hash{}, fmt.Errorf("read back a page: %w", err)
		}
	}

	r.src.pages.Put(h, b, b.weight())
	p.seal(h)
	if r.sealer.Spend != nil {
		r.sealer.Spend(int64(e.Len()))
	}

	return h, nil
}
