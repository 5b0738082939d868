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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/handoff"
	"github.com/amberfs/amberfs/remote/object"
)

// Options are the options of Open.
type Options struct {
	FS      vfs.FS // the disk of the store
	Logger  *slog.Logger
	Timeout time.Duration // timeout of a read from a remote; 0: the default, negative: none
}

// A Registry is the file remotes.json of a store and its open remotes. It is safe for concurrent use.
type Registry struct {
	o    Options
	path string

	trust       *trustStore
	cache       *cache.Cache
	readContext context.Context    // context of reads whose caller passes none; HangUp ends it
	hangUp      context.CancelFunc // ends readContext

	mu          sync.Mutex
	file        registryFile
	openRemotes map[string]*remote.Remote // open remotes by URL

	loadedSources atomic.Pointer[[]*remote.Snapshot] // the sources, in the order in which they were added
	sourceLock    *semaphore.Weighted                // a lock for AddSource and ForgetName, which may wait for a remote
	nameAnswers   map[[2]string]nameAnswer           // answers by URL and name of the snapshot; guarded by sourceLock
	sourceAdded   chan struct{}                      // receives an element when a source was added: see SourceAdded
}

// A registryFile is the content of remotes.json.
type registryFile struct {
	Version int               `json:"version"`
	Remotes map[string]string `json:"remotes"` // URLs by name
	// PushBases has for each URL the name of the snapshot that is the base of the next push.
	PushBases map[string]string `json:"pushed,omitempty"`
	// BackupSeqs has for each URL the number of the newest snapshot that was pushed because of the policy.
	BackupSeqs map[string]uint64 `json:"sent,omitempty"`
	Sources    []mountSource     `json:"from,omitempty"`
	// MustForget is set while forgotten contents may still be on a remote.
	MustForget bool `json:"forgetting,omitempty"`
	// Handoffs has the area of the store on each remote, by URL.
	Handoffs map[string]*handoff.Area `json:"handoffs,omitempty"`
	// Recipients has the recipients of each remote, by URL.
	Recipients *recipientStore `json:"recipients,omitempty"`
}

// A mountSource is a source of the store: a remote snapshot from which it reads objects.
type mountSource struct {
	URL  string      `json:"url"`
	Hold string      `json:"hold"` // id of the hold on the remote
	Ref  *object.Ref `json:"ref"`
}

const fileVersion = 1

// Open reads the remotes.json of the store in dir. It makes no request.
func Open(dir string, o Options) (*Registry, error) {
	k := &Registry{
		o: o, path: filepath.Join(dir, "remotes.json"), trust: newTrustStore(), cache: cache.New(cacheDir(dir), cache.DefaultSize),
		openRemotes: map[string]*remote.Remote{}, sourceLock: semaphore.NewWeighted(1), sourceAdded: make(chan struct{}, 1), nameAnswers: map[[2]string]nameAnswer{},
	}
	k.loadedSources.Store(new([]*remote.Snapshot))
	k.readContext, k.hangUp = context.WithCancel(context.Background())
	if err := k.readFile(); err != nil {
		return nil, fmt.Errorf("%s: %w", k.path, err)
	}

	return k, nil
}

func (k *Registry) readFile() error {
	raw, err := vfs.ReadFile(k.o.FS, k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.file.Version = fileVersion
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(raw, &k.file); err != nil {
			return err
		}
	}

	return k.file.validate()
}

// validate returns an error for a file that this package cannot have written: another user may have made the store.
// It also creates the maps that the file does not have.
func (f *registryFile) validate() error {
	if f.Version != fileVersion {
		return errs.New(errs.Format, "version %d is unknown", f.Version)
	}
	if f.Remotes == nil {
		f.Remotes = map[string]string{}
	}
	if f.PushBases == nil {
		f.PushBases = map[string]string{}
	}
	if f.Recipients == nil {
		f.Recipients = &recipientStore{}
	}
	if f.BackupSeqs == nil {
		f.BackupSeqs = map[string]uint64{}
	}

	for _, from := range f.Sources {
		if from.Ref == nil {
			return errs.New(errs.Damaged, "it does not name the remote that the store was mounted from")
		}
		if err := from.Ref.Check(); err != nil {
			return errs.New(errs.Damaged, "the remote that the store was mounted from: %w", err)
		}
	}

	return nil
}

