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

	"golang.org/x/sync/semaphore"

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

// A Registry is the remotes that a store has names for, what was pushed there, and the
// snapshots that the store reads from: its file remotes.json. It is safe for concurrent use.
type Registry struct {
	o    Options
	path string

	trust  *trust
	cache  *cache.Cache
	closed context.Context
	hangUp context.CancelFunc // ends closed

	mu   sync.Mutex
	file file
	open map[string]*remote.Remote // by URL

	loaded  atomic.Pointer[[]*remote.Snapshot] // that the store reads from
	joining *semaphore.Weighted                // taken while a source is added
	asked   map[[2]string]askedRef             // what names meant, by URL and name; guarded by joining
	added   chan struct{}                      // a source was added, which needs a hold
}

type file struct {
	Version int               `json:"version"`
	Remotes map[string]string `json:"remotes"` // names and URLs
	// Pushed has for each URL what the next push is compared with.
	Pushed map[string]string `json:"pushed,omitempty"`
	// Sent has for each URL the number of the newest snapshot that the policy pushed.
	Sent map[string]uint64 `json:"sent,omitempty"`
	From []from            `json:"from,omitempty"`
	// Recipients has what each remote is encrypted to.
	Recipients *recipients `json:"recipients,omitempty"`
}

// from is a snapshot that the store was mounted from.
type from struct {
	URL  string      `json:"url"`
	Hold string      `json:"hold"` // its id on the remote
	Ref  *object.Ref `json:"ref"`
}

const fileVersion = 1

func Open(dir string, o Options) (*Registry, error) {
	k := &Registry{
		o: o, path: filepath.Join(dir, "remotes.json"), trust: newTrust(), cache: cache.New(cacheDir(dir), cache.DefaultSize),
		open: map[string]*remote.Remote{}, joining: semaphore.NewWeighted(1), added: make(chan struct{}, 1), asked: map[[2]string]askedRef{},
	}
	k.loaded.Store(new([]*remote.Snapshot))
	k.closed, k.hangUp = context.WithCancel(context.Background())
	raw, err := vfs.ReadFile(o.FS, k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.file.Version, err = fileVersion, nil
	case err == nil:
		err = json.Unmarshal(raw, &k.file)
	}
	if err == nil {
		err = k.file.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.path, err)
	}
	return k, nil
}

// check refuses what this package does not write: the store may be another user's.
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
	if f.Recipients == nil {
		f.Recipients = &recipients{}
	}
	if f.Sent == nil {
		f.Sent = map[string]uint64{}
	}
	for _, from := range f.From {
		if from.Ref == nil {
			return errs.New(errs.Damaged, "it does not name the remote that the store was mounted from")
		}
		if err := from.Ref.Check(); err != nil {
			return errs.New(errs.Damaged, "the remote that the store was mounted from: %w", err)
		}
	}
	return nil
}

func (k *Registry) HangUp() { k.hangUp() }

func (k *Registry) Close() {
	k.hangUp()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.open {
		r.Close()
	}
}

// save writes the file. mu is held.
func (k *Registry) save() error {
	raw, err := json.MarshalIndent(k.file, "", "  ")
	if err == nil {
		err = vfs.WriteFile(k.o.FS, k.path, append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", k.path, err)
	}
	return nil
}

func (k *Registry) change(fn func(f *file) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := fn(&k.file); err != nil {
		return err
	}
	return k.save()
}

var remoteName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// MayAdd refuses a name that Add would refuse, before anything is done at the URL.
func (k *Registry) MayAdd(name, url string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mayAdd(name, url)
}

func (k *Registry) mayAdd(name, url string) error {
	if !remoteName.MatchString(name) {
		return errs.New(errs.Invalid, "%q is not a name for a remote; use up to 64 letters, digits, '_' and '-'", name)
	}
	if old, ok := k.file.Remotes[name]; ok && old != url {
		return errs.New(errs.Exist, "remote %s exists: %s", name, old)
	}
	return nil
}

func (k *Registry) Add(name, url string) error {
	return k.change(func(f *file) error {
		err := k.mayAdd(name, url)
		if err == nil {
			f.Remotes[name] = url
		}
		return err
	})
}

// Remove forgets a remote. Nothing on it changes.
func (k *Registry) Remove(name string) error {
	return k.change(func(f *file) error {
		url, ok := f.Remotes[name]
		if !ok {
			return k.unknown(name)
		}
		delete(f.Remotes, name)
		if !slices.Contains(slices.Collect(maps.Values(f.Remotes)), url) {
			f.Recipients.forget(url)
			if r := k.open[url]; r != nil {
				r.ForgetFormat()
			}
		}
		return nil
	})
}

func (k *Registry) List() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.file.Remotes)
}

