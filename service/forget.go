package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/forget"
)

// erasure has the operations that remove contents from everywhere, and search for them.
type erasure struct {
	exports interface {
		exclude(ctx context.Context, fn func() error) error
		keepCommits(ctx context.Context, commits map[string]bool, dryRun bool) ([]string, error)
	}
	known  *known.Registry
	stored func(context.Context, cas.Hash) (cas.Stored, error)
}

func (er *erasure) forget(ctx context.Context, r *Request, a snapshot.ForgetOptions) (*forget.Receipt, error) {
	a.Caller, a.Prune = r.Caller, er.prune
	r.progress(Progress{What: "forgetting"})

	if a.Remotes && len(a.Paths)+len(a.Content)+len(a.Match) == 0 && !a.Secrets {
		done := &forget.Receipt{At: time.Now(), Actor: r.Caller.Actor, Removed: []forget.Place{}, Snapshots: []forget.Rewritten{}, Cannot: []string{}}
		if done.DryRun = a.DryRun; a.DryRun {
			return done, nil
		}
		return done, er.onRemotes(ctx, r, done)
	}

	// After a kill, the next start of the daemon does the rest on the remotes.
	before := er.known.Forgetting()
	if a.Remotes && !a.DryRun {
		if err := er.known.SetForgetting(true); err != nil {
			return nil, err
		}
	}

	done, err := er.here(ctx, r, a)
	if err != nil {
		return nil, errors.Join(err, er.known.SetForgetting(before))
	}
	if a.Remotes && !a.DryRun {
		if err := er.onRemotes(ctx, r, done); err != nil {
			return nil, err
		}
	}
	if !done.DryRun {
		r.log.Info("forget", "receipt", done.Number, "snapshots", len(done.Snapshots), "objects", done.Objects, "erased", done.Erased, "uid", r.Caller.UID)
	}

	return done, nil
}

// here forgets in the store. No export runs at the same time, because it would write a ref afterwards.
func (er *erasure) here(ctx context.Context, r *Request, a snapshot.ForgetOptions) (done *forget.Receipt, err error) {
	if a.DryRun {
		return r.Workspace.Forget(ctx, a)
	}

	err = er.exports.exclude(ctx, func() error {
		done, err = r.Workspace.Forget(ctx, a)
		return err
	})

	return done, err
}

// EraseForgotten erases what the last daemon did not erase before it was killed, also on the remotes.
func (s *Service) EraseForgotten(ctx context.Context) error {
	er := s.erasure
	err := er.exports.exclude(ctx, func() error { return s.Store.EraseForgotten(ctx, er.prune) })
	if err != nil || !er.known.Forgetting() {
		return err
	}

	done := new(forget.Receipt)
	err = er.onRemotes(ctx, &Request{core: s.core, Workspace: s.Store.Main()}, done)
	for _, reason := range done.Cannot {
		s.log.Warn("forgetting on the remotes", "not removed", reason)
	}

	return err
}

// prune removes the exports and the cached objects that can have forgotten contents. With dryRun, it
// returns the refs that it would delete.
func (er *erasure) prune(ctx context.Context, commits map[string]bool, dryRun bool) ([]string, error) {
	if !dryRun {
		if err := er.known.EraseCache(); err != nil {
			return nil, fmt.Errorf("erase the cache of remote objects: %w", err)
		}
	}
	return er.exports.keepCommits(ctx, commits, dryRun)
}

// verify returns an error of the kind Damaged, with the proof, if forgotten bytes are in the store.
func (er *erasure) verify(ctx context.Context, r *Request, _ VerifyForgotten) (*forget.Proof, error) {
	r.progress(Progress{What: "verifying"})
	proof, err := r.Workspace.Store().VerifyForgotten(ctx)
	if err != nil {
		return nil, err
	}
	if err := searchRemotes(ctx, r.Workspace.Store(), er.known, r, proof); err != nil {
		return nil, err
	}
	return proof, foundForgotten(proof)
}

