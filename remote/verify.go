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

type Verified struct {
	Snapshots int   `json:"snapshots"`
	Objects   int   `json:"objects"`
	Bytes     int64 `json:"bytes"`
	Damaged   int   `json:"damaged"` // snapshots
}

// Verify checks that all objects that snapshots name are there and as long as they should
// be; deep reads every byte. bad is called for each damaged snapshot, one call at a time,
// and progress with the bytes of the objects that were checked.
func (r *Remote) Verify(ctx context.Context, deep bool, bad func(snapshot string, err error), progress func(done, total int64)) (sum Verified, err error) {
	report := func(name string, err error) error {
		if isDamage(err) {
			sum.Damaged++
			bad(name, err)
			return nil
		}
		return err
	}
	objects := map[backend.Object]error{}
	var refs []*object.Ref
	err = r.refs(ctx, true, func(name string, ref *object.Ref, err error) error {
		sum.Snapshots++
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
		return sum, err
	}
	if err := r.verifyObjects(ctx, objects, deep, progress); err != nil {
		return sum, err
	}
	for o := range objects {
		sum.Objects++
		sum.Bytes += o.Size
	}
	for _, ref := range refs {
		if err := report(ref.Name, r.verifySnapshot(ctx, ref, objects)); err != nil {
			return sum, fmt.Errorf("snapshot %s: %w", ref.Name, err)
		}
	}
	return sum, nil
}

func (r *Remote) verifyObjects(ctx context.Context, objects map[backend.Object]error, deep bool, progress func(done, total int64)) error {
	m := meter{report: progress}
	all := slices.Collect(maps.Keys(objects))
	for _, o := range all {
		m.total += o.Size
	}
	var mu sync.Mutex
	return each(ctx, all, func(ctx context.Context, o backend.Object) error {
		err := r.verifyObject(ctx, o, deep)
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

func (r *Remote) verifySnapshot(ctx context.Context, ref *object.Ref, objects map[backend.Object]error) error {
	for _, o := range ref.Objects {
		if err := objects[o]; err != nil {
			return err
		}
	}
	_, err := r.Snapshot(ref).Load(ctx)
	return err
}

// isDamage reports whether an error proves that something is missing or damaged on the remote.
// Other errors can come from this machine or the network.
func isDamage(err error) bool {
	return errors.Is(err, errs.Damaged) || errors.Is(err, object.ErrMalformed) ||
		errors.Is(err, object.ErrNewer) || errors.Is(err, object.ErrOlder)
}

// IsUnsound reports whether something on the remote is not as a push leaves it.
func IsUnsound(err error) bool {
	return errors.Is(err, object.ErrMalformed) || errors.Is(err, ErrIncomplete) || errors.Is(err, vfs.ErrNotRegular)
}

func (r *Remote) verifyObject(ctx context.Context, o backend.Object, deep bool) error {
	info, err := r.b.Stat(ctx, o.Key())
	if err != nil {
		return missing(err)
	}
	if info.Size != o.Size {
		return fmt.Errorf("object %s has %d bytes, not %d: %w", o.Name, info.Size, o.Size, cas.ErrDamaged)
	}
	if !deep {
		return nil
	}
	data, err := r.b.GetRange(ctx, o.Key(), 0, o.Size)
	if err == nil && backend.Named(data) != o {
		err = fmt.Errorf("object %s does not have the bytes of its name: %w", o.Name, cas.ErrDamaged)
	}
	return err
}

// A meter adds up what several goroutines have done.
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
