package known

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// all returns the sources, in the order in which they were added.
func (k *Registry) all() []*remote.Snapshot { return *k.loaded.Load() }

// nameTime is how long the answer for a name counts: a thousand claims ask once.
const nameTime = time.Minute

type askedRef struct {
	ref *object.Ref
	at  time.Time
}

// SplitFrom splits REMOTE@SNAPSHOT. ok is false for what is no URL of a remote.
func SplitFrom(s string) (url, name string, ok bool) {
	if !backend.IsURL(s) {
		return "", "", false
	}
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s, "", true
	}
	return s[:i], s[i+1:], true
}

// MountFrom notes that the store begins with a snapshot of a remote, found by its
// name or its id. The name or id is asked for once; what it was then stays.
func (k *Registry) MountFrom(ctx context.Context, url, name string) (*object.Ref, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, err := k.atAgreed(url)
	if err != nil {
		return nil, err
	}
	ref, err := r.Find(ctx, name)
	if errors.Is(err, backend.ErrNotFound) {
		// Only a remote proves that there is no such snapshot, not an empty place.
		if _, ferr := r.Format(ctx); ferr != nil {
			return nil, ferr
		}
	}
	if err != nil {
		return nil, err
	}
	k.file.From = []from{{URL: url, Hold: uuid.NewString(), Ref: ref}}
	k.file.Pushed[r.URL()] = ref.Name
	return ref, k.save()
}

// Source makes a snapshot on a remote one that the store reads from, by its name or its
// id. What is behind it is fetched when it is read.
func (k *Registry) Source(ctx context.Context, r *remote.Remote, name string) (*object.Ref, error) {
	if err := k.joining.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer k.joining.Release(1)
	if ref := k.source(r, name); ref != nil {
		return ref, nil
	}
	asked := [2]string{r.URL(), name}
	if a := k.asked[asked]; time.Since(a.at) < nameTime {
		return a.ref, nil
	}
	ref, err := r.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if known := k.source(r, ref.ID); known != nil {
		ref = known
	} else if err := k.addSource(ctx, r, ref); err != nil {
		return nil, err
	}
	maps.DeleteFunc(k.asked, func(_ [2]string, a askedRef) bool { return time.Since(a.at) >= nameTime })
	k.asked[asked] = askedRef{ref, time.Now()}
	return ref, nil
}

// Forget drops the answer for a name, so that the remote is asked again.
func (k *Registry) Forget(ctx context.Context, r *remote.Remote, name string) error {
	if err := k.joining.Acquire(ctx, 1); err != nil {
		return err
	}
	defer k.joining.Release(1)
	delete(k.asked, [2]string{r.URL(), name})
	return nil
}

func (k *Registry) source(r *remote.Remote, id string) *object.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.file.From {
		if f.URL == r.URL() && f.Ref.ID == id {
			return f.Ref
		}
	}
	return nil
}

func (k *Registry) addSource(ctx context.Context, r *remote.Remote, ref *object.Ref) error {
	s := r.Snapshot(ref)
	if _, err := s.Load(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file.From = append(k.file.From, from{URL: r.URL(), Hold: uuid.NewString(), Ref: ref})
	if err := k.save(); err != nil {
		k.file.From = k.file.From[:len(k.file.From)-1]
		return err
	}
	all := append(slices.Clone(k.all()), s)
	k.loaded.Store(&all)
	select {
	case k.added <- struct{}{}:
	default:
	}
	return nil
}

func (k *Registry) Added() <-chan struct{} { return k.added }

func (k *Registry) From() *object.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.file.From) == 0 {
		return nil
	}
	return k.file.From[0].Ref
}

// Load makes the snapshots that the store was mounted from known to Has and Get. It asks no
// remote, so that one that is away keeps no store from being mounted.
func (k *Registry) Load() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*remote.Snapshot
	for _, f := range k.file.From {
		r, err := k.at(f.URL)
		if err != nil {
			return err
		}
		all = append(all, r.Snapshot(f.Ref))
	}
	k.loaded.Store(&all)
	return nil
}

// Probe finds out in the background which remotes answer, for Away.
func (k *Registry) Probe() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.file.From {
		if r := k.open[f.URL]; r != nil && k.trust.has(r.URL()) {
			r.Probe()
		}
	}
}

func (k *Registry) Any() bool { return len(k.all()) > 0 }

