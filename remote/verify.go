package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// A VerifyResult is the result of Verify.
type VerifyResult struct {
	Snapshots int   `json:"snapshots"`
	Objects   int   `json:"objects"`
	Bytes     int64 `json:"bytes"`   // size of the objects
	Damaged   int   `json:"damaged"` // damaged snapshots
}

// Verify checks that the remote has all objects that refs name, with the right lengths. If deep is set, it also reads
// the objects and checks every byte. It calls reportDamage for each damaged snapshot. It passes the number of bytes
// of the checked objects, and of all objects, to the function progress. It calls each of the two functions from one
// goroutine at a time.
func (r *Remote) Verify(ctx context.Context, deep bool, reportDamage func(snapshot string, err error), progress func(done, total int64)) (result VerifyResult, err error) {
	report := func(name string, err error) error {
		if isDamage(err) {
			result.Damaged++
			reportDamage(name, err)
			return nil
		}
		return err
	}

	objects := map[backend.Object]error{} // why an object is damaged, or nil
	var refs []*object.Ref
	err = r.readRefs(ctx, true, func(name string, ref *object.Ref, err error) error {
		result.Snapshots++
		if err != nil {
			return report(name, err)
		}

		ref.Name = name
		refs = append(refs, ref)
		for _, o := range ref.Objects {
			objects[o] = nil
		}

		return nil
	})
	if err != nil {
		return result, err
	}

	if err := verifyObjects(ctx, r, objects, deep, progress); err != nil {
		return result, err
	}

	for o := range objects {
		result.Objects++
		result.Bytes += o.Size
	}

	for _, ref := range refs {
		if err := report(ref.Name, verifySnapshot(ctx, r, ref, objects)); err != nil {
			return result, fmt.Errorf("snapshot %s: %w", ref.Name, err)
		}
	}

	return result, nil
}

// verifyObjects checks the objects, which are keys of the map. As the value of a damaged object it sets the error.
func verifyObjects(ctx context.Context, r *Remote, objects map[backend.Object]error, deep bool, progress func(done, total int64)) error {
	m := meter{report: progress}
	all := slices.Collect(maps.Keys(objects))
	for _, o := range all {
		m.total += o.Size
	}

	var mu sync.Mutex
	return backend.ForEach(ctx, all, func(ctx context.Context, o backend.Object) error {
		err := verifyObject(ctx, r, o, deep)
		if err != nil && !isDamage(err) {
			return err
		}

		m.add(o.Size)
		mu.Lock()
		defer mu.Unlock()

		objects[o] = err

		return nil
	})
}

// verifySnapshot checks the objects and the indexes of a snapshot.
func verifySnapshot(ctx context.Context, r *Remote, ref *object.Ref, objects map[backend.Object]error) error {
	for _, o := range ref.Objects {
		if err := objects[o]; err != nil {
			return err
		}
	}

	_, err := r.Snapshot(ref).LoadIndex(ctx)
	return err
}

// isDamage reports whether an error means that a value on the remote is missing, damaged, or of another version.
// Other errors may come from this machine or the network, and prove no damage.
func isDamage(err error) bool {
	return errors.Is(err, errs.Damaged) || errors.Is(err, object.ErrMalformed) ||
		errors.Is(err, object.ErrNewer) || errors.Is(err, object.ErrOlder)
}

// IsUnsound reports whether an error proves that a value on the remote was damaged, removed or forged.
func IsUnsound(err error) bool {
	return errors.Is(err, object.ErrMalformed) || errors.Is(err, ErrIncomplete) || errors.Is(err, vfs.ErrNotRegular)
}

// verifyObject checks one object.
func verifyObject(ctx context.Context, r *Remote, o backend.Object, deep bool) error {
	info, err := r.b.Stat(ctx, o.Key())
	if err != nil {
		return asIncomplete(err)
	}
	if info.Size != o.Size {
		return fmt.Errorf("object %s has %d bytes, not %d: %w", o.Name, info.Size, o.Size, cas.ErrDamaged)
	}
	if !deep {
		return nil
	}

	data, err := r.b.GetRange(ctx, o.Key(), 0, o.Size)
	if err != nil {
		return err
	}
	if backend.ObjectOf(data) != o {
		return fmt.Errorf("object %s does not have the bytes of its name: %w", o.Name, cas.ErrDamaged)
	}

	return nil
}

// A meter adds up the progress of several goroutines, and reports the sum.
type meter struct {
	report func(done, total int64)
	total  int64

	mu   sync.Mutex
	done int64
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	if m.report != nil {
		m.report(m.done, m.total)
	}
}
