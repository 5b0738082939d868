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
	// maxFetchBytes is the largest size of a range that one request of Fetch reads.
	maxFetchBytes = 8 << 20
	// maxReadAheadBytes is the largest number of bytes that are read ahead with a record.
	maxReadAheadBytes = 4 << 20
)

// A Snapshot reads the records of a snapshot on a remote. Its methods have the interface of a cas.Store, so
// in their comments "object" is a record. The first read, or LoadIndex, reads the indexes with the places of
// the records. A Snapshot is safe for concurrent use.
type Snapshot struct {
	Ref       *object.Ref
	r         *Remote
	index     atomic.Pointer[object.Index]
	loadLock  *semaphore.Weighted // acquired by the goroutine that reads the indexes
	readAhead readAhead
}

// Snapshot returns the snapshot of a ref. It makes no request.
func (r *Remote) Snapshot(ref *object.Ref) *Snapshot {
	return &Snapshot{Ref: ref, r: r, loadLock: semaphore.NewWeighted(1)}
}

// LoadIndex returns the indexes, which it reads once. After an error the next call reads them again.
func (s *Snapshot) LoadIndex(ctx context.Context) (*object.Index, error) {
	if x := s.index.Load(); x != nil {
		return x, nil
	}
	if err := s.loadLock.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer s.loadLock.Release(1)

	if x := s.index.Load(); x != nil {
		return x, nil
	}

	x, err := s.readIndexes(ctx)
	if errors.Is(err, errs.Damaged) { // readIndexes has dropped the damaged part from the cache
		x, err = s.readIndexes(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("index of snapshot %s: %w", s.Ref.Name, err)
	}

	s.index.Store(x)

	return x, nil
}

// IsLoaded reports whether the indexes were read.
func (s *Snapshot) IsLoaded() bool { return s.index.Load() != nil }

// readIndexes reads all indexes. It drops a damaged index from the cache.
func (s *Snapshot) readIndexes(ctx context.Context) (*object.Index, error) {
	r, ref := s.r, s.Ref
	raw := make(map[object.Section][]byte)
	var mu sync.Mutex
	if err := backend.ForEach(ctx, ref.Indexes, func(ctx context.Context, section object.Section) error {
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
			r.dropCached(ref.Objects[section.Object], ref.Encrypted, section.Offset, section.Size())
			return nil, err
		}
	}

	return &x, nil
}

// Has reports whether the remote has the object h, and all objects that h refers to.
func (s *Snapshot) Has(ctx context.Context, h cas.Hash) (bool, error) {
	x, err := s.LoadIndex(ctx)
	if err != nil {
		return false, err
	}
	_, ok := x.Find(h)
	return ok, nil
}

// Get appends the bytes of an object to dst[:0]. Errors: cas.ErrNotFound if no
// index has it; cas.ErrDamaged if the remote has other bytes; backend.ErrAway.
func (s *Snapshot) Get(ctx context.Context, h cas.Hash, dst []byte) ([]byte, error) {
	_, b, err := s.get(ctx, h, dst)
	return b, err
}

// GetCached does what Get does, but makes no requests. If the cache lacks the object, it returns a cas.AbsentError.
// It panics if the indexes were not loaded: see IsLoaded.
func (s *Snapshot) GetCached(h cas.Hash, dst []byte) ([]byte, error) {
	e, ok := s.index.Load().Find(h)
	if !ok {
		return dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
	}

	if _, b, err := s.readExpanded(context.Background(), h, e, true, 0, dst); err == nil {
		s.readAhead.advance(&e)
		return b, nil
	}

	return dst[:0], &cas.AbsentError{Hash: h, Fetch: func(ctx context.Context) error {
		_, err := s.Get(ctx, h, nil)
		return err
	}}
}

// Stored returns an object in its stored form. It also compares the expanded bytes with the hash.
func (s *Snapshot) Stored(ctx context.Context, h cas.Hash) (cas.StoredObject, error) {
	rec, _, err := s.get(ctx, h, nil)
	return rec, err
}

// get returns an object in its stored form, and its plain bytes, appended to dst[:0].
func (s *Snapshot) get(ctx context.Context, h cas.Hash, dst []byte) (rec cas.StoredObject, plain []byte, err error) {
	x, err := s.LoadIndex(ctx)
	if err != nil {
		return rec, dst[:0], err
	}

	e, ok := x.Find(h)
	if !ok {
		return rec, dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
	}

	rec, plain, err = s.readExpanded(ctx, h, e, false, s.readAhead.advance(&e), dst)
	if errors.Is(err, cas.ErrDamaged) { // perhaps only the cached bytes are damaged, by a power cut
		s.r.dropCached(s.Ref.Objects[e.Object], s.Ref.Encrypted, int64(e.Offset), int64(e.StoredSize))
		rec, plain, err = s.readExpanded(ctx, h, e, false, 0, dst)
	}

	return rec, plain, err
}

// readExpanded reads the object h, whose place is the entry e, and checks that its bytes have the hash h. It returns
// the object in its stored form, and its plain bytes, appended to dst[:0]. cachedOnly and aheadBytes are as in
// Remote.read.
func (s *Snapshot) readExpanded(ctx context.Context, h cas.Hash, e object.Entry, cachedOnly bool, aheadBytes int64, dst []byte) (cas.StoredObject, []byte, error) {
	b, err := s.read(ctx, int(e.Object), cachedOnly, int64(e.Offset), int64(e.StoredSize), aheadBytes)
	if err == nil && len(b) != int(e.StoredSize) {
		err = fmt.Errorf("%w: it ends early", cas.ErrDamaged)
	}
	if err != nil {
		return cas.StoredObject{}, dst[:0], fmt.Errorf("object %s in %s: %w", h, s.Ref.Objects[e.Object].Name, err)
	}

	rec := cas.StoredObject{Kind: e.Kind, Flags: e.Flags, PlainSize: int(e.PlainSize), Bytes: b}
	plain, err := s.r.expander.Expand(h, rec, dst)
	return rec, plain, err
}

// read reads n bytes of an object of the ref, as Remote.read does.
func (s *Snapshot) read(ctx context.Context, object int, cachedOnly bool, off, n, aheadBytes int64) ([]byte, error) {
	b, err := s.r.read(ctx, s.Ref.Objects[object], s.Ref.Encrypted, cachedOnly, off, n, aheadBytes)
	return b, asIncomplete(err)
}

// asIncomplete converts backend.ErrNotFound, for an object that a ref names, to ErrIncomplete.
func asIncomplete(err error) error {
	if errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return err
}

// Fetch reads all objects of one kind into the cache, with requests of up to maxFetchBytes bytes.
func (s *Snapshot) Fetch(ctx context.Context, kind cas.Kind) error {
	x, err := s.LoadIndex(ctx)
	if err != nil {
		return err
	}
	return backend.ForEach(ctx, joinRanges(x.Entries(kind), cache.BlockSize), func(ctx context.Context, b byteRange) error {
		if s.r.o.Cache.Has(s.Ref.Objects[b.object], b.off, b.end-b.off) {
			return nil
		}
		_, err := s.read(ctx, int(b.object), false, b.off, b.end-b.off, 0)
		return err
	})
}

// A byteRange is a range of bytes of an object of the ref.
type byteRange struct {
	object   uint32 // index in Ref.Objects
	off, end int64
}

// joinRanges returns ranges that contain all entries. The entries are sorted by place. Entries less than gap bytes
// apart share a range, if it has at most maxFetchBytes.
func joinRanges(entries []object.Entry, gap int64) (out []byteRange) {
	for _, e := range entries {
		if n := len(out) - 1; n >= 0 && out[n].object == e.Object &&
			int64(e.Offset)-out[n].end < gap && e.End()-out[n].off <= maxFetchBytes {
			out[n].end = max(out[n].end, e.End())
			continue
		}

		out = append(out, byteRange{e.Object, int64(e.Offset), e.End()})
	}
	return slices.Clip(out)
}

// A readAhead decides how many bytes to read ahead. If a record begins at the end of the record that was read before
// it, or less than a block behind that end, the number is doubled, up to maxReadAheadBytes. Otherwise the number
// becomes 0.
type readAhead struct {
	mu     sync.Mutex
	object uint32 // index in Ref.Objects of the object with the last record
	end    int64  // offset of the end of the last record
	size   int64  // number of bytes to read ahead
}

// advance records a read of the record at e, and returns how many bytes to read ahead after the record.
func (a *readAhead) advance(e *object.Entry) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()

	follows := e.Object == a.object && int64(e.Offset) >= a.end && int64(e.Offset) < a.end+cache.BlockSize
	if follows {
		a.size = min(max(2*a.size, int64(e.StoredSize)), maxReadAheadBytes)
	} else {
		a.size = 0
	}

	a.object, a.end = e.Object, e.End()
	return a.size
}

// holdTime is the time after which a hold ends, unless it is written again.
const holdTime = 7 * 24 * time.Hour

// A hold is a value on the remote that names objects. A collection must not remove them, because a program reads
// them.
type hold struct {
	Objects []backend.Object `json:"objects"`
}

// Hold protects the objects of the snapshot from collections for holdTime, even if its ref is removed. A
// reader calls it once a day with the same id.
func (s *Snapshot) Hold(ctx context.Context, id string) error {
	r := s.r
	if r.b.IsRegistry() {
		return nil
	}
	// Format fails if no remote was set up at the URL. Then Hold must not write there, because another person may
	// have chosen the URL.
	if _, err := r.Format(ctx); err != nil {
		return err
	}

	raw, err := json.Marshal(hold{Objects: s.Ref.Objects})
	if err != nil {
		return fmt.Errorf("encode hold: %w", err)
	}

	return r.b.Put(ctx, "hold/"+id, raw, backend.PutOptions{})
}
