package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
)

var (
	// ErrNotFound: the key does not exist.
	ErrNotFound = errs.New(errs.NotExist, "not found on the remote")
	// ErrNoBucket: the bucket does not exist.
	ErrNoBucket = errs.New(errs.NotExist, "no such bucket")
	// ErrChanged: the key of a Put with PutOptions.IfAbsent exists.
	ErrChanged = errs.New(errs.Exist, "it was changed meanwhile")
	// ErrDenied: the credentials are missing, wrong, or do not allow the request.
	ErrDenied = errs.New(errs.Perm, "the remote refused the request")
	// ErrAway: the remote did not answer, or answered that it cannot do the request now.
	ErrAway = errs.Unreachable
	// ErrUnsupported: this kind of remote does not support the operation.
	ErrUnsupported = errs.New(errs.NotSupported, "this kind of remote does not support that")
)

// MaxValueSize is the largest number of bytes that Get reads.
const MaxValueSize = 64 << 20

// A Backend stores values under keys, in one bucket, repository or directory. It is safe for concurrent
// use. Each call returns when its context ends. Any call may fail with ErrDenied or ErrAway.
type Backend interface {
	// Put stores data under key, durably, if the condition in o is met. Readers see all of data or none of it.
	// Errors: ErrChanged. After ErrAway the data may be stored or not.
	Put(ctx context.Context, key string, data []byte, o PutOptions) error
	// GetRange returns n bytes of a value from offset off on, or fewer at the end of the value. Errors:
	// ErrNotFound.
	GetRange(ctx context.Context, key string, off, n int64) ([]byte, error)
	// Stat returns the Info of a key, without Info.MD5. Errors: ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)
	// List calls fn for every key that begins with prefix, in any order, until fn returns an error.
	List(ctx context.Context, prefix string, fn func(Info) error) error
	// Delete removes a key. It is no error if the key does not exist.
	Delete(ctx context.Context, key string) error

	// IsRegistry reports whether this is an OCI registry. A registry itself removes objects that no ref
	// needs. Its objects cannot be listed. If several conditional Puts of one key run at once, more than
	// one may succeed.
	IsRegistry() bool
	// URL returns a URL for Open.
	URL() string
	// CloseIdleConnections closes connections that no call uses.
	CloseIdleConnections()
}

// Get returns the whole value of a key. Errors: ErrNotFound.
func Get(ctx context.Context, b Backend, key string) ([]byte, error) {
	return b.GetRange(ctx, key, 0, MaxValueSize)
}

// A batchDeleter is a Backend that can remove many keys with one request.
type batchDeleter interface {
	DeleteAll(ctx context.Context, keys []string) error
}

// maxParallelCalls is the largest number of calls that ForEach runs at the same time.
const maxParallelCalls = 16

// ForEach calls fn for all items, with up to maxParallelCalls calls at the same time. It returns the first error,
// which cancels the context of the other calls.
func ForEach[T any](ctx context.Context, all []T, fn func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxParallelCalls)
	for _, one := range all {
		g.Go(func() error { return fn(ctx, one) })
	}
	return g.Wait()
}

// DeleteAll removes keys, with many keys in one request if b supports it. It is no error if a key does not exist.
// After an error, some of the keys may still exist.
func DeleteAll(ctx context.Context, b Backend, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if l, ok := b.(*lazyBackend); ok {
		b = l.backendFor(keys[0])
	}

	if batch, ok := b.(batchDeleter); ok && len(keys) > 1 {
		if err := batch.DeleteAll(ctx, keys); err == nil || ctx.Err() != nil {
			return err
		} // some services do not support such a request, so each key is deleted by its own request
	}

	return ForEach(ctx, keys, b.Delete)
}

// A Version is a former version of a removed value.
type Version struct{ Key, ID string }

// A versioner is a Backend that may keep former versions of removed values.
type versioner interface {
	FormerVersions(ctx context.Context, prefix string) ([]Version, error)
	DeleteVersion(ctx context.Context, v Version) error
}

// FormerVersions returns the versions that b keeps of removed values, if their keys begin with prefix. The versions
// of a key are in the order in which they must be removed. The last one is the mark that the value is removed:
// without it, the version before would be the present value again.
func FormerVersions(ctx context.Context, b Backend, prefix string) ([]Version, error) {
	if v := versionerOf(b); v != nil {
		return v.FormerVersions(ctx, prefix)
	}
	return nil, nil
}

