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
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// PruneExports deletes the exports in the store's own git repository except for the given commits, and returns
// the deleted refs. It blocks exports while it runs. With dryRun, it returns the refs that it would delete.
type PruneExports func(ctx context.Context, commits map[string]bool, dryRun bool) (refs []string, err error)

// ForgottenContents has the operations on contents that users have forgotten.
type ForgottenContents struct {
	parts      *engine.Parts
	ckpt       *engine.Checkpointer
	gc         *engine.Collector
	workspaces *workspaceTable
	readOnly   bool
	commit     func(catalogue.Record) error
}

// ForgottenContents returns the operations on forgotten contents.
func (s *Store) ForgottenContents() ForgottenContents {
	return ForgottenContents{&s.parts, s.ckpt, &s.gc, &s.workspaces, s.opt.ReadOnly, func(r catalogue.Record) error {
		return s.commitNewRecord(actors.Caller{}, func(*live.Tx) (catalogue.Record, error) { return r, nil })
	}}
}

// CompleteErasure completes the erasure that an earlier daemon began and did not complete, if there is one. prune
// may be nil.
func (f ForgottenContents) CompleteErasure(ctx context.Context, prune PruneExports) error {
	if !slices.ContainsFunc(f.records(), func(f catalogue.ForgottenEntry) bool { return !f.Erased }) {
		return nil
	}
	_, _, err := f.erase(ctx, prune)
	return err
}

// erase removes the exports and the bytes of all forgotten contents from the disk, and records that they are
// erased. If the daemon was killed during erase, the next daemon repeats it. erased is false if files of running
// programs still use some of the bytes.
func (f ForgottenContents) erase(ctx context.Context, prune PruneExports) (refs []string, erased bool, err error) {
	if prune != nil {
		if refs, err = prune(ctx, f.gitCommits(nil), false); err != nil {
			return nil, false, err
		}
	}

	erased, err = f.eraseBytes(ctx)
	return refs, erased, err
}

