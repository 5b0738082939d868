package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// A Ref is what a remote says of a snapshot.
type Ref = object.Ref

// Find reads the ref of a snapshot that is called by its name or by its whole id.
// An id pins what is found, whatever becomes of the names. Errors:
// backend.ErrNotFound.
func (r *Remote) Find(ctx context.Context, name string) (*object.Ref, error) {
	if _, err := cas.ParseHash(name); err != nil {
		ref, _, err := r.Ref(ctx, name)
		return ref, err
	}
	var found *object.Ref
	err := r.Refs(ctx, func(_ string, ref *object.Ref, err error) error {
		if err == nil && ref.ID == name {
			found = ref
		}
		if errors.Is(err, backend.ErrAway) || errors.Is(err, errs.Perm) {
			return err
		}
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("a snapshot with the id %s: %w", name, backend.ErrNotFound)
	}
	return found, err
}
