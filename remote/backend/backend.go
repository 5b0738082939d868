package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotFound: there is no such key.
	ErrNotFound = errs.New(errs.NotExist, "not found on the remote")
	// ErrNoBucket: there is no such bucket.
	ErrNoBucket = errs.New(errs.NotExist, "there is no such bucket")
	// ErrChanged: the condition of a Put does not hold.
	ErrChanged = errs.New(errs.Exist, "somebody else wrote it")
	// ErrDenied: the credentials are missing, wrong, or do not allow this.
	ErrDenied = errs.New(errs.Perm, "the remote refuses it")
	// ErrAway: no answer, or one that says to try again later.
	ErrAway = errs.Away
	// ErrUnsupported: this kind of remote cannot do that.
	ErrUnsupported = errs.New(errs.NotSupported, "this kind of remote cannot do that")
)

// MaxValue is the longest value of a key that is read whole, in bytes.
const MaxValue = 64 << 20

// A Backend is one place that holds pushed snapshots. It is safe for concurrent
// use. Every call ends when its context does.
type Backend interface {
	// Put stores data under key if the condition holds, and returns the version
	// that it then has. All of it is there afterwards, durably, or nothing.
	// Errors: ErrChanged, ErrDenied, ErrAway (it may be there or not).
	Put(ctx context.Context, key string, data []byte, o PutOptions) (version string, err error)
	// Get returns the whole value and its version. Errors: ErrNotFound.
	Get(ctx context.Context, key string) (data []byte, version string, err error)
	// GetRange returns the n bytes at offset off of an object; fewer at its end.
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
	// Close lets idle connections go.
	Close() error
}

// PutOptions say when a Put may succeed. The zero value is always.
type PutOptions struct {
	IfAbsent bool   // only if there is no such key
	IfMatch  string // only if this is the key's version
	// Keeps are the objects that a ref leads to. A registry must be told; the
	// others do not look at it.
	Keeps []Object
}

func (o *PutOptions) conditional() bool { return o.IfAbsent || o.IfMatch != "" }

// An Object is an immutable value and its length in bytes.
type Object struct {
	Name string `json:"name"` // SHA-256, 64 hex digits
	Size int64  `json:"size"`
}

// Key returns the key of an object.
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
}

var (
	keyPattern    = regexp.MustCompile(`^(format|(ref|hold|gc)/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|obj/[0-9a-f]{64})$`)
	prefixPattern = regexp.MustCompile(`^(obj|ref|hold|gc)/$`)
)

func checkKey(key string) error {
	if !keyPattern.MatchString(key) || strings.Contains(key, "..") {
		return fmt.Errorf("%q is no key of a remote", key)
	}
	return nil
}

func checkPrefix(prefix string) error {
	if !prefixPattern.MatchString(prefix) {
		return fmt.Errorf("%q is no prefix of keys", prefix)
	}
	return nil
}

// version names a value that is read whole, where the service has no name for it.
func version(data []byte) string { return Named(data).Name }