func (k *Registry) Has(h cas.Hash) (bool, error) {
	var failed error // one that is away does not stand before the others
	for _, s := range k.ordered() {
		ok, err := s.Has(k.closed, h)
		if ok {
			return true, nil
		}
		failed = errors.Join(failed, err)
	}
	return false, failed
}

// Get appends the bytes of an object to dst[:0]. Errors are those of remote.Snapshot.Get.
func (k *Registry) Get(h cas.Hash, dst []byte) (b []byte, err error) {
	err = k.find(h, func(s *remote.Snapshot) (err error) {
		b, err = s.Get(k.closed, h, dst)
		return err
	})
	return b, err
}

func (k *Registry) Stored(ctx context.Context, h cas.Hash) (rec cas.Stored, err error) {
	err = k.find(h, func(s *remote.Snapshot) (err error) {
		rec, err = s.Stored(ctx, h)
		return err
	})
	return rec, err
}

// find reads an object from one source after another until one has it.
func (k *Registry) find(h cas.Hash, read func(*remote.Snapshot) error) error {
	var failed error
	for _, s := range k.ordered() {
		err := read(s)
		if err == nil {
			return nil
		}
		if !errors.Is(err, cas.ErrNotFound) {
			failed = errors.Join(failed, err)
		}
	}
	if failed == nil {
		failed = fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
	}
	return failed
}

// Near is Get of what is on this machine; else a cas.Absent error.
func (k *Registry) Near(h cas.Hash, dst []byte) ([]byte, error) {
	var unread []*remote.Snapshot
	for _, s := range k.ordered() {
		if !s.Loaded() {
			unread = append(unread, s)
			continue
		}
		if b, err := s.GetCached(h, dst); !errors.Is(err, cas.ErrNotFound) {
			return b, err
		}
	}
	if len(unread) > 0 {
		return dst[:0], &cas.Absent{Hash: h, Fetch: func(ctx context.Context) error { return loadAny(ctx, unread) }}
	}
	return dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
}

func loadAny(ctx context.Context, all []*remote.Snapshot) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, len(all))
	for _, s := range all {
		go func() {
			_, err := s.Load(ctx)
			done <- err
		}()
	}
	var failed error
	for range all {
		err := <-done
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// ordered returns the sources, those first of which the indexes were read.
func (k *Registry) ordered() (out []*remote.Snapshot) {
	var unread []*remote.Snapshot
	for _, s := range k.all() {
		if s.Loaded() {
			out = append(out, s)
		} else {
			unread = append(unread, s)
		}
	}
	return append(out, unread...)
}

// How much of a snapshot is fetched before a reader reads it.
const (
	PrefetchNone = "none"
	PrefetchTree = "tree" // names and attributes
	PrefetchAll  = "all"
)

// Prefetch fetches what is wanted of the sources into the cache; PrefetchTree if empty.
func (k *Registry) Prefetch(ctx context.Context, what string) error {
	if what == PrefetchNone {
		return nil
	}
	var g errgroup.Group // one that is away keeps no other back
	for _, s := range k.all() {
		g.Go(func() error {
			err := s.Fetch(ctx, cas.KindTree)
			if err == nil && what == PrefetchAll {
				err = s.Fetch(ctx, cas.KindData)
			}
			return err
		})
	}
	return g.Wait()
}

// HoldAgain is how often a hold is renewed; it counts for a week.
const HoldAgain = 24 * time.Hour

// Hold keeps what the store reads on the remotes. done has the time of each hold; one that
// is younger than HoldAgain is not renewed. A remote that refuses it is in the log. The
// error is of a remote that is away.
func (k *Registry) Hold(ctx context.Context, done map[string]time.Time) (away error) {
	k.mu.Lock()
	all, sources := slices.Clone(k.file.From), k.all()
	k.mu.Unlock()
	for i, s := range sources {
		f := all[i]
		if time.Since(done[f.Hold]) < HoldAgain {
			continue
		}
		err := s.Hold(ctx, f.Hold)
		if errors.Is(err, backend.ErrAway) {
			away = err
			continue
		}
		done[f.Hold] = time.Now()
		if err != nil && ctx.Err() == nil {
			k.o.Logger.Warn("gc on the remote can free what this store was mounted from when the snapshot is deleted there",
				"url", f.URL, "err", err)
		}
	}
	return away
}
