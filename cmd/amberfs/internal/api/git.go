package api

import (
	"errors"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
)

// GitInfo is what a commit says of a snapshot.
func GitInfo(i snapshot.Info, parents []string) gitbridge.Info {
	return gitbridge.Info{Name: i.Name, ID: i.ID, Message: i.Message, Time: i.Created, Parents: parents}
}

// GitError gives the errors of gitbridge their kind.
func GitError(err error) error {
	for _, m := range []struct {
		is   error
		kind fail.Kind
	}{
		{gitbridge.ErrNotRepository, fail.NotFound},
		{gitbridge.ErrNoRevision, fail.NotFound},
		{gitbridge.ErrBadRef, fail.Usage},
		{gitbridge.ErrRefMoved, fail.Busy},
		{gitbridge.ErrUnsafe, fail.Failed},
		{gitbridge.ErrHostile, fail.Failed},
		{gitbridge.ErrTooBig, fail.Failed},
	} {
		if errors.Is(err, m.is) {
			return fail.New(m.kind, "%w", err)
		}
	}
	return err
}
