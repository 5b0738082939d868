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
	objectSize = 32 << 20 // bytes of a full object
	smallData  = 4 << 20  // size up to which the last data is sent in the head, and not in an object of its own
	smallest   = 1 << 20  // a merge sends the records of objects with fewer bytes again
	maxIndexes = 8        // a push merges the indexes of its base if the base has this many
	uploads    = 4        // parallel uploads
	attempts   = 8        // attempts of a push while collections condemn its objects

	// maxMarkAge is the greatest time between a push's read of the marks and the write of its ref: see
	// gc.go.
	maxMarkAge = 6 * time.Hour

	// settleTime is the time after which a ref that was written without a condition is read again.
	settleTime = time.Second
)

// A Push has the arguments of Remote.Push.
type Push struct {
	// Ref has the name and the description of the snapshot. Push fills in Version, Nonce, Pushed,
	// Objects, Indexes and Encrypted.
	Ref object.Ref
	// Mark walks over the records of the snapshot. It calls keep for each record, and for the records
	// that it refers to if keep returns true.
	Mark   func(ctx context.Context, keep func(cas.Hash) bool) error
	Stored func(ctx context.Context, h cas.Hash) (cas.StoredObject, error) // as cas.Store.GetStored
	// Base is the name of the snapshot on the remote to compare with; if empty, Ref.Name.
	Base  string
	Force bool // replace a snapshot of the same name
	Full  bool // send all records, and do not use a base
	// Progress is called with the number of records sent, of all records to send, and of bytes sent. May
	// be nil.
	Progress func(parts, of int, sent int64)
}

// A Pushed is the result of a push.
type Pushed struct {
	Ref       *object.Ref `json:"-"`
	Unchanged bool        `json:"unchanged" jsonschema:"the remote had it already"`
	Objects   int         `json:"objects" jsonschema:"number of objects sent"`
	Bytes     int64       `json:"bytes" jsonschema:"bytes sent"`
}

// Push copies a snapshot to the remote. Other programs see it when the remote has all that it needs.
//
// Errors: ErrExists; ErrNoRemote; cas.ErrDamaged if a record is damaged in the local store (then
// no ref was written); errors of package backend.
func (r *Remote) Push(ctx context.Context, p Push) (*Pushed, error) {
	u := &pushRun{r: r, p: &p, nonce: uuid.NewString()}
	if result, err := u.confirmBase(ctx); err != nil || result != nil {
		return result, err
	}

	var err error
	if u.format, err = r.Format(ctx); err != nil {
		return nil, err
	}

	// An attempt reads the marks while it sends objects, since the marks rarely contain its objects.
	for range attempts {
		if err := u.attempt(ctx); err != nil {
			return nil, err
		}
		if u.noneCondemned(u.objects) && !elapsed(u.marksRead, maxMarkAge) {
			return u.publish(ctx)
		}
	}

	return nil, fmt.Errorf("the push took so long that a collection came between; run it again: %w", backend.ErrChanged)
}

// Missing returns the number of bytes that Push would send, before encryption. With Push.Full it makes no request.
func Missing(ctx context.Context, r *Remote, p Push) (bytes int64, err error) {
	u := &pushRun{r: r, p: &p}
	if !p.Full {
		if result, err := u.confirmBase(ctx); err != nil || result != nil {
			return 0, err
		}
	}
	if err := u.planSend(ctx); err != nil {
		return 0, err
	}

	for _, h := range u.toSend {
		rec, err := p.Stored(ctx, h)
		if err != nil {
			return 0, err
		}
		bytes += int64(len(rec.Bytes))
	}

	return bytes, nil
}

// attempt writes the entry, reads which objects are condemned, and sends the missing records, all at the
// same time. It does not use objects that were condemned at the attempt before.
func (u *pushRun) attempt(ctx context.Context) error {
	u.objects, u.indexes, u.entries, u.reused, u.toSend = nil, nil, nil, nil, nil
	u.marksRead, u.recordsSent = time.Now(), 0
	if u.base != nil && !u.noneCondemned(u.base.Ref.Objects) {
		u.base = nil
	}

	u.listBefore = newestKnownList(u.r)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return u.r.writeEntry(gctx, u.format, u.nonce, u.p.Ref.Name) })
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
		return u.send(gctx)
	})

	err := g.Wait()
	u.condemned = condemned

	return err
}

// A pushRun is one call of Push. Each attempt resets the fields from toSend to recordsSent.
type pushRun struct {
	r          *Remote
	p          *Push
	base       *Snapshot     // nil without a base
	baseIndex  *object.Index // the records of base
	format     *Format
	nonce      string
	listBefore int // number of the newest list that was known before the entry was written

	condemned map[string]bool // names of objects, as of the last attempt
	marksRead time.Time       // when that attempt began

	toSend []cas.Hash     // records that the base lacks, in the order of the walk
	reused []object.Entry // of a merge: records that stay in an object of the base

	entries []object.Entry   // records that were sent, for the index
	indexes []object.Section // of the ref, the newest first

	mu          sync.Mutex
	objects     []backend.Object // of the ref; an object that is being sent has no name yet
	recordsSent int              // including records in objects that the remote had already
	objectsSent int
	bytesSent   int64
}

