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
	objectSize = 32 << 20 // of an object that is full, in bytes
	smallData  = 4 << 20  // chunks up to here go into the head object
	smallest   = 1 << 20  // objects below it are sent again by a merge
	maxIndexes = 8        // on top of each other
	uploads    = 4        // under way at once
	attempts   = 8        // of a push that meets collections

	// maxMarkAge is how old the marks may be that a push has read when it writes its ref; see gc.go.
	maxMarkAge = 6 * time.Hour

	// settleTime is the wait before a ref without conditions is checked.
	settleTime = time.Second
)

type Push struct {
	// Ref has the name and what describes the snapshot. The rest is filled in.
	Ref object.Ref
	// Mark calls keep for each object, and continues below it if keep returns true.
	Mark   func(ctx context.Context, keep func(cas.Hash) bool) error
	Stored func(ctx context.Context, h cas.Hash) (cas.Stored, error)
	// Base is the snapshot on the remote to compare with; if empty, that of the same name.
	Base  string
	Force bool
	// Full sends everything again.
	Full bool
	// Progress reports parts and bytes sent. May be nil.
	Progress func(parts, of int, sent int64)
}

type Pushed struct {
	Ref       *object.Ref `json:"-"`
	Unchanged bool        `json:"unchanged" jsonschema:"the remote had it already"`
	Objects   int         `json:"objects" jsonschema:"number of objects sent"`
	Bytes     int64       `json:"bytes" jsonschema:"bytes sent"`
}

// Push makes a snapshot appear on the remote, with all it needs or not at all.
//
// Errors: ErrExists; ErrNoRemote; cas.ErrDamaged if something of it is damaged
// here, and then nothing was published; those of package backend.
func (r *Remote) Push(ctx context.Context, p Push) (*Pushed, error) {
	u := &pushing{r: r, p: &p, nonce: uuid.NewString()}
	if there, err := u.confirmBase(ctx); err != nil || there != nil {
		return there, err
	}
	var err error
	if u.format, err = r.Format(ctx); err != nil {
		return nil, err
	}
	// The marks are read while the objects are sent, as they hardly ever matter.
	for range attempts {
		err := u.attempt(ctx)
		if err != nil {
			return nil, err
		}
		if u.free(u.objects) && !older(u.marksRead, maxMarkAge) {
			return u.publish(ctx)
		}
	}
	return nil, fmt.Errorf("the push took so long that a collection came between; run it again: %w", backend.ErrChanged)
}

// attempt reads which objects are condemned, and sends the missing ones.
func (u *pushing) attempt(ctx context.Context) error {
	u.objects, u.indexes, u.entries, u.carried, u.missing = nil, nil, nil, nil, nil
	u.marksRead, u.parts = time.Now(), 0
	if u.base != nil && !u.free(u.base.Ref.Objects) {
		u.base = nil
	}
	u.after = u.r.newestList()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return u.r.writeEntry(gctx, u.format, u.nonce, u.p.Ref.Name) })
	var condemned map[string]bool
	g.Go(func() (err error) {
		if condemned, err = u.r.condemned(gctx); err != nil {
			return fmt.Errorf("looking for a collection: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		if err := u.plan(gctx); err != nil {
			return err
		}
		return u.send(gctx)
	})
	err := g.Wait()
	u.condemned = condemned
	return err
}

type pushing struct {
	r      *Remote
	p      *Push
	base   *Snapshot     // nil if there is none
	there  *object.Index // of base
	format *Format
	nonce  string
	after  int // the newest list that was known before the entry was written

	condemned map[string]bool
	marksRead time.Time

	missing []cas.Hash     // what has to be sent, in the order of the walk
	carried []object.Entry // of a merge: what stays where it is

	entries []object.Entry // for the index
	indexes []object.Section

	mu      sync.Mutex
	objects []backend.Object // of the ref; those that are under way have no name yet
	parts   int              // of missing that are there
	sent    int              // objects
	bytes   int64
}

