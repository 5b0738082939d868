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

// PruneExports deletes what was exported to the store's own git repository except for these commits, and
// returns the deleted refs. No export runs meanwhile. With dryRun, it returns the refs that it would delete.
type PruneExports func(ctx context.Context, commits map[string]bool, dryRun bool) (refs []string, err error)

// EraseForgotten erases what an earlier daemon did not erase, if anything. prune may be nil.
func (s *Store) EraseForgotten(ctx context.Context, prune PruneExports) error {
	if !slices.ContainsFunc(s.forgotten(), func(f catalogue.Forgotten) bool { return !f.Erased }) {
		return nil
	}
	_, _, err := s.erase(ctx, prune)
	return err
}

// erase removes the exports and the bytes of all that was forgotten from the disk, and notes that this is
// done. It may be repeated after a kill. erased reports whether no bytes are left that a running program
// still uses.
func (s *Store) erase(ctx context.Context, prune PruneExports) (refs []string, erased bool, err error) {
	if prune != nil {
		if refs, err = prune(ctx, s.gitCommits(nil), false); err != nil {
			return nil, false, err
		}
	}

	erased, err = s.eraseBytes(ctx)
	return refs, erased, err
}

// gitCommits returns the commits that snapshots were exported as, without the snapshots whose trees are
// rewritten.
func (s *Store) gitCommits(rewritten map[string]*rewrittenTree) map[string]bool {
	all := make(map[string]bool)
	s.withReadLock(func(*live.Tx) {
		for _, sn := range s.cat.Snapshots.All() {
			if t := rewritten[sn.ID]; t != nil && t.state != nil {
				continue
			}
			for _, commit := range sn.GitCommits {
				all[commit] = true
			}
		}
	})

	return all
}

// eraseBytes is erase without the exports.
func (s *Store) eraseBytes(ctx context.Context) (erased bool, err error) {
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

// scanner returns a scanner for all that was forgotten, and the receipts.
func (s *Store) scanner() (*forget.Scanner, []forget.Receipt, error) {
	var prints []forget.Print
	receipts := []forget.Receipt{}
	for _, f := range s.forgotten() {
		r, err := s.receipt(f)
		if err != nil {
			return nil, nil, err
		}
		prints, receipts = append(prints, r.Prints...), append(receipts, r.Receipt)
	}

	return forget.NewScanner(prints), receipts, nil
}

// VerifyForgotten searches the whole store for all that was forgotten. Before that it has the bytes of
// present files sealed, so that it finds which files have them.
func (s *Store) VerifyForgotten(ctx context.Context) (*forget.Proof, error) {
	if !s.opt.ReadOnly {
		if _, err := s.restartJournal(ctx); err != nil {
			return nil, err
		}
	}

	scan, receipts, err := s.scanner()
	if err != nil || len(receipts) == 0 {
		return &forget.Proof{Receipts: receipts, Found: []string{}}, err
	}

	proof := &forget.Proof{Receipts: receipts, Found: []string{}}
	found := make(map[cas.Hash]bool)
	err = s.cas.Contents(ctx, func(at string, h cas.Hash, b []byte) error {
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

// ForgottenChunks returns the chunks of all that was forgotten.
func (s *Store) ForgottenChunks() (map[cas.Hash]bool, error) {
	chunks := make(map[cas.Hash]bool)
	for _, f := range s.forgotten() {
		r, err := s.receipt(f)
		if err != nil {
			return nil, err
		}
		for _, p := range r.Prints {
			chunks[p.Hash] = true
		}
	}

	return chunks, nil
}

// A RewrittenSnapshot names a snapshot whose tree was replaced by a Forget.
type RewrittenSnapshot struct {
	Workspace *Workspace
	Name      string
}

// RewrittenSnapshots returns the snapshots that were rewritten, by each id that they had before.
func (s *Store) RewrittenSnapshots() map[string]RewrittenSnapshot {
	all := make(map[string]RewrittenSnapshot)
	s.withReadLock(func(*live.Tx) {
		for _, w := range s.workspaces {
			for _, sn := range w.ws.Snapshots.All() {
				for _, id := range sn.Was {
					all[id] = RewrittenSnapshot{w, sn.Name}
				}
			}
		}
	})

	return all
}

// SearchForgotten returns a scanner for all that was forgotten.
func (s *Store) SearchForgotten() (*forget.Scanner, error) {
	scan, _, err := s.scanner()
	return scan, err
}
