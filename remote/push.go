package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

const (
	maxObjectSize    = 32 << 20 // largest size of an object, in bytes
	maxHeadDataBytes = 4 << 20  // at most this much file data at the end of a push is sent in the head
	minReusedSize    = 1 << 20  // a merge sends the records in smaller objects again
	maxIndexes       = 8        // a push merges the indexes of its base if the base has this many
	maxTransfers     = 4        // largest number of uploads, or of ranges in a pull, at the same time
	maxAttempts      = 8        // a push fails if collections condemn its objects in all of these attempts

	// maxMarkAge is the greatest time between a push's read of the marks and the write of its ref: see
	// gc.go.
	maxMarkAge = 6 * time.Hour

	// settleTime is the pause between a write of a ref without a condition and the read that shows whether
	// another program has replaced the ref.
	settleTime = time.Second
)

// PushOptions are the arguments of Remote.Push.
type PushOptions struct {
	// Ref has the name and the description of the snapshot. Push fills in Version, Nonce, Pushed,
	// Objects, Indexes and Encrypted.
	Ref object.Ref
	// Mark walks over the records of the snapshot, and passes the hash of each to the function keep. If keep returns
	// false, Mark does not visit the records to which this record refers.
	Mark       func(ctx context.Context, keep func(cas.Hash) bool) error
	ReadStored func(ctx context.Context, h cas.Hash) (cas.StoredObject, error) // such as cas.Store.GetStored
	// Base is the name of the snapshot on the remote to compare with; if empty, Ref.Name.
	Base    string
	Force   bool // replace a snapshot of the same name
	SendAll bool // send all records, and do not use a base
	// Progress is called with the number of records sent, the number of all records to send, and the number of
	// bytes sent. May be nil.
	Progress func(done, total int, sentBytes int64)
}

// A PushResult is the result of a push.
type PushResult struct {
	Ref       *object.Ref `json:"-"`
	Unchanged bool        `json:"unchanged" jsonschema:"the remote had it already"`
	Objects   int         `json:"objects" jsonschema:"number of objects sent"`
	Bytes     int64       `json:"bytes" jsonschema:"bytes sent"`
}

// Push copies a snapshot to the remote. Other programs see it when the remote has all objects that it needs.
//
// Errors: ErrExists; ErrNoRemote; cas.ErrDamaged if a record is damaged in the local store (then
// no ref was written); errors of package backend.
func (r *Remote) Push(ctx context.Context, p PushOptions) (*PushResult, error) {
	u := &pushRun{r: r, options: &p, nonce: uuid.NewString()}
	if result, err := u.confirmBase(ctx); err != nil || result != nil {
		return result, err
	}

	var err error
	if u.format, err = r.Format(ctx); err != nil {
		return nil, err
	}

	// To save time, an attempt reads the marks while it sends objects. If the marks have one of its objects, which is
	// rare, the push needs another attempt.
	for range maxAttempts {
		if err := u.tryPush(ctx); err != nil {
			return nil, err
		}
		if u.noneCondemned(u.objects) && !hasElapsed(u.marksReadAt, maxMarkAge) {
			return u.writeRef(ctx)
		}
	}

	return nil, fmt.Errorf("the push took so long that a collection came between; run it again: %w", backend.ErrChanged)
}

// MissingBytes returns the number of bytes that Push would send, before encryption. If PushOptions.SendAll is set, it
// makes no request.
func MissingBytes(ctx context.Context, r *Remote, p PushOptions) (bytes int64, err error) {
	u := &pushRun{r: r, options: &p}
	if !p.SendAll {
		if result, err := u.confirmBase(ctx); err != nil || result != nil {
			return 0, err
		}
	}
	if err := u.planSend(ctx); err != nil {
		return 0, err
	}

	for _, h := range u.toSend {
		rec, err := p.ReadStored(ctx, h)
		if err != nil {
			return 0, err
		}
		bytes += int64(len(rec.Bytes))
	}

	return bytes, nil
}

// tryPush makes one attempt of a push. In parallel, it writes the entry, reads which objects are condemned, and sends
// the missing records. It does not use objects that were condemned at the previous attempt.
func (u *pushRun) tryPush(ctx context.Context) error {
	u.objects, u.indexes, u.sentEntries, u.reusedEntries, u.toSend = nil, nil, nil, nil, nil
	u.marksReadAt, u.recordsSent = time.Now(), 0
	if u.base != nil && !u.noneCondemned(u.base.Ref.Objects) {
		u.base = nil
	}

	u.listNumberBefore = newestKnownListNumber(u.r)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return u.r.writeEntry(gctx, u.format, u.nonce, u.options.Ref.Name) })
	var condemned map[string]bool
	g.Go(func() (err error) {
		if condemned, err = readCondemned(gctx, u.r); err != nil {
			return fmt.Errorf("looking for a collection: %w", err)
		}
		return nil
	})

	g.Go(func() error {
		if err := u.planSend(gctx); err != nil {
			return err
		}
		return u.sendRecords(gctx)
	})

	err := g.Wait()
	u.condemnedObjects = condemned

	return err
}

