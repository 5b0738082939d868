package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

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

// Verify looks whether all objects that snapshots name are there and as long as
// they should be; deep reads every byte. bad is told, one call at a time, what is
// wrong with which snapshot, and progress of the bytes of objects that were looked at.
func (r *Remote) Verify(ctx context.Context, deep bool, bad func(snapshot string, err error), progress func(done, total int64)) (Verified, error) {
	v := &verification{r: r, deep: deep, known: map[string]error{}, meter: meter{report: progress}}
	all := map[backend.Object]bool{}
	var refs []*object.Ref
	err := r.Refs(ctx, func(name string, ref *object.Ref, err error) error {
		v.sum.Snapshots++
		if err != nil {
			if !isDamage(err) {
				return err
			}
			v.sum.Damaged++
			bad(name, err)
			return nil
		}
		ref.Name = name
		refs = append(refs, ref)
		for _, o := range ref.Objects {
			if !all[o] {
				all[o] = true
				v.meter.total += o.Size
			}
		}
		return nil
	})
	if err != nil {
		return v.sum, err
	}
	for _, ref := range refs {
		if err := v.snapshot(ctx, ref); isDamage(err) {
			v.sum.Damaged++
			bad(ref.Name, err)
		} else if err != nil {
			return v.sum, fmt.Errorf("snapshot %s: %w", ref.Name, err)
		}
	}
	return v.sum, nil
}

// isDamage reports whether an error proves that the remote does not have what it should.
// Any other error proves nothing: it may be of this machine, or of the way to the remote.
func isDamage(err error) bool {
	return errors.Is(err, errs.Damaged) || errors.Is(err, object.ErrMalformed) || errors.Is(err, object.ErrNewer)
}

// IsUnsound reports whether an error is of something on the remote that is not as a push
// leaves it.
func IsUnsound(err error) bool {
	return errors.Is(err, object.ErrMalformed) || errors.Is(err, ErrIncomplete) || errors.Is(err, vfs.ErrNotRegular)
}

type verification struct {
	r     *Remote
	deep  bool
	meter meter

	mu    sync.Mutex
	known map[string]error // objects that were looked at
	sum   Verified
}

func (v *verification) snapshot(ctx context.Context, ref *object.Ref) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, o := range ref.Objects {
		g.Go(func() error { return v.object(gctx, o) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	err := v.read(ctx, ref)
	if isDamage(err) { // what is cached of it may be
		for _, o := range ref.Objects {
			v.r.drop(o, ref.Encrypted, 0, o.Size)
		}
		err = v.read(ctx, ref)
	}
	return err
}

// read reads the indexes of a snapshot and, if deep, every record.
func (v *verification) read(ctx context.Context, ref *object.Ref) error {
	s := v.r.Snapshot(ref)
	if _, err := s.Load(ctx); err != nil || !v.deep {
		return err
	}
	return s.check(ctx)
}

// object looks at an object once, whatever names it.
func (v *verification) object(ctx context.Context, o backend.Object) error {
	v.mu.Lock()
	err, ok := v.known[o.Name]
	v.mu.Unlock()
	if ok {
		return err
	}
	err = v.look(ctx, o)
	if err != nil && !isDamage(err) {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.known[o.Name]; !ok {
		v.known[o.Name] = err
		v.sum.Objects++
		v.sum.Bytes += o.Size
		v.meter.add(o.Size)
	}
	return err
}

func (v *verification) look(ctx context.Context, o backend.Object) error {
	info, err := v.r.b.Stat(ctx, o.Key())
	if err != nil {
		return missing(err)
	}
	if info.Size != o.Size {
		return fmt.Errorf("object %s has %d bytes, not %d: %w", o.Name, info.Size, o.Size, cas.ErrDamaged)
	}
	if !v.deep {
		return nil
	}
	data, err := v.r.b.GetRange(ctx, o.Key(), 0, o.Size)
	if err == nil && backend.Named(data) != o {
		err = fmt.Errorf("object %s does not have the bytes of its name: %w", o.Name, cas.ErrDamaged)
	}
	return err
}

func (s *Snapshot) check(ctx context.Context) error {
	x, err := s.Load(ctx)
	if err != nil {
		return err
	}
	for _, kind := range []cas.Kind{cas.KindTree, cas.KindData} {
		for _, e := range x.Entries(kind) {
			b, err := s.r.read(ctx, s.Ref.Objects[e.Object], s.Ref.Encrypted, int64(e.Offset), int64(e.Stored), aheadMost)
			if err != nil {
				return missing(err)
			}
			h, err := s.r.expand.Hash(cas.Stored{Kind: e.Kind, Flags: e.Flags, Plain: int(e.Plain), Bytes: b})
			if err != nil || !bytes.Equal(h[:len(e.Prefix)], e.Prefix[:]) {
				return fmt.Errorf("a record of object %s at %d: %w", s.Ref.Objects[e.Object].Name, e.Offset, cas.ErrDamaged)
			}
		}
	}
	return nil
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
