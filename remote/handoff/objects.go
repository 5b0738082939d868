package handoff

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Objects reads the objects of a received handoff. If it has a store, Put writes new objects there.
type Objects struct {
	Source *tree.Source
	Tree   *tree.State
	// PrefetchedBytes is the number of bytes that Prefetch has read.
	PrefetchedBytes atomic.Int64

	ctx      context.Context
	received *ReceivedHandoff
	area     *remote.Remote
	snapshot *remote.Snapshot
	store    *cas.Store

	mu         sync.Mutex
	prefetched map[cas.Hash][]byte // the objects of the last Prefetch that Get has not returned yet
}

// Open opens the snapshot of a received handoff. Objects.Put writes to store; without such writes store may be nil.
// The caller closes the result.
func (r *ReceivedHandoff) Open(ctx context.Context, c *cache.Cache, store *cas.Store) (*Objects, error) {
	area, err := openArea(c, r.URL, r.Keys...)
	if err != nil {
		return nil, err
	}

	s := &Objects{ctx: ctx, received: r, area: area, snapshot: area.Snapshot(r.Ref), store: store}
	s.Source = tree.NewSource(s, nil, 64<<20)
	if err := s.snapshot.Fetch(ctx, cas.KindTree); err != nil {
		s.Close()
		return nil, err
	}
	if s.Tree, err = tree.Load(s.Source, r.Ref.StateHash()); err != nil {
		s.Close()
		return nil, err
	}

	return s, nil
}

func (s *Objects) Close() { s.area.Close() }

// Get returns an object, see content.ObjectStore.
func (s *Objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	s.mu.Lock()
	b, ok := s.prefetched[h]
	delete(s.prefetched, h)
	s.mu.Unlock()
	if ok {
		return append(dst[:0], b...), nil
	}

	if s.store != nil {
		if b, err := s.store.Get(h, dst); !errors.Is(err, cas.ErrNotFound) {
			return b, err
		}
	}

	return s.snapshot.Get(s.ctx, h, dst)
}

// Put writes an object to the store, unless the handoff has it. Without a store it returns errors.ErrUnsupported.
func (s *Objects) Put(kind cas.Kind, b []byte) (cas.Hash, error) {
	if s.store == nil {
		return cas.Hash{}, errors.ErrUnsupported
	}
	h := cas.Sum(b)
	if has, err := s.snapshot.Has(s.ctx, h); has || err != nil {
		return h, err
	}
	return s.store.Put(kind, b)
}

// Prefetch reads objects in parallel, and keeps each in memory until Get returns it. It drops the objects of the
// last Prefetch.
func (s *Objects) Prefetch(all []cas.Hash) error {
	s.mu.Lock()
	s.prefetched = make(map[cas.Hash][]byte, len(all))
	s.mu.Unlock()

	return backend.ForEach(s.ctx, all, func(ctx context.Context, h cas.Hash) error {
		b, err := s.snapshot.Get(ctx, h, nil)
		if err != nil {
			return err
		}

		s.mu.Lock()
		defer s.mu.Unlock()
		s.prefetched[h] = b
		s.PrefetchedBytes.Add(int64(len(b)))

		return nil
	})
}

// Transcript returns the transcript of the session, compressed by gzip; nil if there is none.
func (s *Objects) Transcript() ([]byte, error) {
	ref := s.received.Ref
	if ref.Labels[transcriptLabel] == "" {
		return nil, nil
	}
	return remote.GetObject(s.ctx, s.area, ref.Objects[len(ref.Objects)-1])
}

// RemoveLine removes the ref of the line, if only one receiver may claim the line. It ignores errors, such as a
// missing right to delete: the sender removes the ref later (Area.Sweep).
func (s *Objects) RemoveLine() {
	if s.received.Ref.Labels[timesLabel] == "1" {
		_ = s.area.Remove(s.ctx, s.received.ID+".line")
	}
}

// SendBack pushes a state, whose new objects are in the store, to the ref ID.back. It returns the number of bytes
// sent. progress is as in remote.PushOptions.
func (s *Objects) SendBack(st *tree.State, progress func(done, total int, sentBytes int64)) (int64, error) {
	id, _ := st.ID() // a sealed state has an id
	result, err := s.area.Push(s.ctx, remote.PushOptions{
		Ref:  remote.Ref{Name: s.received.ID + ".back", ID: id.String(), Created: time.Now().UTC(), Files: st.Inodes - 1, Bytes: st.Bytes},
		Base: s.received.ID, Force: true, Progress: progress,
		Mark: func(ctx context.Context, keep func(cas.Hash) bool) error {
			return st.Mark(ctx, s.Source, nil, false, keep)
		},
		ReadStored: func(ctx context.Context, h cas.Hash) (cas.StoredObject, error) {
			rec, err := s.store.GetStored(h)
			if errors.Is(err, cas.ErrNotFound) {
				return s.snapshot.Stored(ctx, h)
			}
			return rec, err
		},
	})
	if err != nil {
		return 0, err
	}

	return result.Bytes, nil
}
