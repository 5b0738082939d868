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

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/object"
)

var (
	// ErrExists: the remote has another snapshot of that name.
	ErrExists = errs.New(errs.Exist, "a snapshot of that name is on the remote already")
	// ErrNoRemote: `amberfs remote add` has not set up a remote at the URL.
	ErrNoRemote = errs.New(errs.NotExist, "no remote was set up there")
	// ErrForeign: the directory or bucket is used for something else.
	ErrForeign = errs.New(errs.Exist, "the place is used for something else")
	// ErrIncomplete: the remote lacks an object that a ref names.
	ErrIncomplete = errs.New(errs.Damaged, "the remote lacks a part of the snapshot")
)

// Options are the options of Open. Only Cache is required.
type Options struct {
	Cache *cache.Cache
	// Identities are keys to decrypt with; if nil, the keys of the user.
	Identities []age.Identity
	// EncryptTo are the recipients to which values are encrypted, instead of the recipients in the remote's format.
	// May be nil.
	EncryptTo []string
	// Authorize is called before each request. It returns an error if the remote must not be contacted. May
	// be nil.
	Authorize func(url string) error
	// CheckRecipients is called once with the recipients in the remote's format. It returns an error if they
	// are not trusted: the format is not authenticated, so the service could change it. May be nil.
	CheckRecipients func(url string, found []string) error
	// Timeout is the timeout of a read; default 30 s, negative for no timeout.
	Timeout time.Duration
	// ReportAway is called with true when the remote no longer answers, and with false when it answers again. since
	// is the time at which the remote ceased to answer. May be nil.
	ReportAway func(away bool, since time.Time)
}

// A Remote is an open remote. It is safe for concurrent use.
type Remote struct {
	b        backend.Backend
	o        Options
	expander *cas.Expander
	health   healthTracker

	format      atomic.Pointer[Format]
	pushed      pushRecord
	maxUnlisted int        // maxUnlistedRefs; lower in tests
	readers     sync.Map   // readers of encrypted objects: readerKey → io.ReaderAt
	mu          sync.Mutex // guards o.Identities
}

// A Ref describes a snapshot on a remote.
type Ref = object.Ref

// Open returns the remote at a URL. It makes no request. The caller closes the remote.
func Open(url string, o Options) (*Remote, error) {
	b := backend.OpenLazily(url, o.Authorize)
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.ReportAway == nil {
		o.ReportAway = func(bool, time.Time) {}
	}

	r := &Remote{b: b, o: o, expander: cas.NewExpander(), maxUnlisted: maxUnlistedRefs}
	r.health = healthTracker{probe: r.probe, timeout: max(o.Timeout, 0), report: o.ReportAway}
	r.health.makeContexts()

	return r, nil
}

// probe makes a small request on a new connection, because open connections may hang.
func (r *Remote) probe(ctx context.Context) error {
	r.b.CloseIdleConnections()
	_, err := r.b.Stat(ctx, "format")
	return err
}

// Close ends reads that wait, and closes the connections.
func (r *Remote) Close() {
	r.health.close()
	r.expander.Close()
	r.b.CloseIdleConnections()
}

// Probe starts small requests in the background that find out whether the remote answers. AwaySince returns the
// result.
func (r *Remote) Probe() { r.health.startProbing() }

// URL returns the URL of the remote.
func (r *Remote) URL() string { return r.b.URL() }

// Ref reads the ref of a snapshot. Errors: backend.ErrNotFound, object.ErrMalformed,
// object.ErrNewer.
func (r *Remote) Ref(ctx context.Context, name string) (*object.Ref, error) {
	ref, _, err := r.readRef(ctx, name)
	return ref, err
}

func (r *Remote) decodeRef(raw []byte) (*object.Ref, error) {
	encrypted := isEncrypted(raw)
	if encrypted {
		var err error
		if raw, err = r.decryptAll(raw); err != nil {
			return nil, err
		}
	}

	ref, err := object.DecodeRef(raw)
	if err != nil {
		return nil, err
	}

	ref.Encrypted = encrypted // the value in the JSON may be forged
	return ref, nil
}