// confirmBase reads the base's ref, which proves that everything it leads to is there. So does the push
// of it by this program, for as long as marks count: a collection takes days to remove its objects.
// confirmBase returns a result if there is nothing to do.
func (u *pushing) confirmBase(ctx context.Context) (*Pushed, error) {
	name := cmp.Or(u.p.Base, u.p.Ref.Name)
	ref, err := u.r.lately(name), error(nil)
	if ref == nil || name == u.p.Ref.Name {
		ref, err = u.r.Ref(ctx, name)
	}
	if errors.Is(err, backend.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if name == u.p.Ref.Name && ref.ID == u.p.Ref.ID && !(u.p.Full && u.p.Force) {
		return &Pushed{Ref: ref, Unchanged: true}, nil
	}
	if name == u.p.Ref.Name && !u.p.Force {
		return nil, inUse(ref)
	}
	if name == u.p.Ref.Name && strings.EqualFold(ref.Name, name) && ref.Name != name {
		// A disk on which upper and lower case are the same.
		return nil, fmt.Errorf("%s has the name %s there, which the place does not tell from %s: %w", ref.Name, ref.Name, name, ErrExists)
	}
	if u.p.Full {
		return nil, nil
	}
	u.base = u.r.Snapshot(ref)
	u.there, err = u.base.Load(ctx)
	return nil, err
}

func inUse(there *object.Ref) error {
	return fmt.Errorf("%s is %.12s of %s: %w", there.Name, there.ID, there.Created.Format(time.RFC3339), ErrExists)
}

// free reports whether none of some objects is to be removed.
func (u *pushing) free(objects []backend.Object) bool {
	return !slices.ContainsFunc(objects, func(o backend.Object) bool { return u.condemned[o.Name] })
}

func (u *pushing) publish(ctx context.Context) (*Pushed, error) {
	ref := u.p.Ref
	ref.Version, ref.Nonce, ref.Pushed = object.Version, u.nonce, time.Now().UTC()
	ref.Objects, ref.Indexes, ref.Encrypted = u.objects, u.indexes, len(u.format.Recipients) > 0
	raw, err := ref.Encode()
	if err != nil {
		return nil, err
	}
	if raw, err = u.format.encrypt(raw); err != nil {
		return nil, err
	}
	err = u.r.b.Put(ctx, "ref/"+ref.Name, raw, backend.PutOptions{IfAbsent: !u.p.Force, Keeps: ref.Objects})
	done := &Pushed{Ref: &ref, Objects: u.sent, Bytes: u.bytes}
	if err == nil && u.format.Conditional {
		u.r.notePushed(&ref, raw, u.after)
		return done, nil
	}
	if err != nil && !errors.Is(err, backend.ErrChanged) && !errors.Is(err, backend.ErrAway) {
		return nil, err
	}
	return u.settle(ctx, done, err)
}

// Keep writes a ref that is there under another name, too.
func (r *Remote) Keep(ctx context.Context, ref *object.Ref, as string) error {
	f, err := r.Format(ctx)
	if err != nil {
		return err
	}
	kept := *ref
	kept.Name = as
	raw, err := kept.Encode()
	if err != nil {
		return err
	}
	if raw, err = f.encrypt(raw); err != nil {
		return err
	}
	if err := r.writeEntry(ctx, f, kept.Nonce, as); err != nil {
		return err
	}
	err = r.b.Put(ctx, "ref/"+as, raw, backend.PutOptions{IfAbsent: true, Keeps: ref.Objects})
	if errors.Is(err, backend.ErrChanged) { // it was kept before
		return nil
	}
	return err
}

// settle finds out which snapshot has the name if the answer to the write of the ref leaves it open:
// the answer was lost, another writer was faster, or the service does not support conditions.
func (u *pushing) settle(ctx context.Context, done *Pushed, cause error) (*Pushed, error) {
	if cause == nil {
		time.Sleep(settleTime)
	}
	there, err := u.r.Ref(ctx, done.Ref.Name)
	switch {
	case err != nil:
		return nil, errors.Join(cause, err)
	case there.Nonce == done.Ref.Nonce:
		return done, nil
	case there.ID == done.Ref.ID:
		return &Pushed{Ref: there, Unchanged: true}, nil
	}
	return nil, inUse(there)
}