func (k *Registry) unknown(name string) error {
	if len(k.file.Remotes) == 0 {
		return errs.New(errs.NotExist, "no such remote: %q; `amberfs remote add NAME URL` adds one", name)
	}
	return errs.New(errs.NotExist, "no such remote: %q; `amberfs remote list` lists them (%s)", name,
		strings.Join(slices.Sorted(maps.Keys(k.file.Remotes)), ", "))
}

// Remote returns the remote of a name, or at a URL. A URL is what the user names, who
// thereby agrees to contact it; a name may be one that came with the store.
func (k *Registry) Remote(name string) (*remote.Remote, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if backend.IsURL(name) {
		return k.atAgreed(name)
	}
	url, ok := k.file.Remotes[name]
	if !ok {
		return nil, k.unknown(name)
	}
	return k.at(url)
}

// atAgreed opens the remote at a URL that the user has named. mu is held.
func (k *Registry) atAgreed(url string) (*remote.Remote, error) {
	r, err := k.at(url)
	if err != nil {
		return nil, err
	}
	if err := k.trust.add(r.URL()); err != nil {
		k.o.Logger.Warn("the next mount asks again", "err", err)
	}
	return r, nil
}

// Trust agrees to contact a remote of the store, by its name or its URL. It returns the URL.
func (k *Registry) Trust(name string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	url, ok := k.file.Remotes[name]
	for _, f := range k.file.From {
		if f.URL == name {
			url, ok = name, true
		}
	}
	if !ok {
		return "", k.unknown(name)
	}
	r, err := k.at(url)
	if err != nil {
		return "", err
	}
	return r.URL(), k.trust.add(r.URL())
}

// Untrusted returns the URLs that the user has not agreed to, by name or by URL.
func (k *Registry) Untrusted() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := maps.Clone(k.file.Remotes)
	for _, f := range k.file.From {
		if !slices.Contains(slices.Collect(maps.Values(k.file.Remotes)), f.URL) {
			out[f.URL] = f.URL
		}
	}
	maps.DeleteFunc(out, func(_, url string) bool {
		r, err := k.at(url)
		return err != nil || k.trust.has(r.URL())
	})
	return out
}

// at opens the remote at a URL. mu is held.
func (k *Registry) at(url string) (*remote.Remote, error) {
	if r := k.open[url]; r != nil {
		return r, nil
	}
	r, err := remote.Open(url, remote.Options{Cache: k.cache, Timeout: k.o.Timeout, Note: k.note(url), Allowed: k.allowed, Recipients: k.file.Recipients.agree})
	if err != nil {
		return nil, err
	}
	k.open[url] = r
	return r, nil
}

func (k *Registry) allowed(url string) error {
	if k.trust.has(url) {
		return nil
	}
	return fmt.Errorf("%s: %w: the store names it; `amberfs remote trust %s` agrees", url, backend.ErrUntrusted, url)
}

// note logs once that a remote went away, and once that it is back.
func (k *Registry) note(url string) func(bool, time.Time) {
	return func(away bool, since time.Time) {
		if away {
			k.o.Logger.Warn("the remote does not answer; local data still works", "url", url)
		} else {
			k.o.Logger.Info("the remote answers again", "url", url, "after", time.Since(since).Round(time.Second))
		}
	}
}

// cacheDir is the cache of all daemons of a user; without a home, the store has its own.
func cacheDir(store string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = store
	}
	return filepath.Join(dir, "amberfs")
}

// Base names the snapshot on a remote that a push is compared with; empty if unknown.
func (k *Registry) Base(r *remote.Remote) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file.Pushed[r.URL()]
}

func (k *Registry) SetBase(r *remote.Remote, name string) error {
	return k.change(func(f *file) error {
		f.Pushed[r.URL()] = name
		return nil
	})
}

// Sent is the number of the newest snapshot that the policy pushed to a remote; 0 for none.
func (k *Registry) Sent(r *remote.Remote) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file.Sent[r.URL()]
}

// SetSent notes that all snapshots of main up to one were pushed automatically.
func (k *Registry) SetSent(r *remote.Remote, seq uint64) error {
	return k.change(func(f *file) error {
		f.Sent[r.URL()] = seq
		return nil
	})
}

func (k *Registry) Away() map[string]time.Time {
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
