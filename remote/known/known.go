package known

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/object"
)

// Options are the ways to open what a store knows.
type Options struct {
	FS      vfs.FS // the disk of the store
	Logger  *slog.Logger
	Timeout time.Duration // of a read from a remote; 0 is the default, negative for none
}

// Known is safe for concurrent use.
type Known struct {
	o    Options
	path string

	sources atomic.Pointer[[]*remote.Snapshot] // that the store was mounted from
	closed  context.Context
	hangUp  context.CancelFunc // ends closed

	joining chan struct{}         // held by who adds a source
	asked   map[askedFor]askedRef // what names meant; guarded by joining
	added   chan struct{}         // a source was added, which needs a hold

	mu    sync.Mutex
	file  file
	cache *cache.Cache
	open  map[string]*remote.Remote // by URL
	forks map[forkBase]string       // the last snapshot that a fork pushed itself
}

// nameTime is how long what a name on a remote meant goes on counting for those who begin
// a fork from it: a thousand claims ask once.
const nameTime = time.Minute

type askedFor struct{ url, name string }

type askedRef struct {
	ref *object.Ref
	at  time.Time
}

// forkBase is a remote, by its URL, and the view of a fork.
type forkBase struct {
	url  string
	fork uint32
}

// file is the content of remotes.json.
type file struct {
	Version int               `json:"version"`
	Remotes map[string]string `json:"remotes"` // names and URLs
	// Pushed has for each URL the snapshot that was pushed there last, or pulled:
	// what the next push is compared with.
	Pushed map[string]string `json:"pushed,omitempty"`
	// Sent has for each URL the number of the newest snapshot of main that was
	// pushed there by itself.
	Sent map[string]uint64 `json:"sent,omitempty"`
	From []from            `json:"from,omitempty"`
}

// from is a snapshot that the store was mounted from.
type from struct {
	URL    string      `json:"url"`
	Hold   string      `json:"hold"` // its id on the remote
	Ref    *object.Ref `json:"ref"`
	Sealed bool        `json:"sealed,omitempty"` // encrypted
}

const fileVersion = 1

// Open reads what the store in dir knows, which may be nothing.
func Open(dir string, o Options) (*Known, error) {
	k := &Known{
		o: o, path: filepath.Join(dir, "remotes.json"), open: map[string]*remote.Remote{}, forks: map[forkBase]string{},
		joining: make(chan struct{}, 1), asked: map[askedFor]askedRef{}, added: make(chan struct{}, 1),
	}
	k.sources.Store(&[]*remote.Snapshot{})
	k.closed, k.hangUp = context.WithCancel(context.Background())
	k.file = file{Version: fileVersion, Remotes: map[string]string{}, Pushed: map[string]string{}}
	raw, err := vfs.ReadFile(o.FS, k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &k.file)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.path, err)
	}
	if err := k.file.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", k.path, err)
	}
	return k, nil
}

// check refuses what this package does not write: the store may be somebody else's.
func (f *file) check() error {
	if f.Version != fileVersion {
		return errs.New(errs.Format, "version %d is unknown", f.Version)
	}
	if f.Remotes == nil {
		f.Remotes = map[string]string{}
	}
	if f.Pushed == nil {
		f.Pushed = map[string]string{}
	}
	for _, from := range f.From {
		if from.Ref == nil {
			return errs.New(errs.Damaged, "it lacks what the store was mounted from")
		}
		if err := from.Ref.Check(); err != nil {
			return errs.New(errs.Damaged, "what the store was mounted from: %w", err)
		}
		from.Ref.Sealed = from.Sealed
	}
	return nil
}

// HangUp ends what waits for a remote.
func (k *Known) HangUp() { k.hangUp() }

// Close lets go of all connections.
func (k *Known) Close() error {
	k.hangUp()
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	for _, r := range k.open {
		err = errors.Join(err, r.Close())
	}
	if k.cache != nil {
		err = errors.Join(err, k.cache.Close())
	}
	return err
}

