package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/object"
)

var (
	// ErrExists: a snapshot of that name is there, and is another one.
	ErrExists = errs.New(errs.Exist, "a snapshot of that name is on the remote already")
	// ErrNoRemote: there is nothing at the URL that `amberfs remote add` has set up.
	ErrNoRemote = errs.New(errs.NotExist, "no remote was set up there")
	// ErrForeign: the place is used for something else.
	ErrForeign = errs.New(errs.Exist, "the place is used for something else")
	// ErrIncomplete: something that a snapshot needs is not on the remote.
	ErrIncomplete = errs.New(errs.Damaged, "the remote lacks a part of the snapshot")
)

// parallel is how many requests are under way at once where they are many.
const parallel = 16

// each calls fn for all items, several at a time.
func each[T any](ctx context.Context, all []T, fn func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, one := range all {
		g.Go(func() error { return fn(ctx, one) })
	}
	return g.Wait()
}

// Options are the ways to open a remote. The zero value is fine but for Cache.
type Options struct {
	Cache *cache.Cache
	// Identities decrypt what is encrypted; if nil, those of the user.
	Identities []age.Identity
	// Allowed is asked before each request whether the remote may be contacted. May be nil.
	Allowed func(url string) error
	// Recipients is asked once whether the remote may have the recipients that its format has. The
	// format is not authenticated: the service that stores the remote can change it. May be nil.
	Recipients func(url string, found []string) error
	// Timeout bounds a read; 30 s by default, negative for none.
	Timeout time.Duration
	// Note reports that the remote is away or back. May be nil.
	Note func(away bool, since time.Time)
}

// A Remote is a place that holds pushed snapshots. It is safe for concurrent use.
type Remote struct {
	b      backend.Backend
	o      Options
	expand *cas.Expander
	health health

	format  atomic.Pointer[Format]
	pushed  pushedRefs
	few     int        // refs that are read by themselves before the list is written again
	readers sync.Map   // of encrypted objects: a reader to its io.ReaderAt
	mu      sync.Mutex // guards o.Identities
}

type Ref = object.Ref

// Open returns the remote at a URL without asking it anything. Close it.
func Open(url string, o Options) (*Remote, error) {
	b := backend.Later(url, o.Allowed)
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Note == nil {
		o.Note = func(bool, time.Time) {}
	}
	r := &Remote{b: b, o: o, expand: cas.NewExpander(), few: fewRefs}
	r.health = health{probe: r.probe, timeout: max(o.Timeout, 0), note: o.Note}
	r.health.init()
	return r, nil
}

// probe makes a small request on a new connection, since the old ones may hang.
func (r *Remote) probe(ctx context.Context) error {
	r.b.CloseIdleConnections()
	_, err := r.b.Stat(ctx, "format")
	return err
}

func (r *Remote) Close() {
	r.health.close()
	r.expand.Close()
	r.b.CloseIdleConnections()
}

// Probe finds out in the background whether the remote answers, for Away.
func (r *Remote) Probe() { r.health.startProbing() }

// URL is how Open finds the remote again.
func (r *Remote) URL() string { return r.b.URL() }

// Ref reads the ref of a snapshot. Errors: backend.ErrNotFound, object.ErrMalformed,
// object.ErrNewer.
func (r *Remote) Ref(ctx context.Context, name string) (*object.Ref, error) {
	ref, _, err := r.readRef(ctx, name)
	return ref, err
}

func (r *Remote) decodeRef(raw []byte) (*object.Ref, error) {
	secret := isEncrypted(raw)
	if secret {
		var err error
		if raw, err = r.decryptAll(raw); err != nil {
			return nil, err
		}
	}
	ref, err := object.DecodeRef(raw)
	if err == nil {
		ref.Encrypted = secret // whatever the ref contains
	}
	return ref, err
}

// Find reads the ref of a snapshot by its name or its whole id. Errors: backend.ErrNotFound.
func (r *Remote) Find(ctx context.Context, name string) (*object.Ref, error) {
	if _, err := cas.ParseHash(name); err != nil {
		return r.Ref(ctx, name)
	}
	var found *object.Ref
	err := r.Refs(ctx, func(_ string, ref *object.Ref, err error) error {
		if err == nil && ref.ID == name {
			found = ref
		}
		if errors.Is(err, backend.ErrAway) || errors.Is(err, errs.Perm) {
			return err
		}
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("a snapshot with the id %s: %w", name, backend.ErrNotFound)
	}
	return found, err
}

// Remove removes snapshots from the remote, or none if one of them does not exist. The remote's gc
// removes the objects that only they need. Errors: backend.ErrNotFound.
func (r *Remote) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		// Of a tag it is read whether it is a snapshot's: the repository may hold images.
		_, err := backend.Get(ctx, r.b, "ref/"+name)
		if errors.Is(err, backend.ErrNotFound) {
			return fmt.Errorf("snapshot %q: %w", name, backend.ErrNotFound)
		}
		if err != nil {
			return err
		}
	}
	f, err := r.Format(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.removeRef(ctx, f, name); err != nil {
			return err
		}
	}
	return nil
}

