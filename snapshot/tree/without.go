package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// sealReadableEpoch is the epoch of the pages that SealReadable copies.
const sealReadableEpoch = math.MaxUint64

// SealReadable seals a copy of a frozen state in which files that cannot be sealed are empty. It returns the
// copy's id and, by inode number, the contents of the files that could not be sealed. It returns only errors
// whose cause is not a single file: a cancelled ctx, content.ErrTurnOver and a full disk.
func SealReadable(ctx context.Context, src *Source, sealer *content.Sealer, s *State) (id cas.Hash, unsealed map[uint64]*content.Content, err error) {
	unsealed = make(map[uint64]*content.Content)
	err = eachUnsealed(s.root, nil, func(n *Inode) error {
		if n.Content.SealedMap() != nil {
			return nil
		}
		err := guard.Do(func() error { _, err := sealer.Seal(ctx, n.Content); return err })
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, content.ErrTurnOver) || errs.KindOf(err) == errs.NoSpace:
			return err
		default:
			unsealed[n.Ino] = n.Content
		}

		return nil
	})
	if err != nil {
		return id, nil, fmt.Errorf("seal: %w", err)
	}

	copied := s.Clone()
	for ino := range unsealed {
		n, err := copied.Own(src, sealReadableEpoch, ino)
		if err != nil {
			return id, nil, fmt.Errorf("seal: %w", err)
		}
		n.Content = nil
	}

	id, err = Seal(ctx, src, sealer, copied)
	return id, unsealed, err
}

// PutContents encodes the contents of files, as SealReadable returns them, stores the encoding as several objects,
// and returns the hashes of these objects in order. State.FillContents reads them.
func PutContents(objects content.ObjectStore, contents map[uint64]*content.Content) ([]cas.Hash, error) {
	var e wire.Encoder
	for _, ino := range slices.Sorted(maps.Keys(contents)) {
		e.Uvarint(ino)
		contents[ino].Encode(&e)
	}

	hashes, err := putRecord(e.Bytes(), objects)
	return splitHashes(hashes), err
}

// FillContents sets the contents of files of a loaded state to the contents that PutContents encoded in objects.
// The contents belong to epoch, which must be over when the state is used.
func (s *State) FillContents(src *Source, epoch uint64, objects []cas.Hash) error {
	var hashes []byte
	for _, h := range objects {
		hashes = append(hashes, h[:]...)
	}

	rec, err := loadRecord(src, hashes)
	if err != nil {
		return err
	}

	for d := wire.NewDecoder(rec); d.Remaining() > 0; {
		ino := d.Uint(MaxIno)
		c, err := content.Decode(d, epoch)
		if err != nil {
			return fmt.Errorf("the content of inode %d: %w", ino, err)
		}

		n, err := s.Own(src, epoch, ino)
		if err != nil {
			return err
		}
		n.Content = c
	}

	return nil
}