// A pushRun is one call of Push. Each attempt resets the fields from toSend to recordsSent.
type pushRun struct {
	r                *Remote
	options          *PushOptions
	base             *Snapshot     // nil without a base
	baseIndex        *object.Index // the records of base
	format           *Format
	nonce            string
	listNumberBefore int // number of the newest list that was known before the entry was written

	condemnedObjects map[string]bool // names of the objects that were condemned at the last attempt
	marksReadAt      time.Time       // when the last attempt began; it read the marks after that

	toSend        []cas.Hash     // records that the base lacks, in the order of the walk
	reusedEntries []object.Entry // in a merge: records that stay in an object of the base

	sentEntries []object.Entry   // records that were sent, for the index
	indexes     []object.Section // places of the ref's indexes, the newest first

	mu          sync.Mutex
	objects     []backend.Object // objects of the ref; an object that is being sent has no name yet
	recordsSent int              // including records in objects that the remote had already
	objectsSent int
	bytesSent   int64
}

// confirmBase reads the ref of the base. The ref proves that the remote has all records of the base. If this program
// pushed the ref less than maxMarkAge ago, confirmBase makes no request for it, because a collection takes days to
// remove objects. It returns a result if the push has nothing to send.
func (u *pushRun) confirmBase(ctx context.Context) (*PushResult, error) {
	name := cmp.Or(u.options.Base, u.options.Ref.Name)
	ref := u.r.recentPush(name)
	if ref == nil || name == u.options.Ref.Name {
		var err error
		ref, err = u.r.Ref(ctx, name)
		if errors.Is(err, backend.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}

	if name == u.options.Ref.Name && ref.ID == u.options.Ref.ID && !(u.options.SendAll && u.options.Force) {
		return &PushResult{Ref: ref, Unchanged: true}, nil
	}
	if name == u.options.Ref.Name && !u.options.Force {
		return nil, errNameTaken(ref)
	}

	if name == u.options.Ref.Name && strings.EqualFold(ref.Name, name) && ref.Name != name {
		// The remote is on a disk that ignores case.
		return nil, fmt.Errorf("%s has the name %s there, which the place does not tell from %s: %w", ref.Name, ref.Name, name, ErrExists)
	}
	if u.options.SendAll {
		return nil, nil
	}

	u.base = u.r.Snapshot(ref)
	index, err := u.base.LoadIndex(ctx)
	u.baseIndex = index

	return nil, err
}

// errNameTaken returns an error that wraps ErrExists. ref is the ref on the remote that has the name.
func errNameTaken(ref *object.Ref) error {
	return fmt.Errorf("%s is %.12s of %s: %w", ref.Name, ref.ID, ref.Created.Format(time.RFC3339), ErrExists)
}

// noneCondemned reports whether no collection is about to remove one of the objects.
func (u *pushRun) noneCondemned(objects []backend.Object) bool {
	return !slices.ContainsFunc(objects, func(o backend.Object) bool { return u.condemnedObjects[o.Name] })
}

// writeRef writes the ref, so that other programs see the snapshot.
func (u *pushRun) writeRef(ctx context.Context) (*PushResult, error) {
	ref := u.options.Ref
	ref.Version, ref.Nonce, ref.Pushed = object.Version, u.nonce, time.Now().UTC()
	ref.Objects, ref.Indexes, ref.Encrypted = u.objects, u.indexes, len(u.format.Recipients) > 0
	raw, err := u.format.encodeRef(&ref)
	if err != nil {
		return nil, err
	}

	err = u.r.b.Put(ctx, "ref/"+ref.Name, raw, backend.PutOptions{IfAbsent: !u.options.Force, RefObjects: ref.Objects})
	done := &PushResult{Ref: &ref, Objects: u.objectsSent, Bytes: u.bytesSent}
	if err == nil && u.format.ConditionalPuts {
		u.r.recordPushedRef(&ref, raw, u.listNumberBefore)
		return done, nil
	}
	if err != nil && !errors.Is(err, backend.ErrChanged) && !errors.Is(err, backend.ErrAway) {
		return nil, err
	}

	return u.confirmRefWritten(ctx, done, err)
}

// encodeRef returns the stored value of a ref.
func (f *Format) encodeRef(ref *object.Ref) ([]byte, error) {
	raw, err := ref.Encode()
	if err != nil {
		return nil, err
	}
	return f.encrypt(raw)
}

// CopyRef writes a copy of a ref of the remote under another name. If that name is taken, it does nothing.
func (r *Remote) CopyRef(ctx context.Context, ref *object.Ref, name string) error {
	f, err := r.Format(ctx)
	if err != nil {
		return err
	}

	renamed := *ref
	renamed.Name = name
	raw, err := f.encodeRef(&renamed)
	if err != nil {
		return err
	}
	if err := r.writeEntry(ctx, f, renamed.Nonce, name); err != nil {
		return err
	}

	err = r.b.Put(ctx, "ref/"+name, raw, backend.PutOptions{IfAbsent: true, RefObjects: ref.Objects})
	if errors.Is(err, backend.ErrChanged) { // the name is taken
		return nil
	}

	return err
}

// confirmRefWritten reads the ref after a write whose result is unknown: the answer was lost, another writer was
// faster, or the service does not support conditions. cause is the error of the write, nil if the write succeeded.
// confirmRefWritten returns result if the remote has the ref of this push.
func (u *pushRun) confirmRefWritten(ctx context.Context, result *PushResult, cause error) (*PushResult, error) {
	if cause == nil {
		time.Sleep(settleTime)
	}

	found, err := u.r.Ref(ctx, result.Ref.Name)
	switch {
	case err != nil:
		return nil, errors.Join(cause, err)
	case found.Nonce == result.Ref.Nonce:
		return result, nil
	case found.ID == result.Ref.ID:
		return &PushResult{Ref: found, Unchanged: true}, nil
	}

	return nil, errNameTaken(found)
}
