package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// A refScan reads all refs of a remote once.
type refScan struct {
	r           *Remote
	format      *Format
	refs        map[string]knownRef
	readErrors  map[string]error  // errors of refs that cannot be read, by name
	changeCount int               // number of refs and entries that the list lacks
	sums        map[string]string // sums of the refs as the service reports them, by name; nil if it was not asked for them
	sumsMatch   bool              // at least one of these sums is the MD5 of a value that was read

	gcKeys           []backend.Info   // the keys below gc/, if the remote has entries or a collection asked for them
	entries          []refEntry       // all entries of the remote
	newestListNumber int              // number of the newest list, 0 if there is no list
	listedObjects    []backend.Object // objects in the list
	settledEntries   []string         // keys of the entries that the next list includes
	listedEntries    []string         // keys of the entries that the list includes
}

// Refs calls fn for the ref of every snapshot, one at a time, until fn returns an error, which Refs
// returns. For a ref that cannot be read, fn gets a nil ref and the error. Other errors: the errors
// of Format and of package backend.
func (r *Remote) Refs(ctx context.Context, fn func(name string, ref *object.Ref, err error) error) error {
	return r.readRefs(ctx, false, fn)
}

// readRefs does the work of Refs. askService is as in scanRefs.
func (r *Remote) readRefs(ctx context.Context, askService bool, fn func(name string, ref *object.Ref, err error) error) error {
	v, err := r.scanRefs(ctx, askService)
	if err != nil {
		return err
	}
	if v.listingDue() {
		v.writeListing(ctx)
	}

	return v.forEach(fn)
}

// forEach calls fn for each ref of the scan, as Remote.Refs does.
func (v *refScan) forEach(fn func(name string, ref *object.Ref, err error) error) error {
	for name, err := range v.readErrors {
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

// scanRefs reads all refs. If askService is set, or if the remote has no entries, it asks the service for their keys
// and sums. Otherwise it takes their names from the list and the entries, which takes fewer requests.
func (r *Remote) scanRefs(ctx context.Context, askService bool) (*refScan, error) {
	for {
		v, err := r.beginScan(ctx, false)
		if err != nil {
			return nil, err
		}
		if err = v.endScan(ctx, askService); !errors.Is(err, errListReplaced) {
			return v, err
		}
	}
}

// beginScan reads the entries, and then the numbers of the lists. If withGCKeys is set, it reads all keys below gc/,
// also on a remote without entries.
func (r *Remote) beginScan(ctx context.Context, withGCKeys bool) (*refScan, error) {
	v := &refScan{r: r, format: &Format{}, refs: map[string]knownRef{}, readErrors: map[string]error{}}
	if r.b.IsRegistry() {
		return v, nil
	}

	f, err := r.Format(ctx)
	switch {
	case err == nil:
		v.format = f
	case !withGCKeys || !errors.Is(err, ErrNoRemote):
		return nil, err
	}

	// The entries must be read before the lists: see entries.go.
	if v.format.HasEntries {
		if v.entries, err = r.readEntries(ctx); err != nil {
			return nil, err
		}
	}

	if v.format.HasEntries || withGCKeys {
		err := r.b.List(ctx, "gc/", func(i backend.Info) error { v.gcKeys = append(v.gcKeys, i); return nil })
		if err != nil {
			return nil, err
		}
	}

	for _, i := range v.gcKeys {
		v.newestListNumber = max(v.newestListNumber, listNumber(i.Key))
	}

	return v, nil
}

// endScan reads the refs that are neither in the list nor pushed by this program. askService is as in scanRefs. It
// returns errListReplaced if the caller must begin the scan again.
func (v *refScan) endScan(ctx context.Context, askService bool) error {
	unread, err := v.unreadRefs(ctx, askService)
	if err != nil {
		return err
	}

	var mu sync.Mutex
	err = backend.ForEach(ctx, unread, func(ctx context.Context, name string) error {
		ref, raw, err := v.r.readRef(ctx, name)
		mu.Lock()
		defer mu.Unlock()

		delete(v.refs, name)

		switch {
		case err == nil:
			sum := md5Sum(raw)
			v.refs[name] = knownRef{sum: sum, ref: ref}
			if matches := v.sums[name] == sum; matches || v.format.HasEntries {
				v.sumsMatch = v.sumsMatch || matches
				v.changeCount++
			}

		case errors.Is(err, backend.ErrAway) || errors.Is(err, errs.Perm) || ctx.Err() != nil:
			return err
		// If the ref is not found, it was removed during the scan. That is no error.
		case !errors.Is(err, backend.ErrNotFound):
			v.readErrors[name] = err
		}

		return nil
	})
	if err != nil {
		return err
	}

	if v.format.HasEntries {
		v.settleEntries(ctx)
	}

	v.r.pushed.mu.Lock()
	defer v.r.pushed.mu.Unlock()

	if len(v.refs) > v.r.maxUnlisted && !v.sumsMatch && !v.format.HasEntries {
		v.r.pushed.noSums, v.r.pushed.refs = true, nil
	}

	return nil
}

// unreadRefs sets v.refs to the refs that it takes from the list and from pushes of this program. It returns the
// names of the refs that the caller must read.
func (v *refScan) unreadRefs(ctx context.Context, askService bool) ([]string, error) {
	if !v.format.HasEntries {
		return v.compareSums(ctx)
	}
	usable, err := v.readNewestList(ctx)
	if err != nil {
		return nil, err
	}
	if usable && !askService {
		return v.takePushedRefs(), nil
	}

	return v.compareSums(ctx)
}

// compareSums asks the service for the names and sums of all refs. If the list, or a push of this program, has a ref
// with the same name and sum, compareSums puts that ref into v.refs. It returns the names of all other refs.
func (v *refScan) compareSums(ctx context.Context) (unread []string, err error) {
	var infos []backend.Info
	if err := v.r.b.List(ctx, "ref/", func(i backend.Info) error { infos = append(infos, i); return nil }); err != nil {
		return nil, err
	}

	known := v.refs
	v.refs, v.sums = map[string]knownRef{}, map[string]string{}
	if !v.format.HasEntries && len(infos) > v.r.maxUnlisted && !v.r.b.IsRegistry() {
		if _, refs, err := v.r.readListing(ctx, listingKey); err == nil {
			known = refs
		}
	}

	v.r.pushed.mu.Lock()
	defer v.r.pushed.mu.Unlock()

	for _, i := range infos {
		name := strings.TrimPrefix(i.Key, "ref/")
		v.sums[name] = i.MD5
		ref, ok := known[name]
		if own, pushed := v.r.pushed.refs[name]; pushed && own.sum == i.MD5 {
			ref, ok = own, true
		}

		if ok && i.MD5 != "" && i.MD5 == ref.sum {
			v.refs[name], v.sumsMatch = ref, true
		} else {
			unread = append(unread, name)
		}
	}

	return unread, nil
}

// listingDue reports whether a scan found so many changes that the list should be written again.
func (v *refScan) listingDue() bool {
	v.r.pushed.mu.Lock()
	defer v.r.pushed.mu.Unlock()
	return len(v.readErrors) == 0 && (v.changeCount > v.r.maxUnlisted || len(v.r.pushed.refs) > v.r.maxUnlisted)
}

// readRef does the work of Ref. It also returns the stored value that it has decoded.
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
	// The name in the value is kept only if it is the requested name in the same or in another case: a disk that
	// ignores case returns the ref of the other spelling. Any other name in the value is wrong.
	if !strings.EqualFold(ref.Name, name) {
		ref.Name = name
	}

	return ref, raw, nil
}
