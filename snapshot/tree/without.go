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

// epochWithout is the epoch of the pages that SealWithout copies.
const epochWithout = math.MaxUint64

// SealWithout seals a copy of a frozen state in which files that cannot be sealed are empty. It
// returns the copy's id, and the contents of these files by inode number. Errors that concern no
// single file are returned: a cancelled ctx, content.ErrTurnOver and a full disk.
func SealWithout(ctx context.Context, src *Source, z *content.Sealer, s *State) (id cas.Hash, left map[uint64]*content.Content, err error) {
	left = make(map[uint64]*content.Content)
	err = eachUnsealed(s.root, nil, func(n *Inode) error {
		if n.Content.SealedMap() != nil {
			return nil
		}
		err := guard.Do(func() error { _, err := z.Seal(ctx, n.Content); return err })
		switch {
		case err == nil:
		case ctx.Err() != nil || errors.Is(err, content.ErrTurnOver) || errs.KindOf(err) == errs.NoSpace:
			return err
		default:
			left[n.Ino] = n.Content
		}

		return nil
	})
	if err != nil {
		return id, nil, fmt.Errorf("seal: %w", err)
	}

	rest := s.Clone()
	for ino := range left {
		n, err := rest.Own(src, epochWithout, ino)
		if err != nil {
			return id, nil, fmt.Errorf("seal: %w", err)
		}
		n.Content = nil
	}

	id, err = Seal(ctx, src, z, rest)
	return id, left, err
}

// PutContents encodes the contents by inode number that SealWithout left out, stores the encoding in objects, and
// returns the hashes of these objects in order. State.Fill reads them.
func PutContents(objects content.ObjectStore, contents map[uint64]*content.Content) ([]cas.Hash, error) {
	var e wire.Encoder
	for _, ino := range slices.Sorted(maps.Keys(contents)) {
		e.Uvarint(ino)
		contents[ino].Encode(&e)
	}

	hashes, err := putRecord(e.Bytes(), objects)
	return splitHashes(hashes), err
}

// Fill sets the contents of files of a loaded state to the contents that PutContents encoded in objects. The
// contents belong to epoch, which must be over when the state is used.
func (s *State) Fill(src *Source, epoch uint64, objects []cas.Hash) error {
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
