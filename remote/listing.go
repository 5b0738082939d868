package remote

import (
	"context"
	"crypto/md5" //nolint:gosec // S3 reports the MD5 of a value; it protects nothing
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

// The list is a value with a copy of all refs: with it, a scan of all refs makes one request instead of
// one for each ref. The list may be older than the refs:
//
//   - On a remote without entries, a scan takes a ref from the list only if the service reports that the
//     value of the ref has the sum in the list. It reads all other refs.
//   - On a remote with entries (Format.Entries), entries name the refs that changed since the list was
//     written: see entries.go.
//
// A collection that removes objects compares the sums of all refs in both cases. So a wrong list does
// not make it remove an object that a ref names.
const (
	listingKey = "gc/list" // older programs ignore unknown keys below gc/
	maxListing = 256 << 20 // bytes before compression
	// fewRefs is the number of refs outside the list above which a scan writes the list again.
	fewRefs = 8
	// newRefs is the number of pushes of this program after which UpdateList writes the list, if they are
	// also one in partOfRefs of the refs in the list.
	newRefs, partOfRefs = 64, 16
)

// A listing is the list in the form in which it is stored.
type listing struct {
	Objects []backend.Object `json:"objects"` // objects of all refs, each once, and of refs that were removed
	Refs    []listedRef      `json:"refs"`
	Done    []string         `json:"done,omitempty"` // keys of entries that the list includes
}

// A listedRef is a ref in the list.
type listedRef struct {
	Sum       string      `json:"sum"`     // MD5 of the ref's value
	Ref       *object.Ref `json:"ref"`     // without its objects
	Objects   []int       `json:"objects"` // indexes in listing.Objects
	Encrypted bool        `json:"encrypted,omitempty"`
}

// A knownRef is a ref that was read, listed or pushed, and the sum of its value.
type knownRef struct {
	sum        string
	ref        *object.Ref
	listBefore int // of a ref that this program pushed: number of the newest list known before its entry was written
}

// A pushedRefs has the refs that this program pushed since it wrote the list.
type pushedRefs struct {
	mu         sync.Mutex
	refs       map[string]knownRef
	listed     int  // number of refs in the list, as far as this program knows
	newestList int  // highest number of a list that this program knows
	noSums     bool // the service reports no sums, so a list is of no use
	lastRef    *object.Ref
	lastTime   time.Time // when lastRef was pushed
}

func md5Sum(raw []byte) string {
	sum := md5.Sum(raw) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// encodeListing returns the compressed list of refs. l has the objects and entries of the list; objects of
// refs that it lacks are added.
func encodeListing(l listing, refs map[string]knownRef) ([]byte, error) {
	number := map[backend.Object]int{}
	for n, o := range l.Objects {
		number[o] = n
	}
	for _, known := range refs {
		bare := *known.ref
		one := listedRef{Sum: known.sum, Ref: &bare, Encrypted: bare.Encrypted}
		for _, o := range bare.Objects {
			n, exists := number[o]
			if !exists {
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

// decodeListing decodes a list and its refs, by name. It leaves out refs that no push can have written.
func decodeListing(raw []byte) (*listing, map[string]knownRef, error) {
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

	refs := map[string]knownRef{}
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
			refs[one.Ref.Name] = knownRef{sum: one.Sum, ref: one.Ref}
		}
	}
	return &l, refs, nil
}

// readListing reads a list and its refs, by name. Errors: backend.ErrNotFound; any other error if the list
// cannot be used. On a remote with recipients, a list that is not encrypted cannot be used.
func (r *Remote) readListing(ctx context.Context, key string) (*listing, map[string]knownRef, error) {
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

// writeListing writes the list of the refs of a scan. It ignores errors: without a new list, later scans
// only take longer.
func (r *Remote) writeListing(ctx context.Context, v *refScan) {
	l, key, o := listing{}, listingKey, backend.PutOptions{}
	if v.format.Entries {
		l.Objects, l.Done = v.listedObjects, v.settledEntries
		key, o.IfAbsent = listKey(v.number+1), true
	}
	raw, err := encodeListing(l, v.refs)
	if err != nil {
		return
	}
	raw, err = v.format.encrypt(raw)
	if err != nil || len(raw) > backend.MaxValue || r.b.Put(ctx, key, raw, o) != nil {
		return
	}

	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	for name, pushed := range r.pushed.refs {
		if v.refs[name].sum == pushed.sum {
			delete(r.pushed.refs, name)
		}
	}
	r.pushed.listed = len(v.refs)
	if v.format.Entries {
		r.pushed.newestList = max(r.pushed.newestList, v.number+1)
	}
}

// notePushed remembers a ref that this program pushed, for the next list. listBefore is the number of the
// newest list that was known before the entry of the ref was written.
func (r *Remote) notePushed(ref *object.Ref, raw []byte, listBefore int) {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	r.pushed.lastRef, r.pushed.lastTime = ref, time.Now()
	if r.pushed.noSums {
		return
	}
	if r.pushed.refs == nil {
		r.pushed.refs = map[string]knownRef{}
	}
	r.pushed.refs[ref.Name] = knownRef{md5Sum(raw), ref, listBefore}
}

// pushedLately returns the ref of a name if it is the last ref that this program pushed, less than
// maxMarkAge ago; otherwise nil.
func (r *Remote) pushedLately(name string) *object.Ref {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	if last := r.pushed.lastRef; last != nil && last.Name == name && !elapsed(r.pushed.lastTime, maxMarkAge) {
		return last
	}
	return nil
}

// UpdateList writes a new list if this program pushed many refs since it wrote the last one. Errors: see
// Refs.
func (r *Remote) UpdateList(ctx context.Context) error {
	r.pushed.mu.Lock()
	due := len(r.pushed.refs) >= max(newRefs, r.pushed.listed/partOfRefs)
	r.pushed.mu.Unlock()
	if !due || r.b.Collects() {
		return nil
	}
	return r.Refs(ctx, func(string, *object.Ref, error) error { return nil })
}

// A refScan is one read of all refs.
type refScan struct {
	format     *Format
	refs       map[string]knownRef
	unreadable map[string]error  // errors of refs that cannot be read, by name
	changes    int               // number of refs and entries that a new list would have and the list has not
	sums       map[string]string // sums of the refs as the service reports them, by name; nil if it was not asked
	sumsMatch  bool              // one of these sums is the MD5 of a value

	gc             []backend.Info   // the keys below gc/, if the remote has entries or a collection asked for them
	entries        []refEntry       // all entries of the remote
	number         int              // of the newest list, 0 if there is no list
	listedObjects  []backend.Object // objects in the list
	settledEntries []string         // keys of the entries that the next list includes
	listedEntries  []string         // keys of the entries that the list includes
}

// Refs calls fn for the ref of every snapshot, one at a time, until fn returns an error, which Refs
// returns. For a ref that cannot be read, fn gets a nil ref and the error. Other errors: those of
// Format and of package backend.
func (r *Remote) Refs(ctx context.Context, fn func(name string, ref *object.Ref, err error) error) error {
	return r.readRefs(ctx, false, fn)
}

// readRefs is Refs. all is the argument of scanRefs.
func (r *Remote) readRefs(ctx context.Context, all bool, fn func(name string, ref *object.Ref, err error) error) error {
	v, err := r.scanRefs(ctx, all)
	if err != nil {
		return err
	}
	if r.listingDue(v) {
		r.writeListing(ctx, v)
	}
	return v.forEach(fn)
}

// forEach calls fn as Refs does.
func (v *refScan) forEach(fn func(name string, ref *object.Ref, err error) error) error {
	for name, err := range v.unreadable {
		if err := fn(name, nil, err); err != nil {
			return err
		}
	}
	for name, known := range v.refs {
		ref := *known.ref
		if err := fn(name, &ref, nil); err != nil {
			return err
		}
	}
	return nil
}

// scanRefs reads all refs. With all, or if the remote has no entries, it takes their names and sums from
// the service, otherwise their names from the list and the entries.
func (r *Remote) scanRefs(ctx context.Context, all bool) (*refScan, error) {
	for {
		v, err := r.beginScan(ctx, false)
		if err != nil {
			return nil, err
		}
		if err = r.endScan(ctx, v, all); !errors.Is(err, errListReplaced) {
			return v, err
		}
	}
}

// beginScan reads the entries, and then the numbers of the lists. With gc, it also reads all keys below
// gc/.
func (r *Remote) beginScan(ctx context.Context, gc bool) (*refScan, error) {
	v := &refScan{format: &Format{}, refs: map[string]knownRef{}, unreadable: map[string]error{}}
	if r.b.Collects() {
		return v, nil
	}
	f, err := r.Format(ctx)
	switch {
	case err == nil:
		v.format = f
	case !gc || !errors.Is(err, ErrNoRemote):
		return nil, err
	}

	// The entries must be read before the lists: see entries.go.
	if v.format.Entries {
		if v.entries, err = r.readEntries(ctx); err != nil {
			return nil, err
		}
	}
	if v.format.Entries || gc {
		err := r.b.List(ctx, "gc/", func(i backend.Info) error { v.gc = append(v.gc, i); return nil })
		if err != nil {
			return nil, err
		}
	}
	for _, i := range v.gc {
		v.number = max(v.number, listNumber(i.Key))
	}
	return v, nil
}

// endScan reads the refs that are neither in the list nor pushed by this program. It returns
// errListReplaced if the caller must begin the scan again.
func (r *Remote) endScan(ctx context.Context, v *refScan, all bool) error {
	unread, err := r.unreadRefs(ctx, v, all)
	if err != nil {
		return err
	}

	var mu sync.Mutex
	err = forEach(ctx, unread, func(ctx context.Context, name string) error {
		ref, raw, err := r.readRef(ctx, name)
		mu.Lock()
		defer mu.Unlock()
		delete(v.refs, name)
		switch {
		case err == nil:
			sum := md5Sum(raw)
			v.refs[name] = knownRef{sum: sum, ref: ref}
			if matches := v.sums[name] == sum; matches || v.format.Entries {
				v.sumsMatch = v.sumsMatch || matches
				v.changes++
			}
		case errors.Is(err, backend.ErrAway) || errors.Is(err, errs.Perm) || ctx.Err() != nil:
			return err
		case !errors.Is(err, backend.ErrNotFound): // a ref that is not found was just removed
			v.unreadable[name] = err
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
	if len(v.refs) > r.maxUnlisted && !v.sumsMatch && !v.format.Entries {
		r.pushed.noSums, r.pushed.refs = true, nil
	}
	return nil
}

// unreadRefs takes the refs of the scan from the list and from pushes of this program. It returns the names
// of the refs that must be read.
func (r *Remote) unreadRefs(ctx context.Context, v *refScan, all bool) ([]string, error) {
	if !v.format.Entries {
		return r.compareSums(ctx, v)
	}
	usable, err := r.readNewestList(ctx, v)
	if err != nil {
		return nil, err
	}
	if usable && !all {
		return r.takeEntries(v), nil
	}
	return r.compareSums(ctx, v)
}

// compareSums asks the service for the names and sums of all refs. A ref whose sum is in the list, or is
// the sum of a push of this program, is taken from there. It returns the names of all other refs.
func (r *Remote) compareSums(ctx context.Context, v *refScan) (unread []string, err error) {
	var infos []backend.Info
	if err := r.b.List(ctx, "ref/", func(i backend.Info) error { infos = append(infos, i); return nil }); err != nil {
		return nil, err
	}
	known := v.refs
	v.refs, v.sums = map[string]knownRef{}, map[string]string{}
	if !v.format.Entries && len(infos) > r.maxUnlisted && !r.b.Collects() {
		if _, refs, err := r.readListing(ctx, listingKey); err == nil {
			known = refs
		}
	}

	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	for _, i := range infos {
		name := strings.TrimPrefix(i.Key, "ref/")
		v.sums[name] = i.Sum
		ref, ok := known[name]
		if own, pushed := r.pushed.refs[name]; pushed && own.sum == i.Sum {
			ref, ok = own, true
		}
		if ok && i.Sum != "" && i.Sum == ref.sum {
			v.refs[name], v.sumsMatch = ref, true
		} else {
			unread = append(unread, name)
		}
	}
	return unread, nil
}

// listingDue reports whether a scan found so many changes that the list should be written again.
func (r *Remote) listingDue(v *refScan) bool {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	return len(v.unreadable) == 0 && (v.changes > r.maxUnlisted || len(r.pushed.refs) > r.maxUnlisted)
}

// readRef is Ref, and also returns the decoded ref's value as stored.
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
	// The key decides about the name. A disk that ignores case may return another spelling of the key.
	if !strings.EqualFold(ref.Name, name) {
		ref.Name = name
	}
	return ref, raw, nil
}
