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

// sources returns the sources, in the order in which they were added.
func (k *Registry) sources() []*remote.Snapshot { return *k.loadedSources.Load() }

// nameTime is the time for which Source reuses the answer of a remote for a name, so that a thousand
// claims at once make one request.
const nameTime = time.Minute

// A nameAnswer is the ref that a remote returned for a name.
type nameAnswer struct {
	ref *object.Ref
	at  time.Time
}

// SplitFrom splits URL@SNAPSHOT. ok is false if s does not begin with a URL; name is "" without a snapshot.
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

// MountFrom makes a snapshot on a remote, by its name or id, the only source of a new store. The store keeps
// its ref: a later change of the name on the remote does not matter.
func (k *Registry) MountFrom(ctx context.Context, url, name string) (*object.Ref, error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	r, err := k.openAgreed(url)
	if err != nil {
		return nil, err
	}

	ref, err := r.Find(ctx, name)
	if errors.Is(err, backend.ErrNotFound) {
		// If no remote was set up at the URL, that is the better error.
		if _, ferr := r.Format(ctx); ferr != nil {
			return nil, ferr
		}
	}
	if err != nil {
		return nil, err
	}

	k.file.From = []mountSource{{URL: url, Hold: uuid.NewString(), Ref: ref}}
	k.file.Pushed[r.URL()] = ref.Name
	return ref, k.save()
}

// Source makes a snapshot on a remote, by its name or id, a source of the store, and returns its ref. Its
// objects are fetched when they are read.
func (k *Registry) Source(ctx context.Context, r *remote.Remote, name string) (*object.Ref, error) {
	if err := k.addingSource.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer k.addingSource.Release(1)

	if ref := findSource(k, r, name); ref != nil {
		return ref, nil
	}

	key := [2]string{r.URL(), name}
	if a := k.answers[key]; time.Since(a.at) < nameTime {
		return a.ref, nil
	}

	ref, err := r.Find(ctx, name)
	if err != nil {
		return nil, err
	}

	if known := findSource(k, r, ref.ID); known != nil {
		ref = known
	} else if err := k.addSource(ctx, r, ref); err != nil {
		return nil, err
	}

	maps.DeleteFunc(k.answers, func(_ [2]string, a nameAnswer) bool { return time.Since(a.at) >= nameTime })
	k.answers[key] = nameAnswer{ref, time.Now()}

	return ref, nil
}

// Forget drops the answer for a name: the next call of Source asks the remote again.
func (k *Registry) Forget(ctx context.Context, r *remote.Remote, name string) error {
	if err := k.addingSource.Acquire(ctx, 1); err != nil {
		return err
	}
	defer k.addingSource.Release(1)
	delete(k.answers, [2]string{r.URL(), name})
	return nil
}

// ReadsFrom reports whether the store reads objects from a remote.
func (k *Registry) ReadsFrom(r *remote.Remote) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.file.From, func(f mountSource) bool { return f.URL == r.URL() })
}

// findSource returns the ref of the source with an id, or nil.
func findSource(k *Registry, r *remote.Remote, id string) *object.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()

	for _, f := range k.file.From {
		if f.URL == r.URL() && f.Ref.ID == id {
			return f.Ref
		}
	}

	return nil
}

// addSource reads the indexes of a snapshot and adds it to the sources.
func (k *Registry) addSource(ctx context.Context, r *remote.Remote, ref *object.Ref) error {
	s := r.Snapshot(ref)
	if _, err := s.Load(ctx); err != nil {
		return err
	}

	k.mu.Lock()
	defer k.mu.Unlock()

	k.file.From = append(k.file.From, mountSource{URL: r.URL(), Hold: uuid.NewString(), Ref: ref})
	if err := k.save(); err != nil {
		k.file.From = k.file.From[:len(k.file.From)-1]
		return err
	}

	all := append(slices.Clone(k.sources()), s)
	k.loadedSources.Store(&all)

	select {
	case k.added <- struct{}{}:
	default:
	}

	return nil
}

// Added returns a channel that gets an element when sources were added: their holds are due.
func (k *Registry) Added() <-chan struct{} { return k.added }

// From returns the ref of the first source, or nil.
func (k *Registry) From() *object.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.file.From) == 0 {
		return nil
	}
	return k.file.From[0].Ref
}

