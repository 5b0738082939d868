package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
)

var (
	// ErrNotFound: there is no such key.
	ErrNotFound = errs.New(errs.NotExist, "not found on the remote")
	// ErrNoBucket: there is no such bucket.
	ErrNoBucket = errs.New(errs.NotExist, "no such bucket")
	// ErrChanged: the condition of a Put does not hold.
	ErrChanged = errs.New(errs.Exist, "it was changed meanwhile")
	// ErrDenied: the credentials are missing, wrong, or do not allow this.
	ErrDenied = errs.New(errs.Perm, "the remote refused the request")
	// ErrAway: no answer, or one that says to try again later.
	ErrAway = errs.Away
	// ErrUnsupported: this kind of remote does not support that.
	ErrUnsupported = errs.New(errs.NotSupported, "this kind of remote does not support that")
)

// MaxValue is the longest value of a key that is read whole, in bytes.
const MaxValue = 64 << 20

// A Backend is one place that holds pushed snapshots. It is safe for concurrent
// use. Every call ends when its context does.
type Backend interface {
	// Put stores data under key if the condition holds. All of it is there afterwards,
	// durably, or nothing. Errors: ErrChanged, ErrDenied, ErrAway (it may be there or not).
	Put(ctx context.Context, key string, data []byte, o PutOptions) error
	// GetRange returns the n bytes at offset off of a value; fewer at its end. Errors: ErrNotFound.
	GetRange(ctx context.Context, key string, off, n int64) ([]byte, error)
	// Stat says how large a value is. Errors: ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)
	// List calls fn for every key that begins with prefix, in no order.
	List(ctx context.Context, prefix string, fn func(Info) error) error
	// Delete removes a key. That it is absent is no error.
	Delete(ctx context.Context, key string) error

	// Collects reports whether this is a registry, which itself removes objects to which
	// no ref leads. There objects cannot be listed, and the condition of a Put need not
	// hold when many write at once.
	Collects() bool
	// URL is how Open finds it again.
	URL() string
	// CloseIdleConnections ends connections that no call uses.
	CloseIdleConnections()
}

// Get returns the whole value of a key. Errors: ErrNotFound.
func Get(ctx context.Context, b Backend, key string) ([]byte, error) {
	return b.GetRange(ctx, key, 0, MaxValue)
}

// PutOptions say when a Put may succeed. The zero value is always.
type PutOptions struct {
	IfAbsent bool // only if there is no such key
	// Keeps are the objects that a ref leads to. A registry needs them; the
	// others do not look at it.
	Keeps []Object
}

type Object struct {
	Name string `json:"name"` // SHA-256, 64 hex digits
	Size int64  `json:"size"`
}

func (o Object) Key() string { return "obj/" + o.Name }

// Named returns what data is called as an object.
func Named(data []byte) Object {
	sum := sha256.Sum256(data)
	return Object{hex.EncodeToString(sum[:]), int64(len(data))}
}

// An Info describes a key. Modified is by the service's clock; a registry has none.
type Info struct {
	Key      string
	Size     int64
	Modified time.Time
	Sum      string // MD5 of the value in hex, from List; "" where the service does not say it
}

var keyPattern = regexp.MustCompile(`^(format|(ref/|hold/|gc/|new/(rm-)?[0-9a-f-]{36}\.)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|obj/[0-9a-f]{64})$`)

func isKey(key string) bool { return keyPattern.MatchString(key) && !strings.Contains(key, "..") }

// Open returns the backend that a URL names, without asking it anything. It checks no keys:
//
//	s3://BUCKET/PREFIX?endpoint=URL&region=NAME&credentials=FILE
//	oci://HOST/REPOSITORY?credentials=FILE
//	file:///DIR
//
// Credentials are looked for where the clients of these services look, or in FILE, which is read
// when they are needed: ~/.aws/credentials and ~/.docker/config.json have its form. A URL with
// a user, a password or an unknown parameter is refused.
func Open(raw string) (Backend, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse quotes its argument, which may hold a secret.
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

var schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// IsURL reports whether s names a remote by a URL, also by one of an unknown kind.
func IsURL(s string) bool { return schemePattern.MatchString(s) }

// parameters returns the query of a remote's URL. Unknown parameters are refused.
func parameters(u *url.URL, known ...string) (map[string]string, error) {
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

// credentialsFile returns the file that the credentials are in, "" if the URL names none.
func credentialsFile(p map[string]string) (string, error) {
	file := p["credentials"]
	if file != "" && !filepath.IsAbs(file) {
		return "", errors.New("the file with the credentials of a remote is named by an absolute path")
	}
	return file, nil
}

// ErrUntrusted: the user has not agreed to contact this remote.
var ErrUntrusted = errs.New(errs.Away, "you have not agreed to contact this remote")

// Later returns the backend that a URL names. Each call checks its key and asks allowed first,
// unless that is nil, so that nothing is contacted before. What cannot be opened now, for
// example because the file that AWS_CA_BUNDLE names is not there, is tried again with each call.
func Later(raw string, allowed func(url string) error) Backend {
	l := &later{url: raw, allowed: allowed}
	if b, err := Open(raw); err == nil {
		l.opened, l.url = b, b.URL()
	}
	return l
}

type later struct {
	url     string
	allowed func(url string) error

	mu     sync.Mutex
	opened Backend
}

// at returns the backend for a call about a key.
func (l *later) at(key string) Backend {
	if !isKey(key) {
		return failing{fmt.Errorf("%q is not a key of a remote", key)}
	}
	return l.backend()
}

func (l *later) backend() Backend {
	if l.allowed != nil {
		if err := l.allowed(l.url); err != nil {
			return failing{err}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened == nil {
		b, err := Open(l.url)
		if err != nil {
			return failing{errs.New(errs.Invalid, "%w", err)}
		}
		l.opened = b
	}
	return l.opened
}

func (l *later) Put(ctx context.Context, key string, data []byte, o PutOptions) error {
	return l.at(key).Put(ctx, key, data, o)
}
func (l *later) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return l.at(key).GetRange(ctx, key, off, n)
}
func (l *later) List(ctx context.Context, prefix string, fn func(Info) error) error {
	return l.backend().List(ctx, prefix, fn)
}
func (l *later) Stat(ctx context.Context, key string) (Info, error) {
	return l.at(key).Stat(ctx, key)
}
func (l *later) Delete(ctx context.Context, key string) error { return l.at(key).Delete(ctx, key) }
func (l *later) Collects() bool                               { return l.backend().Collects() }
func (l *later) URL() string                                  { return l.url }

func (l *later) CloseIdleConnections() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opened != nil {
		l.opened.CloseIdleConnections()
	}
}

type failing struct{ err error }

func (f failing) Put(context.Context, string, []byte, PutOptions) error          { return f.err }
func (f failing) GetRange(context.Context, string, int64, int64) ([]byte, error) { return nil, f.err }
func (f failing) Stat(context.Context, string) (Info, error)                     { return Info{}, f.err }
func (f failing) List(context.Context, string, func(Info) error) error           { return f.err }
func (f failing) Delete(context.Context, string) error                           { return f.err }
func (f failing) Collects() bool                                                 { return false }
func (f failing) URL() string                                                    { return "" }
func (f failing) CloseIdleConnections()                                          {}
