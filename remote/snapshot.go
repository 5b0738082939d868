package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/object"
)

const (
	// fetchRun is how much one request of a whole fetch reads, in bytes.
	fetchRun = 8 << 20
	// aheadMost bounds the read-ahead of single records, in bytes.
	aheadMost = 4 << 20
)

// A Snapshot is a snapshot on a remote of which the objects can be read. The first read
// fetches the pages that listing the root needs; where the rest lies is read from its
// indexes when it is needed, or by Load. It is safe for concurrent use.
type Snapshot struct {
	Ref   *object.Ref
	r     *Remote
	hot   atomic.Pointer[hotPages] // nil until they were read
	index atomic.Pointer[object.Index]
	turn  chan struct{} // taken by the goroutine that reads hot pages or indexes
	ahead ahead
}

// hotPages are the pages that the ref calls hot, by the first half of their hashes.
type hotPages map[cas.Hash]cas.Stored

// Snapshot returns the snapshot of a ref. Nothing of it was read yet.
func (r *Remote) Snapshot(ref *object.Ref) *Snapshot {
	return &Snapshot{Ref: ref, r: r, turn: make(chan struct{}, 1)}
}

// Begin reads what a first look at the snapshot needs: its hot pages or, if it has none,
// its indexes.
func (s *Snapshot) Begin(ctx context.Context) error {
	err := s.readHot(ctx)
	if err == nil && len(*s.hot.Load()) == 0 {
		_, err = s.Load(ctx)
	}
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", s.Ref.Name, err)
	}
	return nil
}

