package remote

import (
	"context"
	"crypto/md5" //nolint:gosec // it is what S3 says of a value, and protects nothing
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// The list is a copy of all refs in one value, so that a reader of all makes one request instead of
// one a ref. What it is worth depends on the remote's format:
//
//   - Without entries, it may be older than the refs. A ref counts only if the service says that its
//     value has the sum that the list has, and any other is read itself.
//   - With entries (Format.Entries), the refs that changed since are known by them: see entries.go.
//
// A collection that removes objects compares the sums of all refs in either case, so what is removed
// depends on no list.
const (
	listingKey = "gc/list" // older programs pass it over there
	maxListing = 256 << 20 // bytes, expanded
	// fewRefs is how many refs are read by themselves before the listing is written again.
	fewRefs = 8
	// newRefs is after how many pushes of one program, and after which part of all refs.
	newRefs, partOfRefs = 64, 16
)

type listing struct {
	Objects []backend.Object `json:"objects"` // of all refs, each once, and of refs that were removed
	Refs    []listedRef      `json:"refs"`
	Done    []string         `json:"done,omitempty"` // keys of entries that the list takes account of
}

type listedRef struct {
	Sum       string      `json:"sum"` // MD5 of the ref's value
	Ref       *object.Ref `json:"ref"` // without its objects
	Objects   []int       `json:"objects"`
	Encrypted bool        `json:"encrypted,omitempty"`
}

// A seenRef is a ref and the sum of its value.
type seenRef struct {
	sum   string
	ref   *object.Ref
	after int // of a ref that this program pushed: a list that had been written before the push's entry
}

// pushedRefs are the refs that this program pushed since it wrote the listing.
type pushedRefs struct {
	mu     sync.Mutex
	all    map[string]seenRef
	listed int  // refs of the listing, as far as this program knows
	newest int  // number of the newest list that this program knows
	none   bool // the service says no sums, so there is no listing
	last   *object.Ref
	at     time.Time // of last
}

func sumOf(raw []byte) string {
	sum := md5.Sum(raw) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// encodeListing returns the list as it is stored, before it is encrypted. Of l, the objects and the
// entries are given.
func encodeListing(l listing, refs map[string]seenRef) ([]byte, error) {
	number := map[backend.Object]int{}
	for n, o := range l.Objects {
		number[o] = n
	}
	for _, seen := range refs {
		bare := *seen.ref
		one := listedRef{Sum: seen.sum, Ref: &bare, Encrypted: bare.Encrypted}
		for _, o := range bare.Objects {
			n, known := number[o]
			if !known {
				n = len(l.Objects)
				number[o] = n
				l.Objects = append(l.Objects, o)
			}
			one.Objects = append(one.Objects, n)
		}
		bare.Objects = nil
		l.Refs = append(l.Refs, one)
	}
	raw, err := json.Marshal(l)
	if err != nil || len(raw) > maxListing {
		return nil, errors.Join(err, fmt.Errorf("a listing of %d bytes", len(raw)))
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer enc.Close()
	return enc.EncodeAll(raw, nil), nil
}

// decodeListing reads what encodeListing returned. What no push writes is left out.
func decodeListing(raw []byte) (*listing, map[string]seenRef, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxListing))
	if err != nil {
		return nil, nil, err
	}
	defer dec.Close()
	if raw, err = dec.DecodeAll(raw, nil); err != nil {
		return nil, nil, fmt.Errorf("listing: %w", err)
	}
	var l listing
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, nil, fmt.Errorf("listing: %w", err)
	}
	refs := map[string]seenRef{}
	for _, one := range l.Refs {
		if one.Ref == nil {
			continue
		}
		for _, n := range one.Objects {
			if n < 0 || n >= len(l.Objects) {
				return nil, nil, errors.New("listing: an object that it has not")
			}
			one.Ref.Objects = append(one.Ref.Objects, l.Objects[n])
		}
		if one.Ref.Encrypted = one.Encrypted; one.Ref.Check() == nil {
			refs[one.Ref.Name] = seenRef{sum: one.Sum, ref: one.Ref}
		}
	}
	return &l, refs, nil
}

// readListing reads a list. Errors: backend.ErrNotFound; any other if it cannot be used.
func (r *Remote) readListing(ctx context.Context, key string) (*listing, map[string]seenRef, error) {
	raw, err := backend.Get(ctx, r.b, key)
	if err != nil {
		return nil, nil, err
	}
	if f, ferr := r.Format(ctx); ferr == nil && len(f.Recipients) > 0 || isEncrypted(raw) {
		if raw, err = r.decryptAll(raw); err != nil {
			return nil, nil, err
		}
	}
	return decodeListing(raw)
}

