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

// Seal writes everything of s that is not sealed, bottom-up: contents and directories, then the
// table, then the state object, whose hash it returns. z has the destination and the parameters of
// chunking. Each of its workers seals one file or directory at a time.
//
// The state must be frozen. It can be read meanwhile, as can states that share pages with it.
// Sealed pages move from memory to the page cache. A Seal that was interrupted by ctx, by z.Spend
// or by an error has done a part of the work, and the next one continues there.
func Seal(ctx context.Context, src *Source, z *content.Sealer, s *State) (cas.Hash, error) {
	r := &sealRun{src: src, z: z}
	r.buffers.New = func() any { return new(wire.Encoder) }
	h, err := r.state(ctx, s)
	if err != nil {
		return cas.Hash{}, fmt.Errorf("seal: %w", err)
	}
	return h, nil
}

const (
	maxJobs = 64 // that wait for a worker
	// secondRest is how long the second worker rests before each chunk or inode while writers
	// are active.
	secondRest = 50 * time.Millisecond
)

// sealRun is one Seal under way.
type sealRun struct {
	src     *Source
	z       *content.Sealer
	buffers sync.Pool // of *wire.Encoder

	firstEnded atomic.Bool // the first worker
}

func (r *sealRun) state(ctx context.Context, s *State) (cas.Hash, error) {
	if h, ok := s.ID(); ok {
		return h, nil
	}
	g, gctx := errgroup.WithContext(ctx)
	jobs := make(chan *Inode, maxJobs)
	for i := range max(1, r.z.Workers) {
		g.Go(func() error { return r.work(gctx, jobs, i > 0) })
	}
	err := eachUnsealed(s.root, nil, func(n *Inode) error {
		if n.Dir.root.unsealed() == nil && n.Content.Sealed() != nil {
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
		if root, err = r.page(ctx, s.root); err != nil {
			return cas.Hash{}, err
		}
	}
	var e wire.Encoder
	encodeState(&e, s, root)
	h, err := r.z.Objects.Put(cas.KindTree, e.Out())
	if err != nil {
		return cas.Hash{}, fmt.Errorf("write the state: %w", err)
	}
	s.id.Store(&h)
	return h, nil
}

// turnOver returns content.ErrTurnOver when it is time to give way.
func (r *sealRun) turnOver() error {
	if r.z.Spend != nil && r.z.Spend(0) {
		return content.ErrTurnOver
	}
	return nil
}

// work seals one file after the other. While writers are active, the second worker does a
// little at intervals, so that the file that it has begun is sealed in the end, and the first
// worker keeps an operating system thread to itself: a thread that has just answered a request
// would keep the client from its processor.
func (r *sealRun) work(ctx context.Context, jobs <-chan *Inode, second bool) error {
	z, locked := *r.z, false
	keep := func(thread bool) {
		switch {
		case thread && !locked:
			runtime.LockOSThread()
		case locked && !thread:
			runtime.UnlockOSThread()
		}
		locked = thread
	}
	defer keep(false)
	z.Pace = func() bool {
		throttled := r.z.Pace != nil && r.z.Pace()
		rests := throttled && second && !r.firstEnded.Load()
		keep(throttled && !rests)
		if rests {
			time.Sleep(secondRest)
		}
		return throttled
	}
	if !second {
		defer r.firstEnded.Store(true)
	}
	for n := range jobs {
		z.Pace()
		if err := guard.Do(func() error { return r.inode(ctx, &z, n) }); err != nil {
			return err
		}
		if err := r.turnOver(); err != nil {
			return err
		}
	}
	return nil
}

// unsealed returns the body of a page that is in memory and not sealed yet.
func (p *page) unsealed() *body {
	if p == nil || p.isSealed() {
		return nil
	}
	return p.mem.Load() // nil if another sealer was faster
}

// eachUnsealed calls fn for the inodes in memory on pages that are not sealed. skip, if set, reports
// whether to leave out a page and those below it.
func eachUnsealed(p *page, skip func(p *page) bool, fn func(n *Inode) error) error {
	b := p.unsealed()
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
	for i := range tableFan {
		if n := b.leaf.cell(i); n != nil {
			if err := fn(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// inode seals the entries of a directory, or the content of a file.
func (r *sealRun) inode(ctx context.Context, z *content.Sealer, n *Inode) error {
	err := ctx.Err()
	if err == nil {
		err = r.dir(ctx, n.Dir.root)
	}
	if err == nil {
		_, err = z.Seal(ctx, n.Content)
	}
	if err != nil {
		return fmt.Errorf("inode %d: %w", n.Ino, err)
	}
	return nil
}

// dir seals the topmost page of a directory, which is an object only if the inode's
// record has no room for the entries.
func (r *sealRun) dir(ctx context.Context, p *page) error {
	b := p.unsealed()
	if b == nil {
		return nil
	}
	if b.kind == wire.KindDirLeaf {
		e := r.encoder()
		defer r.buffers.Put(e)
		if encodeEntries(e, b.ents); e.Len() <= maxInline {
			p.sealInline(string(e.Out()))
			return nil
		}
	}
	_, err := r.page(ctx, p)
	return err
}

// encoder returns an empty one. Give it back to buffers.
func (r *sealRun) encoder() *wire.Encoder {
	e := r.buffers.Get().(*wire.Encoder)
	e.Reset()
	return e
}

// page seals p and all pages below it; the inodes of a table are sealed already.
func (r *sealRun) page(ctx context.Context, p *page) (cas.Hash, error) {
	b := p.unsealed()
	if b == nil {
		return *p.hash.Load(), nil
	}
	if err := cmp.Or(ctx.Err(), r.turnOver()); err != nil {
		return cas.Hash{}, err
	}
	for _, k := range b.kids {
		if k != nil {
			if _, err := r.page(ctx, k); err != nil {
				return cas.Hash{}, err
			}
		}
	}
	e := r.encoder()
	defer r.buffers.Put(e)
	if b.leaf == nil {
		encodeBody(e, b)
	} else if err := encodeTableLeaf(e, b.leaf, r.z.Objects); err != nil {
		return cas.Hash{}, err
	}
	h, err := r.z.Objects.Put(cas.KindTree, e.Out())
	if err != nil {
		return cas.Hash{}, fmt.Errorf("write a page: %w", err)
	}
	if b.leaf != nil {
		// The inodes in memory refer to journal positions and older contents, so the cache gets
		// the page as it is loaded.
		if b, err = decodeBody(append([]byte(nil), e.Out()...)); err != nil {
			return cas.Hash{}, fmt.Errorf("read back a page: %w", err)
		}
	}
	r.src.pages.Put(h, b, b.weight())
	p.seal(h)
	if r.z.Spend != nil {
		r.z.Spend(int64(e.Len()))
	}
	return h, nil
}