// Find reads the ref of a snapshot by its name or its full id. Errors: backend.ErrNotFound.
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
	if err != nil {
		return found, err
	}
	if found == nil {
		return nil, fmt.Errorf("a snapshot with the id %s: %w", name, backend.ErrNotFound)
	}

	return found, nil
}

// Remove removes snapshots from the remote. If one of them does not exist, it removes none. Remote.GC later removes
// the objects that only these snapshots need. Errors: backend.ErrNotFound.
func (r *Remote) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		// In a registry the name can be the tag of an image. Get fails for such a tag, so the image is not removed.
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

// A Format describes a remote. It is the value of the key "format": a line for people, then JSON.
type Format struct {
	Version         int      `json:"version"`
	ConditionalPuts bool     `json:"conditional"` // the service supports conditional puts
	Recipients      []string `json:"recipients,omitempty"`
	// HasEntries is set if each change of a ref has an entry, see entries.go. It is encoded in the first line of the
	// value and not in the JSON. Older programs write no entries, so they must refuse the remote: they do not
	// know this first line.
	HasEntries bool `json:"-"`
}

// The first line of the value of the key "format": for a remote without entries, and for one with entries.
const (
	formatLine  = "amberfs remote 1\n"
	entriesLine = "amberfs remote 2\n"
)

// Format returns the format, which it reads once. Errors: ErrNoRemote, ErrForeign, object.ErrNewer,
// object.ErrMalformed, and the error of Options.CheckRecipients.
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
	if r.o.EncryptTo != nil {
		f.Recipients = r.o.EncryptTo
	}

	if r.o.CheckRecipients != nil {
		if err := r.o.CheckRecipients(r.URL(), f.Recipients); err != nil {
			return nil, err
		}
	}

	r.format.Store(f)

	return f, nil
}

// ForgetFormat makes the next call of Format read the format again.
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

	f := Format{HasEntries: entries}
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

// Init sets a remote up, for `amberfs remote add`: it probes the service and writes the format. If the
// remote has a format already, Init reads it, and fails if recipients are given and differ from the recipients in it.
// It calls warn with a sentence about a guarantee that the service does not provide.
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
	if err != nil {
		return nil, err
	}

	if len(recipients) > 0 && !equalSets(f.Recipients, recipients) {
		return nil, errs.New(errs.Exist, "%s is set up already, for %s: recipients are given when a remote is new",
			r.URL(), cmp.Or(strings.Join(f.Recipients, ", "), "no recipients, so that nothing there is encrypted"))
	}

	return f, nil
}

func equalSets(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// setUp probes the service and writes the format of a new remote.
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

	f, line := &Format{Version: object.Version, ConditionalPuts: problem == "", Recipients: recipients}, formatLine
	// A directory needs no entries, because its refs are read without requests. Without conditional puts
	// a remote has no entries, because two programs could write lists with the same number.
	if f.ConditionalPuts && !strings.HasPrefix(r.URL(), "file:") {
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

// checkEmpty returns ErrForeign if a directory or bucket without a format has keys like the keys of a remote. They
// may be of another program, and a collection would remove its data. A registry is not checked, because amberfs
// removes no objects there.
func (r *Remote) checkEmpty(ctx context.Context) error {
	if r.b.IsRegistry() {
		return nil
	}
	found := ""

	for _, prefix := range []string{"obj/", "ref/"} {
		err := r.b.List(ctx, prefix, func(i backend.Info) error {
			found = i.Key
			return errKeyFound
		})
		if err != nil && !errors.Is(err, errKeyFound) && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
	}
	if found == "" {
		return nil
	}

	return fmt.Errorf("%s: %w: it holds %s, but no amberfs remote was set up there; choose another prefix", r.URL(), ErrForeign, found)
}

// errKeyFound ends a List after the first key.
var errKeyFound = errors.New("there is one")