// HangUp ends reads that wait for a remote. Later reads fail.
func (k *Registry) HangUp() { k.hangUp() }

// Close calls HangUp and closes the remotes.
func (k *Registry) Close() {
	k.hangUp()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.openRemotes {
		r.Close()
	}
}

// save writes the file. The caller holds Registry.mu.
func (k *Registry) save() error {
	raw, err := json.MarshalIndent(k.file, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", k.path, err)
	}
	if err := vfs.WriteFile(k.o.FS, k.path, append(raw, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", k.path, err)
	}

	return nil
}

// changeFile calls fn to change the file, and saves the file unless fn fails.
func (k *Registry) changeFile(fn func(f *registryFile) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := fn(&k.file); err != nil {
		return err
	}
	return k.save()
}

var remoteNamePattern = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckAdd returns the error that Add would return for its arguments. It does not add the remote.
func (k *Registry) CheckAdd(name, url string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return checkAdd(k, name, url)
}

// checkAdd does the work of CheckAdd. The caller holds Registry.mu.
func checkAdd(k *Registry, name, url string) error {
	if !remoteNamePattern().MatchString(name) {
		return errs.New(errs.Invalid, "%q is not a name for a remote; use up to 64 letters, digits, '_' and '-'", name)
	}
	if old, ok := k.file.Remotes[name]; ok && old != url {
		return errs.New(errs.Exist, "remote %s exists: %s", name, old)
	}

	return nil
}

// Add adds a remote. Errors: errs.Invalid for the name; errs.Exist if the name has another URL.
func (k *Registry) Add(name, url string) error {
	return k.changeFile(func(f *registryFile) error {
		if err := checkAdd(k, name, url); err != nil {
			return err
		}

		f.Remotes[name] = url
		return nil
	})
}

// Remove removes a remote from the file. It makes no request to the remote.
func (k *Registry) Remove(name string) error {
	return k.changeFile(func(f *registryFile) error {
		url, ok := f.Remotes[name]
		if !ok {
			return errUnknownRemote(k, name)
		}

		delete(f.Remotes, name)

		if !slices.Contains(slices.Collect(maps.Values(f.Remotes)), url) {
			f.Recipients.forget(url)
			if r := k.openRemotes[url]; r != nil {
				r.ForgetFormat()
			}
		}

		return nil
	})
}

// List returns the URLs of the remotes by name.
func (k *Registry) List() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.file.Remotes)
}

// errUnknownRemote returns the error for a name that no remote has. The caller holds Registry.mu.
func errUnknownRemote(k *Registry, name string) error {
	if len(k.file.Remotes) == 0 {
		return errs.New(errs.NotExist, "no such remote: %q; `amberfs remote add NAME URL` adds one", name)
	}
	return errs.New(errs.NotExist, "no such remote: %q; `amberfs remote list` lists them (%s)", name,
		strings.Join(slices.Sorted(maps.Keys(k.file.Remotes)), ", "))
}

// Remote returns the remote with a name or a URL. The caller must pass a URL only if the user typed it: for a URL,
// Remote records that the user agrees to contact the remote. For a name it does not, because another user may have
// chosen the URL.
func (k *Registry) Remote(name string) (*remote.Remote, error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if backend.IsURL(name) {
		return k.openAndTrust(name)
	}

	url, ok := k.file.Remotes[name]
	if !ok {
		return nil, errUnknownRemote(k, name)
	}

	return k.openRemote(url)
}

// openAndTrust opens the remote at a URL that the user typed, and trusts the URL. The caller holds Registry.mu.
func (k *Registry) openAndTrust(url string) (*remote.Remote, error) {
	r, err := k.openRemote(url)
	if err != nil {
		return nil, err
	}
	if err := k.trust.add(r.URL()); err != nil {
		k.o.Logger.Warn("the next mount asks again", "err", err)
	}

	return r, nil
}

// Trust records that the user agrees to contact a remote of the store: the remote with a name, or the
// source with a URL. It returns the URL.
func (k *Registry) Trust(name string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	url, ok := k.file.Remotes[name]
	for _, f := range k.file.Sources {
		if f.URL == name {
			url, ok = name, true
		}
	}
	if !ok {
		return "", errUnknownRemote(k, name)
	}

	r, err := k.openRemote(url)
	if err != nil {
		return "", err
	}

	return r.URL(), k.trust.add(r.URL())
}