// Load opens the sources in the file, so that Has and Get read from them. It makes no request, so a store
// can be mounted while a remote does not answer.
func (k *Registry) Load() error {
	k.mu.Lock()
	defer k.mu.Unlock()

	var all []*remote.Snapshot
	for _, f := range k.file.From {
		r, err := k.openRemote(f.URL)
		if err != nil {
			return err
		}
		all = append(all, r.Snapshot(f.Ref))
	}

	k.loadedSources.Store(&all)

	return nil
}

// Probe starts to probe the remotes of the sources in the background. Away then returns the result.
func (k *Registry) Probe() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.file.From {
		if r := k.opened[f.URL]; r != nil && k.trust.isTrusted(r.URL()) {
			r.Probe()
		}
	}
}

// Any reports whether the store has sources.
func (k *Registry) Any() bool { return len(k.sources()) > 0 }

// Has reports whether a source has the object. It returns an error only if no source has it.
func (k *Registry) Has(h cas.Hash) (bool, error) {
	var failed error // after an error, the other remotes are still asked
	for _, s := range loadedFirst(k) {
		ok, err := s.Has(k.closed, h)
		if ok {
			return true, nil
		}
		failed = errors.Join(failed, err)
	}

	return false, failed
}

// Get appends the bytes of an object to dst[:0]. Errors: see remote.Snapshot.Get.
func (k *Registry) Get(h cas.Hash, dst []byte) (b []byte, err error) {
	err = readFromAny(k, h, func(s *remote.Snapshot) (err error) {
		b, err = s.Get(k.closed, h, dst)
		return err
	})
	return b, err
}

// Stored returns an object in its stored form. Errors: see Get.
func (k *Registry) Stored(ctx context.Context, h cas.Hash) (rec cas.StoredObject, err error) {
	err = readFromAny(k, h, func(s *remote.Snapshot) (err error) {
		rec, err = s.Stored(ctx, h)
		return err
	})
	return rec, err
}

// readFromAny calls read with one source after another until read succeeds.
func readFromAny(k *Registry, h cas.Hash, read func(*remote.Snapshot) error) error {
	var failed error
	for _, s := range loadedFirst(k) {
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

// Near is Get, but reads from the cache only. If the cache lacks the object, or no indexes that were read
// have it, Near returns a cas.AbsentError error.
func (k *Registry) Near(h cas.Hash, dst []byte) ([]byte, error) {
	var unread []*remote.Snapshot
	for _, s := range loadedFirst(k) {
		if !s.Loaded() {
			unread = append(unread, s)
			continue
		}

		if b, err := s.GetCached(h, dst); !errors.Is(err, cas.ErrNotFound) {
			return b, err
		}
	}
	if len(unread) > 0 {
		return dst[:0], &cas.AbsentError{Hash: h, Fetch: func(ctx context.Context) error { return loadAny(ctx, unread) }}
	}

	return dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
}

// loadAny reads the indexes of all snapshots at once, and returns when one is read.
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

// loadedFirst returns the sources: first the ones whose indexes were read, then the others.
func loadedFirst(k *Registry) (out []*remote.Snapshot) {
	var unread []*remote.Snapshot
	for _, s := range k.sources() {
		if s.Loaded() {
			out = append(out, s)
		} else {
			unread = append(unread, s)
		}
	}

	return append(out, unread...)
}

// The part of the sources that Prefetch fetches.
const (
	PrefetchNone = "none"
	PrefetchTree = "tree" // tree pages: names and attributes
	PrefetchAll  = "all"  // tree pages and file data
)

// Prefetch fetches a part of the sources into the cache: PrefetchTree if part is "".
func (k *Registry) Prefetch(ctx context.Context, part string) error {
	if part == PrefetchNone {
		return nil
	}
	var g errgroup.Group // without a context: a remote without an answer does not stop the others

	for _, s := range k.sources() {
		g.Go(func() error {
			err := s.Fetch(ctx, cas.KindTree)
			if err != nil || part != PrefetchAll {
				return err
			}
			return s.Fetch(ctx, cas.KindData)
		})
	}

	return g.Wait()
}

// HoldAgain is the time after which a hold is written again. A hold ends after a week.
const HoldAgain = 24 * time.Hour

// Hold writes the holds of the sources, which protect their objects from collections on the remotes. done
// has the time at which each hold was written, by its id: Hold skips a hold that is younger than
// HoldAgain, and updates done. It returns an error if a remote does not answer, and only logs it if a
// remote refuses the write.
func (k *Registry) Hold(ctx context.Context, done map[string]time.Time) (away error) {
	k.mu.Lock()
	all, sources := slices.Clone(k.file.From), k.sources()
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