// confirmBase reads the base's ref. The ref proves that the remote has all records of the base. A ref that
// this program pushed less than maxMarkAge ago proves it too, without a request: a collection takes
// days to remove objects. confirmBase returns a result if the push has nothing to send.
func (u *pushRun) confirmBase(ctx context.Context) (*Pushed, error) {
	name := cmp.Or(u.p.Base, u.p.Ref.Name)
	ref := u.r.pushedLately(name)
	if ref == nil || name == u.p.Ref.Name {
		var err error
		ref, err = u.r.Ref(ctx, name)
		if errors.Is(err, backend.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}

	if name == u.p.Ref.Name && ref.ID == u.p.Ref.ID && !(u.p.Full && u.p.Force) {
		return &Pushed{Ref: ref, Unchanged: true}, nil
	}
	if name == u.p.Ref.Name && !u.p.Force {
		return nil, nameTaken(ref)
	}

	if name == u.p.Ref.Name && strings.EqualFold(ref.Name, name) && ref.Name != name {
		// The remote is on a disk that ignores case.
		return nil, fmt.Errorf("%s has the name %s there, which the place does not tell from %s: %w", ref.Name, ref.Name, name, ErrExists)
	}
	if u.p.Full {
		return nil, nil
	}

	u.base = u.r.Snapshot(ref)
	index, err := u.base.Load(ctx)
	u.baseIndex = index

	return nil, err
}

// nameTaken returns an ErrExists error: ref, a ref on the remote, has the name.
func nameTaken(ref *object.Ref) error {
	return fmt.Errorf("%s is %.12s of %s: %w", ref.Name, ref.ID, ref.Created.Format(time.RFC3339), ErrExists)
}

// noneCondemned reports whether no collection is about to remove one of the objects.
func (u *pushRun) noneCondemned(objects []backend.Object) bool {
	return !slices.ContainsFunc(objects, func(o backend.Object) bool { return u.condemned[o.Name] })
}

// publish writes the ref.
func (u *pushRun) publish(ctx context.Context) (*Pushed, error) {
	ref := u.p.Ref
	ref.Version, ref.Nonce, ref.Pushed = object.Version, u.nonce, time.Now().UTC()
	ref.Objects, ref.Indexes, ref.Encrypted = u.objects, u.indexes, len(u.format.Recipients) > 0
	raw, err := u.format.encodeRef(&ref)
	if err != nil {
		return nil, err
	}

	err = u.r.b.Put(ctx, "ref/"+ref.Name, raw, backend.PutOptions{IfAbsent: !u.p.Force, Keeps: ref.Objects})
	done := &Pushed{Ref: &ref, Objects: u.objectsSent, Bytes: u.bytesSent}
	if err == nil && u.format.Conditional {
		u.r.notePushed(&ref, raw, u.listBefore)
		return done, nil
	}
	if err != nil && !errors.Is(err, backend.ErrChanged) && !errors.Is(err, backend.ErrAway) {
		return nil, err
	}

	return u.resolveRef(ctx, done, err)
}

// encodeRef returns the stored value of a ref.
func (f *Format) encodeRef(ref *object.Ref) ([]byte, error) {
	raw, err := ref.Encode()
	if err != nil {
		return nil, err
	}
	return f.encrypt(raw)
}

// CopyRef writes a copy of a ref of the remote under another name, unless that name is taken.
func (r *Remote) CopyRef(ctx context.Context, ref *object.Ref, as string) error {
	f, err := r.Format(ctx)
	if err != nil {
		return err
	}

	renamed := *ref
	renamed.Name = as
	raw, err := f.encodeRef(&renamed)
	if err != nil {
		return err
	}
	if err := r.writeEntry(ctx, f, renamed.Nonce, as); err != nil {
		return err
	}

	err = r.b.Put(ctx, "ref/"+as, raw, backend.PutOptions{IfAbsent: true, Keeps: ref.Objects})
	if errors.Is(err, backend.ErrChanged) { // an earlier call copied it
		return nil
	}

	return err
}

// resolveRef reads the ref after a write whose result is unknown: the answer was lost, another writer was
// faster, or the service does not support conditions. It returns done if the push wrote the ref.
func (u *pushRun) resolveRef(ctx context.Context, done *Pushed, cause error) (*Pushed, error) {
	if cause == nil {
		time.Sleep(settleTime)
	}

	found, err := u.r.Ref(ctx, done.Ref.Name)
	switch {
	case err != nil:
		return nil, errors.Join(cause, err)
	case found.Nonce == done.Ref.Nonce:
		return done, nil
	case found.ID == done.Ref.ID:
		return &Pushed{Ref: found, Unchanged: true}, nil
	}

	return nil, nameTaken(found)
}