// Untrusted returns the URLs that the user has not agreed to contact. The key of a URL is the name of its remote. A
// source without a registered remote has its URL as the key.
func (k *Registry) Untrusted() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()

	out := maps.Clone(k.file.Remotes)
	for _, f := range k.file.Sources {
		if !slices.Contains(slices.Collect(maps.Values(k.file.Remotes)), f.URL) {
			out[f.URL] = f.URL
		}
	}

	maps.DeleteFunc(out, func(_, url string) bool {
		r, err := k.openRemote(url)
		return err != nil || k.trust.isTrusted(r.URL())
	})

	return out
}

// openRemote returns the remote at a URL, which it opens once. The caller holds Registry.mu.
func (k *Registry) openRemote(url string) (*remote.Remote, error) {
	if r := k.openRemotes[url]; r != nil {
		return r, nil
	}

	r, err := remote.Open(url, remote.Options{Cache: k.cache, Timeout: k.o.Timeout, ReportAway: healthLogger(k, url), Authorize: k.checkTrusted, CheckRecipients: k.file.Recipients.checkOrStore})
	if err != nil {
		return nil, err
	}

	k.openRemotes[url] = r

	return r, nil
}

// checkTrusted returns backend.ErrUntrusted if the user has not agreed to a URL.
func (k *Registry) checkTrusted(url string) error {
	if k.trust.isTrusted(url) {
		return nil
	}
	return fmt.Errorf("%s: %w: the store names it; `amberfs remote trust %s` agrees", url, backend.ErrUntrusted, url)
}

// healthLogger returns a function for remote.Options.ReportAway. The function logs that the remote does not answer,
// or that it answers again.
func healthLogger(k *Registry, url string) func(bool, time.Time) {
	return func(away bool, since time.Time) {
		if away {
			k.o.Logger.Warn("the remote does not answer; local data still works", "url", url)
		} else {
			k.o.Logger.Info("the remote answers again", "url", url, "after", time.Since(since).Round(time.Second))
		}
	}
}

// cacheDir returns the directory of the cache that all daemons of the user share. If the user has no home
// directory, it is in the store.
func cacheDir(store string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = store
	}
	return filepath.Join(dir, "amberfs")
}

// EraseCache erases the cached blocks of remote objects, which all daemons of the user share.
func (k *Registry) EraseCache() error {
	err := k.cache.Erase()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// MustForget reports whether the store must still remove forgotten contents from the remotes.
func (k *Registry) MustForget() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file.MustForget
}

// SetMustForget sets the result of MustForget.
func (k *Registry) SetMustForget(must bool) error {
	if k.MustForget() == must {
		return nil
	}
	return k.changeFile(func(f *registryFile) error {
		f.MustForget = must
		return nil
	})
}

// PushBase returns the name of the snapshot on a remote that is the base of the next push; "" if unknown.
func (k *Registry) PushBase(r *remote.Remote) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file.PushBases[r.URL()]
}

// SetPushBase sets the result of PushBase.
func (k *Registry) SetPushBase(r *remote.Remote, name string) error {
	return k.changeFile(func(f *registryFile) error {
		f.PushBases[r.URL()] = name
		return nil
	})
}

// BackupSeq returns the number of the newest snapshot that was pushed to a remote because of the policy, or 0.
func (k *Registry) BackupSeq(r *remote.Remote) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.file.BackupSeqs[r.URL()]
}

// SetBackupSeq sets the result of BackupSeq: all snapshots of main up to the number seq are on the remote.
func (k *Registry) SetBackupSeq(r *remote.Remote, seq uint64) error {
	return k.changeFile(func(f *registryFile) error {
		f.BackupSeqs[r.URL()] = seq
		return nil
	})
}

// AwaySince returns the time since which a remote does not answer, for each remote that does not answer now. The keys
// are URLs.
func (k *Registry) AwaySince() map[string]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()

	out := map[string]time.Time{}
	for url, r := range k.openRemotes {
		if t := r.AwaySince(); !t.IsZero() {
			out[url] = t
		}
	}

	return out
}
