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

// nameCacheTime is the time for which AddSource reuses the answer of a remote for a name, so that a thousand claims
// at once make one request.
const nameCacheTime = time.Minute

// A nameAnswer is the ref that a remote returned for a name.
type nameAnswer struct {
	ref        *object.Ref
	answeredAt time.Time
}

// SplitSnapshotURL splits URL@SNAPSHOT. ok is false if s does not begin with a URL; name is "" if s has no @SNAPSHOT.
func SplitSnapshotURL(s string) (url, name string, ok bool) {
	if !backend.IsURL(s) {
		return "", "", false
	}
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s, "", true
	}

	return s[:i], s[i+1:], true
}

// SetFirstSource makes a snapshot on a remote, by its name or id, the only source of a new store. The store keeps the
// ref of the snapshot, so it does not matter if the name is given to another snapshot later.
func (k *Registry) SetFirstSource(ctx context.Context, url, name string) (*object.Ref, error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	r, err := k.openAndTrust(url)
	if err != nil {
		return nil, err
	}

	ref, err := r.Find(ctx, name)
	if errors.Is(err, backend.ErrNotFound) {
		// If no remote was set up at the URL, the error of Format says so.
		if _, ferr := r.Format(ctx); ferr != nil {
			return nil, ferr
		}
	}
	if err != nil {
		return nil, err
	}

	k.file.Sources = []mountSource{{URL: url, Hold: uuid.NewString(), Ref: ref}}
	k.file.PushBases[r.URL()] = ref.Name
	return ref, k.save()
}

// AddSource makes a snapshot on a remote, by its name or id, a source of the store, and returns its ref. The objects
// of the snapshot are fetched when they are read.
func (k *Registry) AddSource(ctx context.Context, r *remote.Remote, name string) (*object.Ref, error) {
	if err := k.sourceLock.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer k.sourceLock.Release(1)

	if ref := findSource(k, r, name); ref != nil {
		return ref, nil
	}

	key := [2]string{r.URL(), name}
	if a := k.nameAnswers[key]; time.Since(a.answeredAt) < nameCacheTime {
		return a.ref, nil
	}

	ref, err := r.Find(ctx, name)
	if err != nil {
		return nil, err
	}

	if known := findSource(k, r, ref.ID); known != nil {
		ref = known
	} else if err := k.recordSource(ctx, r, ref); err != nil {
		return nil, err
	}

	maps.DeleteFunc(k.nameAnswers, func(_ [2]string, a nameAnswer) bool { return time.Since(a.answeredAt) >= nameCacheTime })
	k.nameAnswers[key] = nameAnswer{ref, time.Now()}

	return ref, nil
}

// ForgetName drops the cached answer for a name: the next call of AddSource asks the remote again.
func (k *Registry) ForgetName(ctx context.Context, r *remote.Remote, name string) error {
	if err := k.sourceLock.Acquire(ctx, 1); err != nil {
		return err
	}
	defer k.sourceLock.Release(1)
	delete(k.nameAnswers, [2]string{r.URL(), name})
	return nil
}

// ReadsFrom reports whether a source of the store is on a remote.
func (k *Registry) ReadsFrom(r *remote.Remote) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.file.Sources, func(f mountSource) bool { return f.URL == r.URL() })
}

// findSource returns the ref of the source with an id, or nil.
func findSource(k *Registry, r *remote.Remote, id string) *object.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()

	for _, f := range k.file.Sources {
		if f.URL == r.URL() && f.Ref.ID == id {
			return f.Ref
		}
	}

	return nil
}

// recordSource reads the indexes of a snapshot and adds it to the sources, also in the file.
func (k *Registry) recordSource(ctx context.Context, r *remote.Remote, ref *object.Ref) error {
	s := r.Snapshot(ref)
	if _, err := s.LoadIndex(ctx); err != nil {
		return err
	}

	k.mu.Lock()
	defer k.mu.Unlock()

	k.file.Sources = append(k.file.Sources, mountSource{URL: r.URL(), Hold: uuid.NewString(), Ref: ref})
	if err := k.save(); err != nil {
		k.file.Sources = k.file.Sources[:len(k.file.Sources)-1]
		return err
	}

	all := append(slices.Clone(k.sources()), s)
	k.loadedSources.Store(&all)

	select {
	case k.sourceAdded <- struct{}{}:
	default:
	}

	return nil
}

// SourceAdded returns a channel that receives an element when sources were added. The receiver then calls Hold.
func (k *Registry) SourceAdded() <-chan struct{} { return k.sourceAdded }

