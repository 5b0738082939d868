package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// erase removes the bytes of all that was forgotten from the disk, and notes that this is done. It may be
// repeated after a kill. erased reports whether no bytes are left that a running program still uses.
func (s *Store) erase(ctx context.Context) (erased bool, err error) {
	begin, err := s.restartJournal(ctx)
	if err != nil {
		return false, err
	}
	if _, err := s.gc.Wipe(ctx); err != nil {
		return false, err
	}

	if s.log.First() < begin { // bytes that are not sealed are in it
		return false, nil
	}

	for _, f := range s.forgotten() {
		if f.Erased {
			continue
		}
		stored, err := s.receipt(f)
		if err != nil {
			return false, err
		}

		gone, err := s.isGone(ctx, stored.Prints)
		if err != nil || !gone {
			return false, err
		}

		f.Erased = true
		if err := s.forest.Update(true, func(tx *live.Tx) error {
			return s.commit(tx, &catalogue.Forget{Forgotten: f}, actors.Caller{})
		}); err != nil {
			return false, err
		}
	}

	return true, nil
}

// restartJournal makes a checkpoint after which the journal begins at the returned position, unless bytes
// before it are needed.
func (s *Store) restartJournal(ctx context.Context) (begin int64, err error) {
	if begin, err = s.log.Roll(); err != nil {
		return 0, err
	}
	return begin, s.Checkpoint(ctx)
}

// eraseLater erases what an earlier daemon did not erase.
func (s *Store) eraseLater() {
	if slices.ContainsFunc(s.forgotten(), func(f catalogue.Forgotten) bool { return !f.Erased }) {
		s.loops.Go("erasing what was forgotten", func() {
			if _, err := s.erase(s.loops.Context); err != nil && s.loops.Context.Err() == nil {
				s.logger.Warn("erasing what was forgotten", "err", err)
			}
		})
	}
}

func (s *Store) forgotten() (all []catalogue.Forgotten) {
	s.withReadLock(func(*live.Tx) { all = slices.Clone(s.cat.Forgotten) })
	return all
}

// receipt reads the receipt of what was forgotten.
func (s *Store) receipt(f catalogue.Forgotten) (r forget.Stored, err error) {
	b, err := s.objects.Get(f.Receipt, nil)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	r.Number, r.Erased = f.Number, f.Erased
	return r, err
}

// isGone reports whether the store has no chunk of the prints that no file uses.
func (s *Store) isGone(ctx context.Context, prints []forget.Print) (bool, error) {
	left := make(map[cas.Hash]bool)
	for _, p := range prints {
		has, err := s.cas.Has(p.Hash)
		if err != nil {
			return false, err
		}
		if has {
			left[p.Hash] = true
		}
	}
	if len(left) == 0 {
		return true, nil
	}

	used, err := s.uses(ctx, left, new([]forget.Place), asItIs)
	return len(used) == len(left), err
}

// VerifyForgotten searches the whole store for all that was forgotten. Before that it has the bytes of
// present files sealed, so that it finds which files have them.
func (s *Store) VerifyForgotten(ctx context.Context) (*forget.Proof, error) {
	if !s.opt.ReadOnly {
		if _, err := s.restartJournal(ctx); err != nil {
			return nil, err
		}
	}

	proof := &forget.Proof{Receipts: []forget.Receipt{}, Found: []string{}}
	var prints []forget.Print
	for _, f := range s.forgotten() {
		r, err := s.receipt(f)
		if err != nil {
			return nil, err
		}
		prints = append(prints, r.Prints...)
		proof.Receipts = append(proof.Receipts, r.Receipt)
	}

	scan := forget.NewScanner(prints)
	found := make(map[cas.Hash]bool)
	err := s.cas.Contents(ctx, func(at string, h cas.Hash, b []byte) error {
		proof.Objects, proof.Bytes = proof.Objects+1, proof.Bytes+int64(len(b))
		switch {
		case h.IsZero():
			proof.Found = append(proof.Found, at+": free space that is not overwritten")
		case scan.Object(h), scan.In(b):
			found[h] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	used, err := s.uses(ctx, found, &proof.Kept, asItIs)
	if err != nil {
		return nil, err
	}
	for h := range found {
		if !used[h] {
			proof.Found = append(proof.Found, "object "+h.String())
		}
	}

	slices.Sort(proof.Found)
	return proof, s.scanFiles(ctx, scan, proof)
}

// scanFiles searches the files of the store other than packs.
func (s *Store) scanFiles(ctx context.Context, scan *forget.Scanner, proof *forget.Proof) error {
	if err := s.cas.ScanMeta("", func(key string, value []byte) error {
		if scan.In(value) {
			proof.Found = append(proof.Found, "catalogue record "+key)
		}
		return ctx.Err()
	}); err != nil {
		return err
	}

	for _, dir := range []string{"journal", "index", "quarantine", "events"} {
		files, err := s.opt.FS.ReadDir(filepath.Join(s.dir, dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}

		for _, i := range files {
			name := filepath.Join(dir, i.Name)
			f, err := vfs.Open(s.opt.FS, filepath.Join(s.dir, name))
			if errors.Is(err, fs.ErrNotExist) || i.Dir {
				continue // removed meanwhile
			}
			if err != nil {
				return err
			}

			has, err := scan.InFile(ctx, f, i.Size)
			err = errors.Join(err, f.Close())
			if err != nil {
				return err
			}
			if proof.Bytes += i.Size; has {
				proof.Found = append(proof.Found, name)
			}
		}
	}

	return nil
}

func asItIs(namedTree) *tree.State { return nil }