// ProveStore searches a store that is not mounted for what was forgotten, with memory bytes for the
// contents of its journal.
func ProveStore(ctx context.Context, dir string, memory int64) (*forget.Proof, error) {
	c := &Connection{Log: slog.New(slog.DiscardHandler)}
	defer c.Close()

	st, err := snapshot.Open(dir, snapshot.Options{Connect: c.Connect(ctx), Memory: memory, Quiet: true, ReadOnly: true})
	if err != nil {
		return nil, err
	}

	proof, err := st.VerifyForgotten(ctx)
	if err == nil {
		err = searchRemotes(ctx, st, c.Remotes, &Request{}, proof)
	}
	if err = errors.Join(err, st.Close()); err != nil {
		return nil, err
	}

	return proof, foundForgotten(proof)
}

func foundForgotten(proof *forget.Proof) error {
	if proof.OK() {
		return nil
	}

	e := errs.Fail(errs.Damaged, "the store has bytes that were forgotten").
		WithHint("forget them again; `amberfs gc` does not remove what a snapshot has")
	e.Result = proof
	return e
}

// ReceiptText is the receipt as text.
func ReceiptText(r *forget.Receipt) string {
	removed, deleted, objects := "removed", "deleted", "erased"
	if r.DryRun {
		removed, deleted, objects = "would remove", "would delete", "would erase"
	}

	text := new(strings.Builder)
	if r.Number > 0 {
		fmt.Fprintf(text, "receipt %d\n", r.Number)
	}
	for _, p := range r.Removed {
		fmt.Fprintf(text, "%s: %s\n", removed, placeText(p))
	}
	for _, ref := range r.Refs {
		fmt.Fprintf(text, "%s: %s of the store's git repository\n", deleted, ref)
	}
	for _, at := range r.Remotes {
		fmt.Fprintf(text, "remote %s: %s sent again, %s removed\n", at.Name, count(len(at.Replaced), "snapshot"), count(at.Removed, "object"))
		for _, name := range slices.Sorted(maps.Keys(at.Left)) {
			fmt.Fprintf(text, "not removed: snapshot %s on remote %s: %s\n", name, at.Name, at.Left[name])
		}
	}
	for _, p := range r.Kept {
		fmt.Fprintf(text, "stays: the same bytes in %s\n", placeText(p))
	}

	fmt.Fprintf(text, "%s, %s %s (%s)\n", count(len(r.Snapshots), "snapshot")+" rewritten", objects, count(r.Objects, "object"), BytesText(r.Bytes))
	for _, c := range r.Cannot {
		fmt.Fprintf(text, "not removed: %s\n", c)
	}

	return text.String()
}

// placeText is a place as text: the path, the workspace, and the oldest and newest snapshot with it.
func placeText(p forget.Place) string {
	text := gitquote.Readable(p.Path) + " of " + p.Workspace
	switch n := len(p.Snapshots); {
	case n == 1:
		text += ", in snapshot " + p.Snapshots[0]
	case n > 1:
		text += fmt.Sprintf(", in %d snapshots, %s to %s", n, p.Snapshots[0], p.Snapshots[n-1])
	}
	if p.Now {
		text += ", now"
	}

	return text
}

// ProofText is a proof as text.
func ProofText(p *forget.Proof) string {
	text := new(strings.Builder)
	for _, r := range p.Receipts {
		state := "erased"
		if !r.Erased {
			state = "not erased yet"
		}
		fmt.Fprintf(text, "receipt %d of %s: %s, %s\n", r.Number, r.At.Format("2006-01-02 15:04"), count(r.Objects, "object"), state)
	}
	for _, k := range p.Kept {
		fmt.Fprintf(text, "forgotten bytes are in %s\n", placeText(k))
	}
	for _, f := range p.Found {
		fmt.Fprintf(text, "forgotten bytes are in %s\n", f)
	}

	state := "nothing that was forgotten is left"
	switch {
	case !p.OK():
		state = "forgotten bytes were found"
	case len(p.Kept) > 0:
		state = "forgotten bytes are in present files only"
	}
	fmt.Fprintf(text, "read %d objects, %s: %s\n", p.Objects, BytesText(p.Bytes), state)

	return text.String()
}
