package handoff

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Objects reads the objects of a received handoff. If it has a store, Put writes new objects there.
type Objects struct {
	Source *tree.Source
	Tree   *tree.State
	// Read is the number of bytes that Prefetch has read.
	Read atomic.Int64

	ctx   context.Context
	r     *Received
	at    *remote.Remote
	from  *remote.Snapshot
	store *cas.Store

	mu    sync.Mutex
	ahead map[cas.Hash][]byte // the objects of the last Prefetch that Get has not returned yet
}

// Open opens the snapshot of a received handoff. store, which may be nil, is for Objects.Put. The caller
// closes the result.
func (r *Received) Open(ctx context.Context, c *cache.Cache, store *cas.Store) (*Objects, error) {
	at, err := open(c, r.URL, r.Keys...)
	if err != nil {
		return nil, err
	}

	s := &Objects{ctx: ctx, r: r, at: at, from: at.Snapshot(r.Ref), store: store}
	s.Source = tree.NewSource(s, nil, 64<<20)
	if err := s.from.Fetch(ctx, cas.KindTree); err != nil {
		s.Close()
		return nil, err
	}
	if s.Tree, err = tree.Load(s.Source, r.Ref.State()); err != nil {
		s.Close()
		return nil, err
	}

	return s, nil
}

func (s *Objects) Close() { s.at.Close() }

// Get returns an object, see content.ObjectStore.
func (s *Objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	s.mu.Lock()
	b, ok := s.ahead[h]
	delete(s.ahead, h)
	s.mu.Unlock()
	if ok {
		return append(dst[:0], b...), nil
	}

	if s.store != nil {
		if b, err := s.store.Get(h, dst); !errors.Is(err, cas.ErrNotFound) {
			return b, err
		}
	}

	return s.from.Get(s.ctx, h, dst)
}

// Put stores an object, unless the handoff has it. Without a store it fails with errors.ErrUnsupported.
func (s *Objects) Put(kind cas.Kind, b []byte) (cas.Hash, error) {
	if s.store == nil {
		return cas.Hash{}, errors.ErrUnsupported
	}
	h := cas.Sum(b)
	if has, err := s.from.Has(s.ctx, h); has || err != nil {
		return h, err
	}
	return s.store.Put(kind, b)
}

// parallelReads is the number of objects that Prefetch reads at a time.
const parallelReads = 16

// Prefetch reads objects in parallel, and keeps each in memory until Get returns it.
func (s *Objects) Prefetch(all []cas.Hash) error {
	s.mu.Lock()
	s.ahead = make(map[cas.Hash][]byte, len(all))
	s.mu.Unlock()

	g, ctx := errgroup.WithContext(s.ctx)
	g.SetLimit(parallelReads)
	for _, h := range all {
		g.Go(func() error {
			b, err := s.from.Get(ctx, h, nil)
			if err != nil {
				return err
			}

			s.mu.Lock()
			defer s.mu.Unlock()
			s.ahead[h] = b
			s.Read.Add(int64(len(b)))

			return nil
		})
	}

	return g.Wait()
}

// Transcript returns the transcript of the session, compressed by gzip; nil if there is none.
func (s *Objects) Transcript() ([]byte, error) {
	ref := s.r.Ref
	if ref.Labels[transcriptLabel] == "" {
		return nil, nil
	}
	return remote.GetObject(s.ctx, s.at, ref.Objects[len(ref.Objects)-1])
}

// Done removes the ref of a line that one receiver may claim. If this fails for lack of a right, the sender
// removes the ref later (Area.Sweep).
func (s *Objects) Done() {
	if s.r.Ref.Labels[timesLabel] == "1" {
		_ = s.at.Remove(s.ctx, s.r.ID+".line")
	}
}

// SendBack pushes a state, whose new objects are in the store, to the ref ID.back. It returns the number of
// bytes sent. progress is called with the number of objects sent, of objects to send, and of bytes sent.
func (s *Objects) SendBack(now *tree.State, progress func(parts, of int, sent int64)) (int64, error) {
	id, _ := now.ID() // a sealed state has an id
	done, err := s.at.Push(s.ctx, remote.Push{
		Ref:  remote.Ref{Name: s.r.ID + ".back", ID: id.String(), Created: time.Now().UTC(), Files: now.Inodes - 1, Bytes: now.Bytes},
		Base: s.r.ID, Force: true, Progress: progress,
		Mark: func(ctx context.Context, keep func(cas.Hash) bool) error {
			return now.Mark(ctx, s.Source, nil, false, keep)
		},
		Stored: func(ctx context.Context, h cas.Hash) (cas.StoredObject, error) {
			rec, err := s.store.GetStored(h)
			if errors.Is(err, cas.ErrNotFound) {
				return s.from.Stored(ctx, h)
			}
			return rec, err
		},
	})
	if err != nil {
		return 0, err
	}

	return done.Bytes, nil
}
