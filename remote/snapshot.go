package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

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

// A Snapshot is a snapshot on a remote of which the objects can be read. Where they lie
// is read from its indexes by the first read, or by Load. It is safe for concurrent use.
type Snapshot struct {
	Ref   *object.Ref
	r     *Remote
	index atomic.Pointer[object.Index]
	turn  *semaphore.Weighted // taken by the goroutine that reads the indexes
	ahead ahead
}

func (r *Remote) Snapshot(ref *object.Ref) *Snapshot {
	return &Snapshot{Ref: ref, r: r, turn: semaphore.NewWeighted(1)}
}

// Load reads the indexes, once. An error is not kept.
func (s *Snapshot) Load(ctx context.Context) (*object.Index, error) {
	if x := s.index.Load(); x != nil {
		return x, nil
	}
	if err := s.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer s.turn.Release(1)
	if x := s.index.Load(); x != nil {
		return x, nil
	}
	x, err := s.readIndexes(ctx)
	if errors.Is(err, errs.Damaged) { // what was cached is dropped now
		x, err = s.readIndexes(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("index of snapshot %s: %w", s.Ref.Name, err)
	}
	s.index.Store(x)
	return x, nil
}

func (s *Snapshot) Loaded() bool { return s.index.Load() != nil }

func (s *Snapshot) readIndexes(ctx context.Context) (*object.Index, error) {
	r, ref := s.r, s.Ref
	raw := make(map[object.Section][]byte)
	var mu sync.Mutex
	if err := each(ctx, ref.Indexes, func(ctx context.Context, section object.Section) error {
		b, err := s.read(ctx, section.Object, false, section.Offset, section.Size(), 0)
		mu.Lock()
		defer mu.Unlock()
		raw[section] = b
		return err
	}); err != nil {
		return nil, err
	}
	var x object.Index
	for _, section := range ref.Indexes {
		if err := x.Add(raw[section], section, ref.Objects); err != nil {
			r.drop(ref.Objects[section.Object], ref.Encrypted, section.Offset, section.Size())
			return nil, err
		}
	}
	return &x, nil
}

// Has reports whether the remote has the object h, and all that is below it.
func (s *Snapshot) Has(ctx context.Context, h cas.Hash) (bool, error) {
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
	_, b, err := s.get(ctx, h, dst)
	return b, err
}

// Near is Get without a request: a cas.Absent error if that would take one. The indexes
// are Loaded.
func (s *Snapshot) Near(h cas.Hash, dst []byte) ([]byte, error) {
	e, ok := s.index.Load().Find(h)
	if !ok {
		return dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
	}
	if _, b, err := s.expanded(context.Background(), h, e, true, 0, dst); err == nil {
		s.ahead.of(&e)
		return b, nil
	}
	return dst[:0], &cas.Absent{Hash: h, Fetch: func(ctx context.Context) error {
		_, err := s.Get(ctx, h, nil)
		return err
	}}
}

// Stored returns an object as it is on the remote. It has the hash when it is expanded.
func (s *Snapshot) Stored(ctx context.Context, h cas.Hash) (cas.Stored, error) {
	rec, _, err := s.get(ctx, h, nil)
	return rec, err
}

func (s *Snapshot) get(ctx context.Context, h cas.Hash, dst []byte) (rec cas.Stored, plain []byte, err error) {
	x, err := s.Load(ctx)
	if err != nil {
		return rec, dst[:0], err
	}
	e, ok := x.Find(h)
	if !ok {
		return rec, dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
	}
	rec, plain, err = s.expanded(ctx, h, e, false, s.ahead.of(&e), dst)
	if errors.Is(err, cas.ErrDamaged) { // what is cached may have been torn by a power cut
		s.r.drop(s.Ref.Objects[e.Object], s.Ref.Encrypted, int64(e.Offset), int64(e.Stored))
		rec, plain, err = s.expanded(ctx, h, e, false, 0, dst)
	}
	return rec, plain, err
}

// expanded reads the object at an entry, and compares it with its hash. near reads from the
// cache only.
func (s *Snapshot) expanded(ctx context.Context, h cas.Hash, e object.Entry, near bool, ahead int64, dst []byte) (cas.Stored, []byte, error) {
	b, err := s.read(ctx, int(e.Object), near, int64(e.Offset), int64(e.Stored), ahead)
	if err == nil && len(b) != int(e.Stored) {
		err = fmt.Errorf("%w: it ends early", cas.ErrDamaged)
	}
	if err != nil {
		return cas.Stored{}, dst[:0], fmt.Errorf("object %s in %s: %w", h, s.Ref.Objects[e.Object].Name, err)
	}
	rec := cas.Stored{Kind: e.Kind, Flags: e.Flags, Plain: int(e.Plain), Bytes: b}
	plain, err := s.r.expand.Expand(h, rec, dst)
	return rec, plain, err
}

func (s *Snapshot) read(ctx context.Context, object int, near bool, off, n, ahead int64) ([]byte, error) {
	b, err := s.r.read(ctx, s.Ref.Objects[object], s.Ref.Encrypted, near, off, n, ahead)
	return b, missing(err)
}

// missing is the error for an object that a ref names and the remote does not have.
func missing(err error) error {
	if errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return err
}

// Fetch reads everything of one kind into the cache, in requests of up to fetchRun bytes.
func (s *Snapshot) Fetch(ctx context.Context, kind cas.Kind) error {
	x, err := s.Load(ctx)
	if err != nil {
		return err
	}
	return each(ctx, runs(x.Entries(kind), cache.BlockSize), func(ctx context.Context, run run) error {
		if s.r.o.Cache.Has(s.Ref.Objects[run.object], run.off, run.end-run.off) {
			return nil
		}
		_, err := s.read(ctx, int(run.object), false, run.off, run.end-run.off, 0)
		return err
	})
}

type run struct {
	object   uint32
	off, end int64
}

// runs joins sorted records that lie less than gap bytes apart.
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

// ahead is how far to read ahead: with each record that follows the one before, twice as
// far, up to aheadMost.
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

// holdTime is how long a hold counts after it was written.
const holdTime = 7 * 24 * time.Hour

// A hold names objects that are read, with or without a ref.
type hold struct {
	Objects []backend.Object `json:"objects"`
}

// Hold keeps what the snapshot needs from being collected for a week. A reader calls it
// once a day, with the same id.
func (s *Snapshot) Hold(ctx context.Context, id string) error {
	r := s.r
	if r.b.Collects() {
		return nil
	}
	// Without a remote at the URL nothing is written: somebody else may have chosen the URL.
	if _, err := r.Format(ctx); err != nil {
		return err
	}
	raw, err := json.Marshal(hold{Objects: s.Ref.Objects})
	if err != nil {
		return fmt.Errorf("encode hold: %w", err)
	}
	return r.b.Put(ctx, "hold/"+id, raw, backend.PutOptions{})
}