// writeListing writes the list that a look at all refs gives. That it cannot be written is no error of
// the caller's.
func (r *Remote) writeListing(ctx context.Context, v *view) {
	l, key, o := listing{}, listingKey, backend.PutOptions{}
	if v.format.Entries {
		l.Objects, l.Done = v.named, v.settled
		key, o.IfAbsent = listKey(v.number+1), true
	}
	raw, err := encodeListing(l, v.refs)
	if err == nil {
		raw, err = v.format.encrypt(raw)
	}
	if err != nil || len(raw) > backend.MaxValue || r.b.Put(ctx, key, raw, o) != nil {
		return
	}
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	for name, seen := range r.pushed.all {
		if v.refs[name].sum == seen.sum {
			delete(r.pushed.all, name)
		}
	}
	r.pushed.listed = len(v.refs)
	if v.format.Entries {
		r.pushed.newest = max(r.pushed.newest, v.number+1)
	}
}

// notePushed notes a ref that was pushed, for the next list. after is the newest list that was known before
// its entry was written.
func (r *Remote) notePushed(ref *object.Ref, raw []byte, after int) {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	r.pushed.last, r.pushed.at = ref, time.Now()
	if r.pushed.none {
		return
	}
	if r.pushed.all == nil {
		r.pushed.all = map[string]seenRef{}
	}
	r.pushed.all[ref.Name] = seenRef{sumOf(raw), ref, after}
}

// lately returns the ref of a name if this program pushed it last, not long ago.
func (r *Remote) lately(name string) *object.Ref {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	if last := r.pushed.last; last != nil && last.Name == name && !older(r.pushed.at, maxMarkAge) {
		return last
	}
	return nil
}

// List brings the list up to date if this program pushed many refs since it was written.
func (r *Remote) List(ctx context.Context) error {
	r.pushed.mu.Lock()
	due := len(r.pushed.all) >= max(newRefs, r.pushed.listed/partOfRefs)
	r.pushed.mu.Unlock()
	if !due || r.b.Collects() {
		return nil
	}
	return r.Refs(ctx, func(string, *object.Ref, error) error { return nil })
}

// A view is what one program sees of all refs.
type view struct {
	format *Format
	refs   map[string]seenRef
	bad    map[string]error  // of refs that are unreadable
	fresh  int               // refs that the list does not have, and the entries that it does not take account of
	sums   map[string]string // of refs, by the service; nil if it was not asked
	summed bool              // these are the sums of what it has

	gc      []backend.Info   // the keys below gc/, if there are entries or a collection asked for them
	entries []refEntry       // of refs that changed
	number  int              // of the newest list, 0 if there is none
	named   []backend.Object // objects in the list
	settled []string         // keys of entries: the refs above take account of them
	done    []string         // keys of entries that the list takes account of, too
}

// Refs calls fn for every snapshot, one at a time. An unreadable one is an error.
func (r *Remote) Refs(ctx context.Context, fn func(name string, ref *object.Ref, err error) error) error {
	return r.refs(ctx, false, fn)
}

func (r *Remote) refs(ctx context.Context, all bool, fn func(name string, ref *object.Ref, err error) error) error {
	v, err := r.look(ctx, all)
	if err != nil {
		return err
	}
	if r.listingDue(v) {
		r.writeListing(ctx, v)
	}
	return v.each(fn)
}

func (v *view) each(fn func(name string, ref *object.Ref, err error) error) error {
	for name, err := range v.bad {
		if err := fn(name, nil, err); err != nil {
			return err
		}
	}
	for name, seen := range v.refs {
		ref := *seen.ref
		if err := fn(name, &ref, nil); err != nil {
			return err
		}
	}
	return nil
}

// look looks at all refs: at the service's own names and sums of them, if all or if there are no
// entries, else at the list and the entries.
func (r *Remote) look(ctx context.Context, all bool) (*view, error) {
	for {
		v, err := r.beginLook(ctx, false)
		if err != nil {
			return nil, err
		}
		if err = r.endLook(ctx, v, all); !errors.Is(err, errListGone) {
			return v, err
		}
	}
}

