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
	"time"

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

// Known is the remotes that a store has names for, and what was pushed there: its file
// remotes.json. It is safe for concurrent use.
type Known struct {
	o    Options
	path string

	closed context.Context
	hangUp context.CancelFunc // ends closed

	Sources

	mu    sync.Mutex
	file  file
	cache *cache.Cache
	open  map[string]*remote.Remote // by URL
	forks map[forkBase]string       // the last snapshot that a fork pushed itself
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
	k := &Known{o: o, path: filepath.Join(dir, "remotes.json"), open: map[string]*remote.Remote{}, forks: map[forkBase]string{}}
	k.init(k)
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