// FirstSource returns the ref of the first source, or nil.
func (k *Registry) FirstSource() *object.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.file.Sources) == 0 {
		return nil
	}
	return k.file.Sources[0].Ref
}

// LoadSources opens the sources in the file, so that Has and Get read from them. It makes no request, so a store
// can be mounted while a remote does not answer.
func (k *Registry) LoadSources() error {
	k.mu.Lock()
	defer k.mu.Unlock()

	var all []*remote.Snapshot
	for _, f := range k.file.Sources {
		r, err := k.openRemote(f.URL)
		if err != nil {
			return err
		}
		all = append(all, r.Snapshot(f.Ref))
	}

	k.loadedSources.Store(&all)

	return nil
}

// ProbeSources starts requests in the background that find out whether the remotes of the sources answer. AwaySince
// then returns the remotes that do not.
func (k *Registry) ProbeSources() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.file.Sources {
		if r := k.openRemotes[f.URL]; r != nil && k.trust.isTrusted(r.URL()) {
			r.Probe()
		}
	}
}

// HasAny reports whether the store has sources.
func (k *Registry) HasAny() bool { return len(k.sources()) > 0 }

// Has reports whether a source has the object. It returns an error only if no source has it.
func (k *Registry) Has(h cas.Hash) (bool, error) {
	var failed error // the errors of the sources that were asked so far
	for _, s := range sourcesLoadedFirst(k) {
		ok, err := s.Has(k.readContext, h)
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
		b, err = s.Get(k.readContext, h, dst)
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

// readFromAny calls the function read with one source after another until it succeeds.
func readFromAny(k *Registry, h cas.Hash, read func(*remote.Snapshot) error) error {
	var failed error
	for _, s := range sourcesLoadedFirst(k) {
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

// GetLocal does what Get does, but reads only from the cache. It returns a cas.AbsentError in two cases: an index has
// the object, but the cache does not have it; or an index that was not read yet may have the object.
func (k *Registry) GetLocal(h cas.Hash, dst []byte) ([]byte, error) {
	var unread []*remote.Snapshot
	for _, s := range sourcesLoadedFirst(k) {
		if !s.IsLoaded() {
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
			_, err := s.LoadIndex(ctx)
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

// sourcesLoadedFirst returns all sources: first the sources whose indexes were read, then the others.
func sourcesLoadedFirst(k *Registry) (out []*remote.Snapshot) {
	var unread []*remote.Snapshot
	for _, s := range k.sources() {
		if s.IsLoaded() {
			out = append(out, s)
		} else {
			unread = append(unread, s)
		}
	}

	return append(out, unread...)
}

// These are the values of the parameter part of Prefetch. They select what is fetched from each source.
const (
	PrefetchNone = "none"
	PrefetchTree = "tree" // tree pages: names and attributes
	PrefetchAll  = "all"  // tree pages and file data
)

// Prefetch fetches a part of the sources into the cache. The default for "" is PrefetchTree.
func (k *Registry) Prefetch(ctx context.Context, part string) error {
	if part == PrefetchNone {
		return nil
	}
	var g errgroup.Group // without a context, so that an error of one source does not stop the fetches from other sources

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

// HoldRenewal is the time after which a hold is written again. A hold ends after a week.
const HoldRenewal = 24 * time.Hour

// Hold writes the holds of the sources, which protect their objects from collections on the remotes. The map
// writtenAt has the time at which each hold was written, by the id of the hold. Hold skips a hold that was written
// less than HoldRenewal ago. It writes each other hold, and records the time in writtenAt. It returns an error if a
// remote does not answer. If a remote refuses the write, Hold only logs the error.
func (k *Registry) Hold(ctx context.Context, writtenAt map[string]time.Time) (awayErr error) {
	k.mu.Lock()
	all, sources := slices.Clone(k.file.Sources), k.sources()
	k.mu.Unlock()

	for i, s := range sources {
		f := all[i]
		if time.Since(writtenAt[f.Hold]) < HoldRenewal {
			continue
		}

		err := s.Hold(ctx, f.Hold)
		if errors.Is(err, backend.ErrAway) {
			awayErr = err
			continue
		}

		writtenAt[f.Hold] = time.Now()
		if err != nil && ctx.Err() == nil {
			k.o.Logger.Warn("gc on the remote can free what this store was mounted from when the snapshot is deleted there",
				"url", f.URL, "err", err)
		}
	}

	return awayErr
}