// A Format is what a remote is: the key format, a line for people, then JSON.
type Format struct {
	Version     int      `json:"version"`
	Conditional bool     `json:"conditional"` // puts under a condition hold when many write
	Recipients  []string `json:"recipients,omitempty"`
	// Entries: each change of a ref has an entry. It is what the second line says, so that a program that
	// writes none is refused.
	Entries bool `json:"-"`
}

// The first lines of the key format: without and with entries.
const (
	formatLine  = "amberfs remote 1\n"
	entriesLine = "amberfs remote 2\n"
)

// Format reads the format once. Errors: ErrNoRemote, ErrForeign, object.ErrNewer.
func (r *Remote) Format(ctx context.Context) (*Format, error) {
	if f := r.format.Load(); f != nil {
		return f, nil
	}
	raw, err := backend.Get(ctx, r.b, "format")
	if errors.Is(err, backend.ErrNotFound) {
		return nil, fmt.Errorf("%s: %w", r.URL(), ErrNoRemote)
	}
	if err != nil {
		return nil, err
	}
	f, err := decodeFormat(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.URL(), err)
	}
	if r.o.Recipients != nil {
		if err := r.o.Recipients(r.URL(), f.Recipients); err != nil {
			return nil, err
		}
	}
	r.format.Store(f)
	return f, nil
}

// ForgetFormat has the format read again.
func (r *Remote) ForgetFormat() { r.format.Store(nil) }

func decodeFormat(raw []byte) (*Format, error) {
	line, rest, _ := bytes.Cut(raw, []byte("\n"))
	if !bytes.HasPrefix(line, []byte("amberfs remote ")) {
		return nil, fmt.Errorf("%w: its key format is not an amberfs remote's", ErrForeign)
	}
	entries := string(line)+"\n" == entriesLine
	if string(line)+"\n" != formatLine && !entries {
		return nil, object.ErrNewer
	}
	f := Format{Entries: entries}
	if err := json.Unmarshal(rest, &f); err != nil {
		return nil, fmt.Errorf("%w: format: %w", object.ErrMalformed, err)
	}
	for _, s := range f.Recipients {
		if _, err := age.ParseX25519Recipient(s); err != nil {
			return nil, fmt.Errorf("%w: format: a recipient that is none", object.ErrMalformed)
		}
	}
	return &f, nil
}

// Init sets a remote up, for `amberfs remote add`: it probes the service and writes the
// format. A format that exists is read, and refused if it has other recipients. warn is
// called with guarantees that the service does not provide.
func (r *Remote) Init(ctx context.Context, recipients []string, warn func(string)) (*Format, error) {
	for _, s := range recipients {
		if _, err := age.ParseX25519Recipient(s); err != nil {
			return nil, errs.New(errs.Invalid, "%q is no recipient of age (age-keygen prints one): %w", s, err)
		}
	}
	f, err := r.Format(ctx)
	if errors.Is(err, ErrNoRemote) {
		f, err = r.setUp(ctx, recipients, warn)
	}
	if err == nil && len(recipients) > 0 && !sameSet(f.Recipients, recipients) {
		return nil, errs.New(errs.Exist, "%s is set up already, for %s: recipients are given when a remote is new",
			r.URL(), cmp.Or(strings.Join(f.Recipients, ", "), "no recipients, so that nothing there is encrypted"))
	}
	return f, err
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

func (r *Remote) setUp(ctx context.Context, recipients []string, warn func(string)) (*Format, error) {
	if err := r.checkEmpty(ctx); err != nil {
		return nil, err
	}
	problem, err := backend.Probe(ctx, r.b)
	if err != nil {
		return nil, fmt.Errorf("trying out %s: %w", r.URL(), err)
	}
	if problem != "" {
		warn(problem)
	}
	f, line := &Format{Version: object.Version, Conditional: problem == "", Recipients: recipients}, formatLine
	// Only where a list costs requests, and where two lists of one number are impossible.
	if f.Conditional && !strings.HasPrefix(r.URL(), "file:") {
		line = entriesLine
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode format: %w", err)
	}
	err = r.b.Put(ctx, "format", append([]byte(line), raw...), backend.PutOptions{IfAbsent: true})
	if err != nil && !errors.Is(err, backend.ErrChanged) {
		return nil, err
	}
	return r.Format(ctx)
}

// checkEmpty refuses a place without a format that holds keys as a remote has them: a
// collection would remove another user's data. A registry collects automatically.
func (r *Remote) checkEmpty(ctx context.Context) error {
	if r.b.Collects() {
		return nil
	}
	found := ""
	for _, prefix := range []string{"obj/", "ref/"} {
		err := r.b.List(ctx, prefix, func(i backend.Info) error {
			found = i.Key
			return errFound
		})
		if err != nil && !errors.Is(err, errFound) && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
	}
	if found == "" {
		return nil
	}
	return fmt.Errorf("%s: %w: it holds %s, but no amberfs remote was set up there; choose another prefix", r.URL(), ErrForeign, found)
}

var errFound = errors.New("there is one")
