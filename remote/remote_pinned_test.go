package remote

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
	"github.com/amberfs/amberfs/tests/must"
)

// TestOtherThanAskedFor: Find with the id of a snapshot returns a ref with this id, or an error. If the remote has
// other objects for this ref, a read of the snapshot fails.
func TestOtherThanAskedFor(t *testing.T) {
	w := newWorld()
	asked, other := w.tree(files(1, 5)), w.tree(files(2, 5))
	for what, lie := range map[string]func(asked, other object.Ref) object.Ref{
		"another snapshot under the name": func(asked, other object.Ref) object.Ref {
			other.Name = asked.Name
			return other
		},
		"the objects of another": func(asked, other object.Ref) object.Ref {
			asked.Objects, asked.Indexes = other.Objects, other.Indexes
			return asked
		},
		"the id, for another": func(asked, other object.Ref) object.Ref {
			other.Name, other.ID = asked.Name, asked.ID
			return other
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := newClocked()
			r := on(t, b, Options{})
			initRemote(t, r)
			one, err := r.Push(t.Context(), w.push("v1", asked, nil))
			must.OK(t, err)
			two, err := r.Push(t.Context(), w.push("v2", other, nil))
			must.OK(t, err)
			raw, err := new(lie(*one.Ref, *two.Ref)).Encode()
			must.OK(t, err)
			must.OK(t, b.Put(t.Context(), "ref/v1", raw, backend.PutOptions{}))

			r = on(t, b, Options{})
			ref, err := r.Find(t.Context(), asked.String())
			if errors.Is(err, backend.ErrNotFound) {
				return
			}
			must.OK(t, err)
			if ref.StateHash() != asked {
				t.Fatalf("it is %s, not %s", ref.StateHash(), asked)
			}
			s := r.Snapshot(ref)
			get := func(h cas.Hash) ([]byte, error) { return s.Get(context.Background(), h, nil) }
			var read []cas.Hash
			err = walk(t.Context(), asked, get, func(h cas.Hash) bool { read = append(read, h); return true })
			if err == nil || slices.Contains(read, other) {
				t.Errorf("%d objects were read: %v", len(read), err)
			}
		})
	}
}
