package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/forget"
)

func (s *Service) forget(ctx context.Context, r *Request, a snapshot.ForgetOptions) (*forget.Receipt, error) {
	a.Caller = r.Caller
	r.progress(Progress{What: "forgetting"})

	done, err := r.Workspace.Forget(ctx, a)
	if err != nil {
		return nil, err
	}
	if !done.DryRun {
		s.Log.Info("forget", "receipt", done.Number, "snapshots", len(done.Snapshots), "objects", done.Objects, "erased", done.Erased, "uid", r.Caller.UID)
	}

	return done, nil
}

// verifyForgotten returns an error of the kind Damaged, with the proof, if forgotten bytes are in the store.
func (s *Service) verifyForgotten(ctx context.Context, r *Request, _ VerifyForgotten) (*forget.Proof, error) {
	r.progress(Progress{What: "verifying"})
	proof, err := s.Store.VerifyForgotten(ctx)
	if err != nil {
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
	removed, objects := "removed", "erased"
	if r.DryRun {
		removed, objects = "would remove", "would erase"
	}

	text := new(strings.Builder)
	if r.Number > 0 {
		fmt.Fprintf(text, "receipt %d\n", r.Number)
	}
	for _, p := range r.Removed {
		fmt.Fprintf(text, "%s: %s\n", removed, placeText(p))
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
