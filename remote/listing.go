package remote

import (
	"context"
	"crypto/md5" //nolint:gosec // S3 reports the MD5 of a value; it protects nothing
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// The list is a value with a copy of all refs: with it, a scan of all refs makes one request instead of
// one for each ref. The list may be older than the refs:
//
//   - On a remote without entries, a scan takes a ref from the list only if the service reports that the
//     value of the ref has the sum in the list. It reads all other refs.
//   - On a remote with entries (Format.HasEntries), entries name the refs that changed since the list was
//     written: see entries.go.
//
// A collection that removes objects compares the sums of all refs in both cases. So a wrong list does
// not make it remove an object that a ref names.
const (
	listingKey      = "gc/list" // older programs ignore unknown keys below gc/
	maxListingBytes = 256 << 20 // before compression
	// A scan writes the list again if more than maxUnlistedRefs refs are not in the list.
	maxUnlistedRefs = 8
	// UpdateList writes the list when this program has pushed at least minNewRefs refs since the last list, and
	// at least 1/newRefsDivisor of the number of refs in the list.
	minNewRefs, newRefsDivisor = 64, 16
)

// A listing is the list in the form in which it is stored.
type listing struct {
	Objects         []backend.Object `json:"objects"` // objects of all refs, each once, and of refs that were removed
	Refs            []listedRef      `json:"refs"`
	IncludedEntries []string         `json:"done,omitempty"` // keys of entries that the list includes
}

// A listedRef is a ref in the list.
type listedRef struct {
	Sum       string      `json:"sum"`     // MD5 of the ref's value
	Ref       *object.Ref `json:"ref"`     // without its objects
	Objects   []int       `json:"objects"` // indexes in listing.Objects
	Encrypted bool        `json:"encrypted,omitempty"`
}

// A knownRef is a ref that was read, listed or pushed.
type knownRef struct {
	sum string // MD5 of the ref's value, in hex
	ref *object.Ref
	// For a ref that this process pushed, listNumberBefore is the highest number of a list (see listing) that was
	// known before the process wrote the entry of the push (see refEntry). Only lists with a higher number can
	// include the entry.
	listNumberBefore int
}

// A pushRecord has the refs that this program pushed since it wrote the list.
type pushRecord struct {
	mu               sync.Mutex
	refs             map[string]knownRef
	listedCount      int  // number of refs in the list that this program wrote last
	newestListNumber int  // highest number of a list that this program has read or written
	noSums           bool // the service reports no sums, so a list is of no use
	lastRef          *object.Ref
	lastPushedAt     time.Time // when lastRef was pushed
}

// md5Sum returns the MD5 of a value in hex.
func md5Sum(raw []byte) string {
	return fmt.Sprintf("%x", md5.Sum(raw)) //nolint:gosec // see the import
}

// encodeListing returns the compressed list of refs. l has objects and entries for the list. encodeListing adds the
// objects of refs that l lacks.
func encodeListing(l listing, refs map[string]knownRef) ([]byte, error) {
	objectIndex := map[backend.Object]int{}
	for n, o := range l.Objects {
		objectIndex[o] = n
	}

	for _, known := range refs {
		bare := *known.ref
		one := listedRef{Sum: known.sum, Ref: &bare, Encrypted: bare.Encrypted}

		for _, o := range bare.Objects {
			n, exists := objectIndex[o]
			if !exists {
				n = len(l.Objects)
				objectIndex[o] = n
				l.Objects = append(l.Objects, o)
			}

			one.Objects = append(one.Objects, n)
		}

		bare.Objects = nil
		l.Refs = append(l.Refs, one)
	}

	raw, err := json.Marshal(l)
	if err != nil || len(raw) > maxListingBytes {
		return nil, errors.Join(err, fmt.Errorf("a listing of %d bytes", len(raw)))
	}

	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer enc.Close()

	return enc.EncodeAll(raw, nil), nil
}

// decodeListing decodes a list. It returns the list, and its refs by name. It leaves out refs for which Ref.Check
// returns an error.
func decodeListing(raw []byte) (*listing, map[string]knownRef, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxListingBytes))
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

// readListing reads the list at a key. It returns the list, and its refs by name. Errors: backend.ErrNotFound; any
// other error if the list cannot be used. On a remote with recipients, a list that is not encrypted cannot be used.
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
func (v *refScan) writeListing(ctx context.Context) {
	l, key, o := listing{}, listingKey, backend.PutOptions{}
	if v.format.HasEntries {
		l.Objects, l.IncludedEntries = v.listedObjects, v.settledEntries
		key, o.IfAbsent = listKey(v.newestListNumber+1), true
	}

	raw, err := encodeListing(l, v.refs)
	if err != nil {
		return
	}

	raw, err = v.format.encrypt(raw)
	if err != nil || len(raw) > backend.MaxValueSize || v.r.b.Put(ctx, key, raw, o) != nil {
		return
	}

	v.r.pushed.mu.Lock()
	defer v.r.pushed.mu.Unlock()

	for name, pushed := range v.r.pushed.refs {
		if v.refs[name].sum == pushed.sum {
			delete(v.r.pushed.refs, name)
		}
	}

	v.r.pushed.listedCount = len(v.refs)
	if v.format.HasEntries {
		v.r.pushed.newestListNumber = max(v.r.pushed.newestListNumber, v.newestListNumber+1)
	}
}

// recordPushedRef records a ref that this program pushed, for the next list. listNumberBefore is as in knownRef.
func (r *Remote) recordPushedRef(ref *object.Ref, raw []byte, listNumberBefore int) {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()

	r.pushed.lastRef, r.pushed.lastPushedAt = ref, time.Now()
	if r.pushed.noSums {
		return
	}
	if r.pushed.refs == nil {
		r.pushed.refs = map[string]knownRef{}
	}

	r.pushed.refs[ref.Name] = knownRef{md5Sum(raw), ref, listNumberBefore}
}

// recentPush returns the ref that this program pushed last, if it has the name and was pushed less than maxMarkAge
// ago; otherwise nil.
func (r *Remote) recentPush(name string) *object.Ref {
	r.pushed.mu.Lock()
	defer r.pushed.mu.Unlock()
	if last := r.pushed.lastRef; last != nil && last.Name == name && !hasElapsed(r.pushed.lastPushedAt, maxMarkAge) {
		return last
	}
	return nil
}

// UpdateList writes a new list if this program pushed many refs since it wrote the last one. Errors: see
// Refs.
func (r *Remote) UpdateList(ctx context.Context) error {
	r.pushed.mu.Lock()
	due := len(r.pushed.refs) >= max(minNewRefs, r.pushed.listedCount/newRefsDivisor)
	r.pushed.mu.Unlock()
	if !due || r.b.IsRegistry() {
		return nil
	}

	return r.Refs(ctx, func(string, *object.Ref, error) error { return nil })
}