// beginLook reads the entries, and then which lists there are; with gc, all keys below gc/.
func (r *Remote) beginLook(ctx context.Context, gc bool) (*view, error) {
	v := &view{format: &Format{}, refs: map[string]seenRef{}, bad: map[string]error{}}
	if r.b.Collects() {
		return v, nil
	}
	f, err := r.Format(ctx)
	if err == nil {
		v.format = f
	} else if !errors.Is(err, ErrNoRemote) {
		return nil, err
	}
	if v.format.Entries {
		if v.entries, err = r.readEntries(ctx); err != nil {
			return nil, err
		}
	}
	if v.format.Entries || gc {
		err = r.b.List(ctx, "gc/", func(i backend.Info) error { v.gc = append(v.gc, i); return nil })
	}
	for _, i := range v.gc {
		v.number = max(v.number, listNumber(i.Key))
	}
	return v, err
}

// endLook reads the refs that are neither in the list nor pushed by this program. Errors: errListGone
// if the look has to begin again.
func (r *Remote) endLook(ctx context.Context, v *view, all bool) error {
	var unread []string
	var err error
	usable := false
	if v.format.Entries {
		usable, err = r.readNumbered(ctx, v)
	}
	if usable && !all {
		unread = r.openEntries(v)
	} else if err == nil {
		unread, err = r.compareSums(ctx, v)
	}
	if err != nil {
		return err
	}
	var mu sync.Mutex
	err = each(ctx, unread, func(ctx context.Context, name string) error {
		ref, raw, err := r.readRef(ctx, name)
		mu.Lock()
		defer mu.Unlock()
		delete(v.refs, name)
		switch {
		case err == nil:
			seen := seenRef{sum: sumOf(raw), ref: ref}
			v.refs[name] = seen
			if is := v.sums[name] == seen.sum; is || v.format.Entries {
				v.summed = v.summed || is
				v.fresh++
			}
		case errors.Is(err, backend.ErrAway) || errors.Is(err, errs.Perm) || ctx.Err() != nil:
			return err
		case !errors.Is(err, backend.ErrNotFound): // it was removed in this moment
			v.bad[name] = err
		}
		return nil
	})
	if err != nil {
		return err
	}
	if v.format.Entries {
		r.settleEntries(ctx, v)
	}
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	if len(v.refs) > r.few && !v.summed && !v.format.Entries {
		r.pushed.none, r.pushed.all = true, nil
	}
	return nil
}

// compareSums asks the service for the names and sums of all refs, and returns the names of those that
// the list does not have.
func (r *Remote) compareSums(ctx context.Context, v *view) (unread []string, err error) {
	var infos []backend.Info
	if err := r.b.List(ctx, "ref/", func(i backend.Info) error { infos = append(infos, i); return nil }); err != nil {
		return nil, err
	}
	known := v.refs
	v.refs, v.sums = map[string]seenRef{}, map[string]string{}
	if !v.format.Entries && len(infos) > r.few && !r.b.Collects() {
		if _, refs, err := r.readListing(ctx, listingKey); err == nil {
			known = refs
		}
	}
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	for _, i := range infos {
		name := strings.TrimPrefix(i.Key, "ref/")
		v.sums[name] = i.Sum
		seen, ok := known[name]
		if own, pushed := r.pushed.all[name]; pushed && own.sum == i.Sum {
			seen, ok = own, true
		}
		if ok && i.Sum != "" && i.Sum == seen.sum {
			v.refs[name], v.summed = seen, true
		} else {
			unread = append(unread, name)
		}
	}
	return unread, nil
}

// listingDue reports whether the list is to be written after a look at all refs.
func (r *Remote) listingDue(v *view) bool {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	return len(v.bad) == 0 && (v.fresh > r.few || len(r.pushed.all) > r.few)
}

// readRef is Ref, and returns the value as well.
func (r *Remote) readRef(ctx context.Context, name string) (*object.Ref, []byte, error) {
	raw, err := backend.Get(ctx, r.b, "ref/"+name)
	if errors.Is(err, backend.ErrNotFound) {
		return nil, nil, fmt.Errorf("snapshot %q: %w", name, backend.ErrNotFound)
	}
	if err != nil {
		return nil, nil, err
	}
	ref, err := r.decodeRef(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot %s on the remote: %w", name, err)
	}
	// The key is its name, except where upper and lower case are the same.
	if !strings.EqualFold(ref.Name, name) {
		ref.Name = name
	}
	return ref, raw, nil
}