// DeleteVersions removes versions. It removes the versions of each key one by one, in their order in the parameter
// all. It returns the versions that the service refuses to remove, and the versions of the same keys that follow
// them.
func DeleteVersions(ctx context.Context, b Backend, all []Version) (refused []Version, err error) {
	var mu sync.Mutex
	byKey := make(map[string][]Version)
	for _, v := range all {
		byKey[v.Key] = append(byKey[v.Key], v)
	}

	err = ForEach(ctx, slices.Collect(maps.Values(byKey)), func(ctx context.Context, versions []Version) error {
		for i, v := range versions {
			err := versionerOf(b).DeleteVersion(ctx, v)
			if err == nil {
				continue
			}
			if ctx.Err() != nil || errors.Is(err, ErrAway) {
				return err
			}

			mu.Lock()
			defer mu.Unlock()
			refused = append(refused, versions[i:]...)

			return nil
		}
		return nil
	})

	return refused, err
}

func versionerOf(b Backend) versioner {
	if l, ok := b.(*lazyBackend); ok {
		b = l.backend()
	}
	v, _ := b.(versioner)
	return v
}

// PutOptions are the options of a Put. The zero value means: no condition.
type PutOptions struct {
	IfAbsent bool // fail with ErrChanged if the key exists
	// RefObjects are the objects that the ref with this key needs. A registry keeps an object only if a ref
	// names it. Other backends ignore RefObjects.
	RefObjects []Object
}

// An Object identifies an immutable value on a remote by its contents.
type Object struct {
	Name string `json:"name"` // SHA-256, 64 hex digits
	Size int64  `json:"size"`
}

// Key returns the key of the object.
func (o Object) Key() string { return "obj/" + o.Name }

// ObjectOf returns the name and the size of the object with the bytes data.
func ObjectOf(data []byte) Object {
	sum := sha256.Sum256(data)
	return Object{hex.EncodeToString(sum[:]), int64(len(data))}
}

// An Info describes a key.
type Info struct {
	Key      string
	Size     int64     // bytes of the value; 0 from a registry's List
	Modified time.Time // time by the service's clock; zero in a registry
	MD5      string    // MD5 of the value in hex, from List; "" if the service does not report it
}

var keyPattern = pattern.New(`^(format|(ref/|hold/|gc/|new/(rm-)?[0-9a-f-]{36}\.)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|obj/[0-9a-f]{64})$`)

func isKey(key string) bool { return keyPattern().MatchString(key) && !strings.Contains(key, "..") }

// Open returns the backend of a URL. It makes no request. The backend does not check that keys are valid.
// URLs are:
//
//	s3://BUCKET/PREFIX?endpoint=URL&region=NAME&credentials=FILE
//	oci://HOST/REPOSITORY?credentials=FILE
//	file:///DIR
//
// Credentials are searched in the places where the clients of these services search them, or are read
// from FILE when they are needed. FILE has the format of ~/.aws/credentials or ~/.docker/config.json.
// A URL with a user, a password or an unknown parameter is refused.
func Open(raw string) (Backend, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse quotes its argument, which may contain a secret.
		return nil, errors.New("this is not the URL of a remote: s3://BUCKET/PREFIX, oci://HOST/REPOSITORY or file:///DIR")
	}

	if u.User != nil {
		from := "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws, or the machine's role"
		if u.Scheme == "oci" {
			from = "~/.docker/config.json (docker login)"
		}

		return nil, fmt.Errorf("the URL of a remote must not contain credentials; they are taken from %s", from)
	}
	if u.Fragment != "" {
		return nil, fmt.Errorf("a remote's URL has no fragment: #%s", u.Fragment)
	}

	switch u.Scheme {
	case "s3":
		return openS3(u)
	case "oci":
		return openOCI(u)
	case "file":
		return openDir(u)
	}

	return nil, fmt.Errorf("%s:// is not a kind of remote; the kinds are s3://BUCKET/PREFIX, oci://HOST/REPOSITORY and file:///DIR", u.Scheme)
}