// save writes the file. mu is held.
func (k *Known) save() error {
	raw, err := json.MarshalIndent(k.file, "", "  ")
	if err == nil {
		err = vfs.WriteFile(k.o.FS, k.path, append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", k.path, err)
	}
	return nil
}

var remoteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Add gives a remote that was set up a name.
func (k *Known) Add(name, url string) error {
	if !remoteName.MatchString(name) {
		return errs.New(errs.Invalid, "%q is no name for a remote; use up to 64 letters, digits, '_' and '-'", name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if old, ok := k.file.Remotes[name]; ok && old != url {
		return errs.New(errs.Exist, "there is a remote %s already: %s", name, old)
	}
	k.file.Remotes[name] = url
	return k.save()
}

// Remove forgets a remote. Nothing on it changes.
func (k *Known) Remove(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.file.Remotes[name]; !ok {
		return k.unknown(name)
	}
	delete(k.file.Remotes, name)
	return k.save()
}

// List returns the names of the remotes and their URLs.
func (k *Known) List() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.file.Remotes)
}

func (k *Known) unknown(name string) error {
	if len(k.file.Remotes) == 0 {
		return errs.New(errs.NotExist, "there is no remote %q; `amberfs remote add NAME URL` sets one up", name)
	}
	return errs.New(errs.NotExist, "there is no remote %q; `amberfs remote list` shows those that there are (%s)", name,
		strings.Join(slices.Sorted(maps.Keys(k.file.Remotes)), ", "))
}

// Remote returns the remote of a name, or at a URL.
func (k *Known) Remote(name string) (*remote.Remote, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	url := name
	if !backend.IsURL(name) {
		var ok bool
		if url, ok = k.file.Remotes[name]; !ok {
			return nil, k.unknown(name)
		}
	}
	return k.at(url)
}

// at opens the remote at a URL. mu is held.
func (k *Known) at(url string) (*remote.Remote, error) {
	if r := k.open[url]; r != nil {
		return r, nil
	}
	if err := k.openCache(); err != nil {
		return nil, err
	}
	r, err := remote.Open(url, remote.Options{Cache: k.cache, Timeout: k.o.Timeout, Note: k.note(url)})
	if err != nil {
		return nil, errs.New(errs.Invalid, "%w", err)
	}
	k.open[url] = r
	return r, nil
}

// note tells in the log, once for each, that a remote went away and that it is back.
func (k *Known) note(url string) func(bool, time.Time) {
	return func(away bool, since time.Time) {
		if away {
			k.o.Logger.Warn("the remote does not answer; what is here goes on", "url", url)
		} else {
			k.o.Logger.Info("the remote answers again", "url", url, "after", time.Since(since).Round(time.Second))
		}
	}
}

// openCache opens the cache that all daemons of a user share; where there is no
// home, the store has its own. mu is held.
func (k *Known) openCache() error {
	if k.cache != nil {
		return nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = filepath.Dir(k.path)
	}
	k.cache, err = cache.Open(filepath.Join(dir, "amberfs"), cache.DefaultSize)
	return err
}

// Base names the snapshot on a remote that a push of this store is compared with;
// empty if none is known. What a fork pushes itself (its view is not 0) is compared
// with what it pushed before, and at first with what the owner did.
func (k *Known) Base(r *remote.Remote, fork uint32) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name, ok := k.forks[forkBase{r.URL(), fork}]; ok {
		return name
	}
	return k.file.Pushed[r.URL()]
}

// SetBase notes what the next push to a remote is compared with. Of forks that is
// not kept in the file.
func (k *Known) SetBase(r *remote.Remote, fork uint32, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if fork != 0 {
		k.forks[forkBase{r.URL(), fork}] = name
		return nil
	}
	if k.file.Pushed[r.URL()] == name {
		return nil
	}
	k.file.Pushed[r.URL()] = name
	return k.save()
}

// Sent is the number of the newest snapshot of main that was pushed to a remote by
// itself; 0 for none.
func (k *Known) Sent(r *remote.Remote) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file.Sent[r.URL()]
}

// SetSent notes that all snapshots of main up to one were pushed by itself.
func (k *Known) SetSent(r *remote.Remote, seq uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file.Sent == nil {
		k.file.Sent = map[string]uint64{}
	}
	k.file.Sent[r.URL()] = seq
	return k.save()
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
func (k *Known) MountFrom(ctx context.Context, url, name string) (*object.Ref, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r, err := k.at(url)
	if err != nil {
		return nil, err
	}
	ref, err := r.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	k.file.From = []from{{URL: url, Hold: uuid.NewString(), Ref: ref, Sealed: ref.Sealed}}
	k.file.Pushed[r.URL()] = ref.Name
	return ref, k.save()
}

// Source makes a snapshot on a remote one that the store reads from, by its name or its
// id. What is behind it is fetched when it is read.
func (k *Known) Source(ctx context.Context, r *remote.Remote, name string) (*object.Ref, error) {
	select {
	case k.joining <- struct{}{}:
		defer func() { <-k.joining }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if ref := k.source(r, name); ref != nil {
		return ref, nil
	}
	asked := askedFor{r.URL(), name}
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
	k.asked[asked] = askedRef{ref, time.Now()}
	return ref, nil
}

// source returns the source with an id, nil if there is none.
func (k *Known) source(r *remote.Remote, id string) *object.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.file.From {
		if f.URL == r.URL() && f.Ref.ID == id {
			return f.Ref
		}
	}
	return nil
}

func (k *Known) addSource(ctx context.Context, r *remote.Remote, ref *object.Ref) error {
	s, err := r.Snapshot(ctx, ref)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file.From = append(k.file.From, from{URL: r.URL(), Hold: uuid.NewString(), Ref: ref, Sealed: ref.Sealed})
	if err := k.save(); err != nil {
		k.file.From = k.file.From[:len(k.file.From)-1]
		return err
	}
	all := append(slices.Clone(*k.sources.Load()), s)
	k.sources.Store(&all)
	select {
	case k.added <- struct{}{}:
	default:
	}
	return nil
}

// Added is sent to when a source was added.
func (k *Known) Added() <-chan struct{} { return k.added }

// From returns the snapshot that the store began with, nil if there is none.
func (k *Known) From() *object.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.file.From) == 0 {
		return nil
	}
	return k.file.From[0].Ref
}