// inTurn calls fn while no other goroutine reads hot pages or indexes.
func (s *Snapshot) inTurn(ctx context.Context, fn func() error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		return fn()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Load reads the indexes, once. An error is not kept.
func (s *Snapshot) Load(ctx context.Context) (*object.Index, error) {
	if x := s.index.Load(); x != nil {
		return x, nil
	}
	err := s.inTurn(ctx, func() error {
		if s.index.Load() != nil {
			return nil
		}
		x, err := s.readIndexes(ctx)
		if errors.Is(err, errs.Damaged) { // what was cached is dropped now
			x, err = s.readIndexes(ctx)
		}
		if err != nil {
			return fmt.Errorf("index of snapshot %s: %w", s.Ref.Name, err)
		}
		s.index.Store(x)
		return nil
	})
	return s.index.Load(), err
}

// Loaded reports whether the indexes were read.
func (s *Snapshot) Loaded() bool { return s.index.Load() != nil }

func (s *Snapshot) readIndexes(ctx context.Context) (*object.Index, error) {
	r, ref := s.r, s.Ref
	raw := make([][]byte, len(ref.Indexes))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, section := range ref.Indexes {
		raw[i] = make([]byte, section.Size())
		for at := int64(0); at < section.Size(); at += fetchRun {
			n := min(fetchRun, section.Size()-at)
			g.Go(func() error {
				b, err := r.read(gctx, ref.Objects[section.Object], ref.Encrypted, section.Offset+at, n, 0)
				copy(raw[i][at:], b)
				return missing(err)
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var x object.Index
	for i, section := range ref.Indexes {
		if err := x.Add(raw[i], section, ref.Objects); err != nil {
			r.drop(ref.Objects[section.Object], ref.Encrypted, section.Offset, section.Size())
			return nil, err
		}
	}
	return &x, nil
}

// readHot reads the hot pages, once: those parts of objects and nothing around them.
func (s *Snapshot) readHot(ctx context.Context) error {
	if s.hot.Load() != nil {
		return nil
	}
	return s.inTurn(ctx, func() error {
		if s.hot.Load() != nil {
			return nil
		}
		pages, err := s.fetchHot(ctx)
		if err == nil {
			s.hot.Store(&pages)
		}
		return err
	})
}

// fetchHot returns the hot pages. They are kept in the cache as an object of their own.
func (s *Snapshot) fetchHot(ctx context.Context) (hotPages, error) {
	r, ref, pages := s.r, s.Ref, hotPages{}
	entries := ref.HotTable().Entries()
	slices.SortFunc(entries, object.ByPlace)
	parts, total := hotRuns(entries)
	if total == 0 || total > hotMost {
		return pages, nil
	}
	o := cache.Object{Name: backend.Named(fmt.Append(nil, ref.Objects, entries)).Name, Size: total}
	all, ok := r.o.Cache.Near(o, 0, total)
	if !ok {
		var err error
		if all, err = r.readParts(ctx, ref, parts, total); err != nil {
			return nil, err
		}
		r.o.Cache.Put(o, all)
	}
	for _, p := range parts {
		for len(entries) > 0 && entries[0].Object == p.object && entries[0].End() <= p.end {
			e := entries[0]
			entries = entries[1:]
			b := all[int64(e.Offset)-p.off:][:e.Stored]
			pages[half(e.Prefix[:])] = cas.Stored{Kind: e.Kind, Flags: e.Flags, Plain: int(e.Plain), Bytes: b}
		}
		all = all[p.end-p.off:]
	}
	return pages, nil
}

// readParts reads parts of objects, one after the other in what it returns.
func (r *Remote) readParts(ctx context.Context, ref *object.Ref, parts []run, total int64) ([]byte, error) {
	all := make([]byte, total)
	g, ctx := errgroup.WithContext(ctx)
	at := int64(0)
	for _, p := range parts {
		into := all[at : at+p.end-p.off]
		at += p.end - p.off
		g.Go(func() error {
			b, err := r.readPart(ctx, ref.Objects[p.object], ref.Encrypted, p.off, p.end-p.off)
			if copy(into, b) < len(into) && err == nil {
				err = fmt.Errorf("%w: an object ends early", cas.ErrDamaged)
			}
			return missing(err)
		})
	}
	return all, g.Wait()
}

// half is a hash of which only the first half is known, as an index has it.
func half(prefix []byte) (h cas.Hash) {
	copy(h[:len(object.Entry{}.Prefix)], prefix)
	return h
}

// ID is the hash of the snapshot's state.
func (s *Snapshot) ID() cas.Hash {
	return s.Ref.State()
}

// Has reports whether the remote has the object h, and all that is below it.
func (s *Snapshot) Has(ctx context.Context, h cas.Hash) (bool, error) {
	if _, ok := s.ofHot(h); ok {
		return true, nil
	}
	x, err := s.Load(ctx)
	if err != nil {
		return false, err
	}
	_, ok := x.Find(h)
	return ok, nil
}

// Get appends the bytes of an object to dst[:0]. Errors: cas.ErrNotFound if no
// index names it; cas.ErrDamaged if the remote has other bytes; backend.ErrAway.
func (s *Snapshot) Get(ctx context.Context, h cas.Hash, dst []byte) ([]byte, error) {
	if !s.Loaded() {
		if err := s.readHot(ctx); err != nil {
			return dst[:0], err
		}
	}
	if b, ok := s.expandHot(h, dst); ok {
		return b, nil
	}
	rec, e, err := s.stored(ctx, h)
	if err != nil {
		return dst[:0], err
	}
	b, err := s.r.expand.Expand(h, rec, dst)
	if !errors.Is(err, cas.ErrDamaged) {
		return b, err
	}
	// What is cached may have been torn by a power cut.
	s.r.drop(s.Ref.Objects[e.Object], s.Ref.Encrypted, int64(e.Offset), int64(e.Stored))
	if rec, _, err = s.stored(ctx, h); err != nil {
		return dst[:0], err
	}
	return s.r.expand.Expand(h, rec, dst)
}

// ofHot returns an object that is among the hot pages, if they were read.
func (s *Snapshot) ofHot(h cas.Hash) (rec cas.Stored, ok bool) {
	if pages := s.hot.Load(); pages != nil {
		rec, ok = (*pages)[half(h[:16])]
	}
	return rec, ok
}

// expandHot is Get for the hot pages. A damaged one is read from its object instead.
func (s *Snapshot) expandHot(h cas.Hash, dst []byte) ([]byte, bool) {
	rec, ok := s.ofHot(h)
	if !ok {
		return dst[:0], false
	}
	b, err := s.r.expand.Expand(h, rec, dst)
	return b, err == nil
}

// Near is Get without a request: a cas.Absent error if that would take one.
func (s *Snapshot) Near(h cas.Hash, dst []byte) ([]byte, error) {
	if b, ok := s.expandHot(h, dst); ok {
		return b, nil
	}
	x := s.index.Load()
	if x == nil {
		return dst[:0], &cas.Absent{Hash: h, Fetch: s.readMore}
	}
	e, ok := x.Find(h)
	if !ok {
		return dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
	}
	b, ok := s.r.near(s.Ref.Objects[e.Object], s.Ref.Encrypted, int64(e.Offset), int64(e.Stored))
	if ok {
		plain, err := s.r.expand.Expand(h, cas.Stored{Kind: e.Kind, Flags: e.Flags, Plain: int(e.Plain), Bytes: b}, dst)
		if err == nil {
			s.ahead.of(&e)
			return plain, nil
		}
	}
	return dst[:0], &cas.Absent{Hash: h, Fetch: func(ctx context.Context) error {
		_, err := s.Get(ctx, h, nil)
		return err
	}}
}

// readMore reads the hot pages, or the indexes if it has those.
func (s *Snapshot) readMore(ctx context.Context) error {
	if s.hot.Load() == nil {
		return s.Begin(ctx)
	}
	_, err := s.Load(ctx)
	return err
}

// Stored returns an object as it lies on the remote. What the remote says is not
// believed: the object is compared with its hash.
func (s *Snapshot) Stored(ctx context.Context, h cas.Hash) (cas.Stored, error) {
	if _, err := s.Get(ctx, h, nil); err != nil {
		return cas.Stored{}, err
	}
	if _, ok := s.expandHot(h, nil); ok {
		rec, _ := s.ofHot(h)
		return rec, nil
	}
	rec, _, err := s.stored(ctx, h)
	return rec, err
}

func (s *Snapshot) stored(ctx context.Context, h cas.Hash) (cas.Stored, object.Entry, error) {
	x, err := s.Load(ctx)
	if err != nil {
		return cas.Stored{}, object.Entry{}, err
	}
	e, ok := x.Find(h)
	if !ok {
		return cas.Stored{}, e, fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
	}
	o := s.Ref.Objects[e.Object]
	b, err := s.r.read(ctx, o, s.Ref.Encrypted, int64(e.Offset), int64(e.Stored), s.ahead.of(&e))
	if err == nil && len(b) != int(e.Stored) {
		err = fmt.Errorf("%w: it ends early", cas.ErrDamaged)
	}
	if err != nil {
		return cas.Stored{}, e, fmt.Errorf("object %s in %s: %w", h, o.Name, missing(err))
	}
	return cas.Stored{Kind: e.Kind, Flags: e.Flags, Plain: int(e.Plain), Bytes: b}, e, nil
}

// missing says of an object that a ref names and the remote does not have what
// that means.
func missing(err error) error {
	if errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return err
}

// Fetch brings everything of one kind that the indexes name into the cache, at
// most fetchRun bytes a request.
func (s *Snapshot) Fetch(ctx context.Context, kind cas.Kind) error {
	x, err := s.Load(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, run := range runs(x.Entries(kind), cache.BlockSize) {
		o := s.Ref.Objects[run.object]
		if s.r.o.Cache.Has(cache.Object(o), run.off, run.end-run.off) {
			continue
		}
		g.Go(func() error {
			_, err := s.r.read(ctx, o, s.Ref.Encrypted, run.off, run.end-run.off, 0)
			return missing(err)
		})
	}
	return g.Wait()
}

// A run is a part of an object that one request reads.
type run struct {
	object   uint32
	off, end int64
}

const (
	// hotGap is how far apart hot pages may lie that one request reads, in bytes.
	hotGap = 128 << 10
	// hotMost bounds what is read of them, in bytes, and hotParts in how many requests
	// at once.
	hotMost  = 1 << 20
	hotParts = 6
)

// hotRuns returns the parts of objects that reading hot pages takes, and how much that
// is in bytes.
func hotRuns(entries []object.Entry) (parts []run, total int64) {
	parts = runs(slices.SortedFunc(slices.Values(entries), object.ByPlace), hotGap)
	for _, p := range parts {
		total += p.end - p.off
	}
	return parts, total
}

// runs joins records that lie less than gap bytes apart. entries are in order of
// place.
func runs(entries []object.Entry, gap int64) (out []run) {
	for _, e := range entries {
		if n := len(out) - 1; n >= 0 && out[n].object == e.Object &&
			int64(e.Offset)-out[n].end < gap && e.End()-out[n].off <= fetchRun {
			out[n].end = max(out[n].end, e.End())
			continue
		}
		out = append(out, run{e.Object, int64(e.Offset), e.End()})
	}
	return slices.Clip(out)
}

// ahead tells how far to read ahead: who reads one record after the other gets
// twice as much with each, up to aheadMost.
type ahead struct {
	mu     sync.Mutex
	object uint32
	next   int64
	size   int64
}

func (a *ahead) of(e *object.Entry) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	near := e.Object == a.object && int64(e.Offset) >= a.next && int64(e.Offset) < a.next+cache.BlockSize
	if near {
		a.size = min(max(2*a.size, int64(e.Stored)), aheadMost)
	} else {
		a.size = 0
	}
	a.object, a.next = e.Object, e.End()
	return a.size
}
