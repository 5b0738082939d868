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

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// The listing is a copy of all refs in one value, so that a reader of all makes one request instead of
// one a ref. It may be older than the refs: a ref counts only if the service says that its value has the
// sum that the listing has, and any other is read itself. So it needs no lock, and nothing depends on
// it: a collection sees what a program sees that reads each ref.
const (
	listingKey = "gc/list" // older programs pass it over there
	maxListing = 256 << 20 // bytes, expanded
	// fewRefs is how many refs are read by themselves before the listing is written again.
	fewRefs = 8
	// newRefs is after how many pushes of one program, and after which part of all refs.
	newRefs, partOfRefs = 64, 16
)

type listing struct {
	Objects []backend.Object `json:"objects"` // of all refs, each once
	Refs    []listedRef      `json:"refs"`
}

type listedRef struct {
	Sum       string      `json:"sum"` // MD5 of the ref's value
	Ref       *object.Ref `json:"ref"` // without its objects
	Objects   []int       `json:"objects"`
	Encrypted bool        `json:"encrypted,omitempty"`
}

// A seenRef is a ref and the sum of its value.
type seenRef struct {
	sum string
	ref *object.Ref
}

// pushedRefs are the refs that this program pushed since it wrote the listing.
type pushedRefs struct {
	mu     sync.Mutex
	all    map[string]seenRef
	listed int  // refs of the listing, as far as this program knows
	none   bool // the service says no sums, so there is no listing
}

func sumOf(raw []byte) string {
	sum := md5.Sum(raw) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// encode returns the listing as it is stored, before it is encrypted.
func encodeListing(refs map[string]seenRef) ([]byte, error) {
	var l listing
	number := map[backend.Object]int{}
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
func decodeListing(raw []byte) (map[string]seenRef, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxListing))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	if raw, err = dec.DecodeAll(raw, nil); err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	var l listing
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	refs := map[string]seenRef{}
	for _, one := range l.Refs {
		if one.Ref == nil {
			continue
		}
		for _, n := range one.Objects {
			if n < 0 || n >= len(l.Objects) {
				return nil, errors.New("listing: an object that it has not")
			}
			one.Ref.Objects = append(one.Ref.Objects, l.Objects[n])
		}
		if one.Ref.Encrypted = one.Encrypted; one.Ref.Check() == nil {
			refs[one.Ref.Name] = seenRef{one.Sum, one.Ref}
		}
	}
	return refs, nil
}

// listed returns the refs of the listing and those that this program pushed. An unusable listing is
// none.
func (r *Remote) listed(ctx context.Context) map[string]seenRef {
	refs := map[string]seenRef{}
	if raw, err := backend.Get(ctx, r.b, listingKey); err == nil {
		if f, ferr := r.Format(ctx); ferr == nil && len(f.Recipients) > 0 || isEncrypted(raw) {
			raw, err = r.decryptAll(raw)
		}
		if err == nil {
			refs, err = decodeListing(raw)
		}
		if err != nil {
			refs = map[string]seenRef{}
		}
	}
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	for name, seen := range r.pushed.all {
		refs[name] = seen
	}
	return refs
}

// writeListing writes the listing. That it cannot be written is no error of the caller's.
func (r *Remote) writeListing(ctx context.Context, refs map[string]seenRef) {
	f, err := r.Format(ctx)
	if err != nil {
		return
	}
	raw, err := encodeListing(refs)
	if err == nil {
		raw, err = f.encrypt(raw)
	}
	if err != nil || len(raw) > backend.MaxValue || r.b.Put(ctx, listingKey, raw, backend.PutOptions{}) != nil {
		return
	}
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	for name, seen := range r.pushed.all {
		if refs[name].sum == seen.sum {
			delete(r.pushed.all, name)
		}
	}
	r.pushed.listed = len(refs)
}

// notePushed notes a ref that was pushed, for the next listing.
func (r *Remote) notePushed(ref *object.Ref, raw []byte) {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	if r.pushed.none {
		return
	}
	if r.pushed.all == nil {
		r.pushed.all = map[string]seenRef{}
	}
	r.pushed.all[ref.Name] = seenRef{sumOf(raw), ref}
}

// List brings the listing up to date if this program pushed many refs since it was written.
func (r *Remote) List(ctx context.Context) error {
	r.pushed.mu.Lock()
	due := len(r.pushed.all) >= max(newRefs, r.pushed.listed/partOfRefs)
	r.pushed.mu.Unlock()
	if !due || r.b.Collects() {
		return nil
	}
	return r.Refs(ctx, func(string, *object.Ref, error) error { return nil })
}

// Refs calls fn for every snapshot, one at a time. An unreadable one is an error.
func (r *Remote) Refs(ctx context.Context, fn func(name string, ref *object.Ref, err error) error) error {
	var infos []backend.Info
	if err := r.b.List(ctx, "ref/", func(i backend.Info) error { infos = append(infos, i); return nil }); err != nil {
		return err
	}
	known := map[string]seenRef{}
	if len(infos) > fewRefs && !r.b.Collects() {
		known = r.listed(ctx)
	}
	all, unlisted, kept := map[string]seenRef{}, []string{}, 0
	for _, i := range infos {
		name := strings.TrimPrefix(i.Key, "ref/")
		seen, ok := known[name]
		if !ok || i.Sum == "" || i.Sum != seen.sum {
			unlisted = append(unlisted, name)
			continue
		}
		all[name] = seen
		ref := *seen.ref
		if err := fn(name, &ref, nil); err != nil {
			return err
		}
		kept++
	}
	sums := map[string]string{}
	for _, i := range infos {
		sums[strings.TrimPrefix(i.Key, "ref/")] = i.Sum
	}
	var mu sync.Mutex
	err := each(ctx, unlisted, func(ctx context.Context, name string) error {
		ref, raw, err := r.readRef(ctx, name)
		if errors.Is(err, backend.ErrNotFound) {
			return nil // removed meanwhile
		}
		mu.Lock()
		defer mu.Unlock()
		if sum := sums[name]; err == nil && sum != "" && sum == sumOf(raw) && ref.Name == name {
			own := *ref
			all[name] = seenRef{sum, &own}
		}
		return fn(name, ref, err)
	})
	if err == nil && r.listingDue(len(infos), len(all), len(all)-kept) {
		r.writeListing(ctx, all)
	}
	return err
}

// listingDue reports whether the listing is to be written, after a look at all refs: how many have a
// sum, and how many of these were not in the listing.
func (r *Remote) listingDue(refs, summed, fresh int) bool {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	if refs > fewRefs && summed == 0 {
		r.pushed.none, r.pushed.all = true, nil
	}
	return summed > 0 && (fresh > fewRefs || len(r.pushed.all) > fewRefs)
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