// Load finds the snapshots that the store was mounted from, so that Has and Get know
// them.
func (k *Known) Load(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*remote.Snapshot
	for _, f := range k.file.From {
		r, err := k.at(f.URL)
		if err != nil {
			return err
		}
		s, err := r.Snapshot(ctx, f.Ref)
		if errors.Is(err, backend.ErrAway) {
			s, err = r.Unread(f.Ref), nil // what is here works without
		}
		if err != nil {
			return fmt.Errorf("%s@%s: %w", f.URL, f.Ref.Name, err)
		}
		all = append(all, s)
	}
	k.sources.Store(&all)
	return nil
}

// Has reports whether one of the snapshots that the store was mounted from has an
// object.
func (k *Known) Has(h cas.Hash) (bool, error) {
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

// Get appends the bytes of an object to dst[:0]. Errors are those of
// remote.Snapshot.Get.
func (k *Known) Get(h cas.Hash, dst []byte) ([]byte, error) {
	var failed error
	for _, s := range k.ordered() {
		b, err := s.Get(k.closed, h, dst)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, cas.ErrNotFound) {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return dst[:0], failed
	}
	return dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
}

// Near is Get of what is on this machine; else a cas.Absent error.
func (k *Known) Near(h cas.Hash, dst []byte) ([]byte, error) {
	var absent error
	var unread []*remote.Snapshot
	for _, s := range k.ordered() {
		b, err := s.Near(h, dst)
		switch {
		case err == nil:
			return b, nil
		case errors.Is(err, cas.ErrNotFound):
		case s.Loaded():
			return dst[:0], err
		default:
			absent, unread = err, append(unread, s)
		}
	}
	if len(unread) > 1 {
		absent = &cas.Absent{Hash: h, Fetch: func(ctx context.Context) error { return loadAny(ctx, unread) }}
	}
	if absent != nil {
		return dst[:0], absent
	}
	return dst[:0], fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
}

// loadAny returns when the indexes of one of several snapshots were read: that of a
// remote which is away does not stand before the others.
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
func (k *Known) ordered() []*remote.Snapshot {
	all := *k.sources.Load()
	if len(all) < 2 {
		return all
	}
	out := slices.Clone(all)
	slices.SortStableFunc(out, func(a, b *remote.Snapshot) int {
		switch {
		case a.Loaded() == b.Loaded():
			return 0
		case a.Loaded():
			return -1
		}
		return 1
	})
	return out
}

// Stored returns an object as it lies on a remote.
func (k *Known) Stored(ctx context.Context, h cas.Hash) (cas.Stored, error) {
	for _, s := range k.ordered() {
		if rec, err := s.Stored(ctx, h); !errors.Is(err, cas.ErrNotFound) {
			return rec, err
		}
	}
	return cas.Stored{}, fmt.Errorf("object %s: %w", h, cas.ErrNotFound)
}

// How much of a snapshot is fetched before somebody reads it.
const (
	PrefetchNone = "none"
	PrefetchTree = "tree" // names and attributes
	PrefetchAll  = "all"
)

// Prefetch brings what is wanted (one of the above; PrefetchTree if empty) of the
// snapshots that the store reads from into the cache.
func (k *Known) Prefetch(ctx context.Context, what string) error {
	if what == PrefetchNone {
		return nil
	}
	var g errgroup.Group // one that is away keeps no other back
	for _, s := range *k.sources.Load() {
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

// Hold keeps what the store reads from on the remotes, for those of which done does not
// say that this was done less than HoldAgain ago. Who may not write there is told in the
// log. The error is of a remote that is away, which is to be tried again.
func (k *Known) Hold(ctx context.Context, done map[string]time.Time) (away error) {
	k.mu.Lock()
	all, sources := slices.Clone(k.file.From), *k.sources.Load()
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
			k.o.Logger.Warn("the remote may collect what this store was mounted from once its snapshot is removed there",
				"url", f.URL, "error", err)
		}
	}
	return away
}

// Away returns the URLs of remotes that do not answer, and since when.
func (k *Known) Away() map[string]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]time.Time{}
	for url, r := range k.open {
		if t := r.Away(); !t.IsZero() {
			out[url] = t
		}
	}
	return out
}