var schemePattern = pattern.New(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// IsURL reports whether s has the form of a URL, of any scheme.
func IsURL(s string) bool { return schemePattern().MatchString(s) }

// parseParameters returns the parameters of a remote's URL. It returns an error if the URL has an unknown one.
func parseParameters(u *url.URL, known ...string) (map[string]string, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the parameters of the remote's URL cannot be read")
	}

	p := map[string]string{}
	for _, k := range known {
		p[k] = values.Get(k)
		values.Del(k)
	}

	for k := range values {
		return nil, fmt.Errorf("unknown parameter %q in the remote's URL", k)
	}

	return p, nil
}

// credentialsFile returns the path of the file with the credentials, "" if the URL has none.
func credentialsFile(p map[string]string) (string, error) {
	file := p["credentials"]
	if file != "" && !filepath.IsAbs(file) {
		return "", errors.New("the file with the credentials of a remote is named by an absolute path")
	}
	return file, nil
}

// ErrUntrusted: the user has not agreed to contact this remote.
var ErrUntrusted = errs.New(errs.Unreachable, "you have not agreed to contact this remote")

// OpenLazily returns the backend of a URL. Before each request the backend checks the key and calls authorize, which
// may be nil. If authorize returns an error, the backend makes no request. If the backend cannot be opened, for
// example because the file that AWS_CA_BUNDLE names does not exist, each call tries again to open it.
func OpenLazily(raw string, authorize func(url string) error) Backend {
	l := &lazyBackend{url: raw, authorize: authorize}
	if b, err := Open(raw); err == nil {
		l.inner, l.url = b, b.URL()
	}
	return l
}

// A lazyBackend is the backend that OpenLazily returns.
type lazyBackend struct {
	url       string
	authorize func(url string) error

	mu    sync.Mutex
	inner Backend // nil if every call of Open has failed
}

// backendFor returns the backend for a call with a key, or an errBackend if the key is not valid or the backend
// cannot be used.
func (l *lazyBackend) backendFor(key string) Backend {
	if !isKey(key) {
		return errBackend{fmt.Errorf("%q is not a key of a remote", key)}
	}
	return l.backend()
}

// backend returns the opened backend, or an errBackend if it cannot be used.
func (l *lazyBackend) backend() Backend {
	if l.authorize != nil {
		if err := l.authorize(l.url); err != nil {
			return errBackend{err}
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if l.inner == nil {
		b, err := Open(l.url)
		if err != nil {
			return errBackend{errs.New(errs.Invalid, "%w", err)}
		}
		l.inner = b
	}

	return l.inner
}

func (l *lazyBackend) Put(ctx context.Context, key string, data []byte, o PutOptions) error {
	return l.backendFor(key).Put(ctx, key, data, o)
}
func (l *lazyBackend) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return l.backendFor(key).GetRange(ctx, key, off, n)
}
func (l *lazyBackend) List(ctx context.Context, prefix string, fn func(Info) error) error {
	return l.backend().List(ctx, prefix, fn)
}
func (l *lazyBackend) Stat(ctx context.Context, key string) (Info, error) {
	return l.backendFor(key).Stat(ctx, key)
}
func (l *lazyBackend) Delete(ctx context.Context, key string) error {
	return l.backendFor(key).Delete(ctx, key)
}
func (l *lazyBackend) IsRegistry() bool { return l.backend().IsRegistry() }
func (l *lazyBackend) URL() string      { return l.url }

func (l *lazyBackend) CloseIdleConnections() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inner != nil {
		l.inner.CloseIdleConnections()
	}
}

// An errBackend fails all calls with one error.
type errBackend struct{ err error }

func (f errBackend) Put(context.Context, string, []byte, PutOptions) error { return f.err }
func (f errBackend) GetRange(context.Context, string, int64, int64) ([]byte, error) {
	return nil, f.err
}
func (f errBackend) Stat(context.Context, string) (Info, error)           { return Info{}, f.err }
func (f errBackend) List(context.Context, string, func(Info) error) error { return f.err }
func (f errBackend) Delete(context.Context, string) error                 { return f.err }
func (f errBackend) IsRegistry() bool                                     { return false }
func (f errBackend) URL() string                                          { return "" }
func (f errBackend) CloseIdleConnections()                                {}