// gitCommits returns the commits to which snapshots were exported, except for snapshots whose trees are
// rewritten.
func (f ForgottenContents) gitCommits(rewritten map[string]*rewrittenTree) map[string]bool {
	all := make(map[string]bool)
	f.parts.Forest.WithReadLock(func(*live.Tx) {
		for _, sn := range f.parts.Catalogue.Snapshots.Loaded() { // these include all that have git commits
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

// eraseBytes does the work of erase, except for the exports.
func (f ForgottenContents) eraseBytes(ctx context.Context) (erased bool, err error) {
	begin, err := f.restartJournal(ctx)
	if err != nil {
		return false, err
	}
	if _, err := f.gc.Wipe(ctx); err != nil {
		return false, err
	}

	if f.parts.Log.FirstPos() < begin { // the journal still has bytes that are not sealed
		return false, nil
	}

	for _, record := range f.records() {
		if record.Erased {
			continue
		}
		stored, err := f.readReceipt(record)
		if err != nil {
			return false, err
		}

		gone, err := f.isGone(ctx, stored.Fingerprints)
		if err != nil || !gone {
			return false, err
		}

		record.Erased = true
		if err := f.commit(&catalogue.Forget{Forgotten: record}); err != nil {
			return false, err
		}
	}

	return true, nil
}

// restartJournal makes a checkpoint that deletes the journal before the returned position, unless unsealed files
// need bytes before it.
func (f ForgottenContents) restartJournal(ctx context.Context) (begin int64, err error) {
	if begin, err = f.parts.Log.Roll(); err != nil {
		return 0, err
	}
	return begin, f.ckpt.Checkpoint(ctx)
}

func (f ForgottenContents) records() (all []catalogue.ForgottenEntry) {
	f.parts.Forest.WithReadLock(func(*live.Tx) { all = slices.Clone(f.parts.Catalogue.Forgotten) })
	return all
}

// readReceipt reads the receipt of a forget.
func (f ForgottenContents) readReceipt(record catalogue.ForgottenEntry) (r forget.StoredReceipt, err error) {
	b, err := f.parts.Objects.Get(record.Receipt, nil)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	r.Number, r.Erased = record.Number, record.Erased
	return r, err
}

// isGone reports whether the store has no chunk with one of the given fingerprints, except chunks that files still
// use.
func (f ForgottenContents) isGone(ctx context.Context, prints []forget.Fingerprint) (bool, error) {
	stored := make(map[cas.Hash]bool)
	for _, p := range prints {
		has, err := f.parts.CAS.Has(p.Hash)
		if err != nil {
			return false, err
		}
		if has {
			stored[p.Hash] = true
		}
	}
	if len(stored) == 0 {
		return true, nil
	}

	used, err := f.usedChunks(ctx, stored, new([]forget.Place), noRewrittenTree)
	return len(used) == len(stored), err
}

// Scanner returns a scanner for all forgotten contents, and the receipts.
func (f ForgottenContents) Scanner() (*forget.Scanner, []forget.Receipt, error) {
	var prints []forget.Fingerprint
	receipts := []forget.Receipt{}
	for _, record := range f.records() {
		r, err := f.readReceipt(record)
		if err != nil {
			return nil, nil, err
		}
		prints, receipts = append(prints, r.Fingerprints...), append(receipts, r.Receipt)
	}

	return forget.NewScanner(prints), receipts, nil
}

// Verify searches the whole store for all forgotten contents. Before the search it seals the bytes of present
// files, so that it finds the files that have forgotten bytes.
func (f ForgottenContents) Verify(ctx context.Context) (*forget.Proof, error) {
	if !f.readOnly {
		if _, err := f.restartJournal(ctx); err != nil {
			return nil, err
		}
	}

	scan, receipts, err := f.Scanner()
	if err != nil || len(receipts) == 0 {
		return &forget.Proof{Receipts: receipts, Found: []string{}}, err
	}

	proof := &forget.Proof{Receipts: receipts, Found: []string{}}
	found := make(map[cas.Hash]bool)
	err = f.parts.CAS.EachRecord(ctx, func(at string, h cas.Hash, b []byte) error {
		proof.Objects, proof.Bytes = proof.Objects+1, proof.Bytes+int64(len(b))
		switch {
		case h.IsZero():
			proof.Found = append(proof.Found, at+": free space that is not overwritten")
		case scan.IsForgotten(h), scan.Contains(b):
			found[h] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	used, err := f.usedChunks(ctx, found, &proof.Kept, noRewrittenTree)
	if err != nil {
		return nil, err
	}
	for h := range found {
		if !used[h] {
			proof.Found = append(proof.Found, "object "+h.String())
		}
	}

	slices.Sort(proof.Found)
	return proof, f.scanFiles(ctx, scan, proof)
}

// scanFiles searches the files of the store that are not packs.
func (f ForgottenContents) scanFiles(ctx context.Context, scan *forget.Scanner, proof *forget.Proof) error {
	if err := f.parts.CAS.ScanMeta("", func(key string, value []byte) error {
		if scan.Contains(value) {
			proof.Found = append(proof.Found, "catalogue record "+key)
		}
		return ctx.Err()
	}); err != nil {
		return err
	}

	for _, dir := range []string{"journal", "index", "quarantine", "events"} {
		files, err := f.parts.FS.ReadDir(filepath.Join(f.parts.Dir, dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}

		for _, i := range files {
			name := filepath.Join(dir, i.Name)
			file, err := vfs.Open(f.parts.FS, filepath.Join(f.parts.Dir, name))
			if errors.Is(err, fs.ErrNotExist) || i.IsDir {
				continue // the file was removed during the search
			}
			if err != nil {
				return err
			}

			has, err := scan.FileContains(ctx, file, i.Size)
			err = errors.Join(err, file.Close())
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

// noRewrittenTree is the argument of usedChunks for callers that replace no tree.
func noRewrittenTree(namedTree) *tree.State { return nil }

// Chunks returns the chunks of all forgotten contents.
func (f ForgottenContents) Chunks() (map[cas.Hash]bool, error) {
	chunks := make(map[cas.Hash]bool)
	for _, record := range f.records() {
		r, err := f.readReceipt(record)
		if err != nil {
			return nil, err
		}
		for _, p := range r.Fingerprints {
			chunks[p.Hash] = true
		}
	}

	return chunks, nil
}

// A RewrittenSnapshot names a snapshot whose tree Workspace.Forget has replaced.
type RewrittenSnapshot struct {
	Workspace *Workspace
	Name      string
}

// RewrittenSnapshots returns the snapshots whose trees were replaced. The keys are the former ids of the snapshots.
func (f ForgottenContents) RewrittenSnapshots() map[string]RewrittenSnapshot {
	all := make(map[string]RewrittenSnapshot)
	f.parts.Forest.WithReadLock(func(*live.Tx) {
		for _, w := range f.workspaces.byView {
			for _, sn := range w.ws.Snapshots.All() {
				for _, id := range sn.FormerIDs {
					all[id] = RewrittenSnapshot{w, sn.Name}
				}
			}
		}
	})

	return all
}
