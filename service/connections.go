package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/repair"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Connection gives a store access to its registered remotes, and to the remotes from which it reads objects.
type Connection struct {
	// StartSnapshot is the snapshot on a remote, as URL@SNAPSHOT, with which a new store begins; "" for none.
	StartSnapshot string
	// AllowEmpty lets a new store begin empty if the snapshot StartSnapshot does not exist.
	AllowEmpty bool
	Timeout    time.Duration // timeout of a read from a remote; 0: the default, negative: none
	Log        *slog.Logger

	Remotes *known.Registry // set by the function that ConnectFunc returns

	// mountedBefore is set if the store is not new. Such a store may read from remotes that do not answer now. So Run
	// probes these remotes.
	mountedBefore bool
}

// ConnectFunc returns the function for snapshot.Options.Connect. ctx ends the requests that this function sends.
func (c *Connection) ConnectFunc(ctx context.Context) func(snapshot.ConnectArgs) (tree.RemoteObjects, *snapshot.StartSnapshot, error) {
	return func(args snapshot.ConnectArgs) (tree.RemoteObjects, *snapshot.StartSnapshot, error) {
		k, err := known.Open(args.Dir, known.Options{FS: args.Disk, Logger: c.Log, Timeout: c.Timeout})
		if err != nil {
			return nil, nil, err
		}

		c.Remotes = k
		c.mountedBefore = !args.Empty
		start, err := c.startState(ctx, args.Empty)
		if err != nil {
			c.Close()
			return nil, nil, err
		}

		if err := k.LoadSources(); err != nil {
			c.Close()
			return nil, nil, err
		}

		return k, start, nil
	}
}

// startState returns the snapshot with which a new store begins: the snapshot that an interrupted first mount
// recorded, else c.StartSnapshot. It returns nil for a store that begins empty, and for an existing store (isNew is
// false). If c.StartSnapshot is set for an existing store, startState records that the user agrees to requests to its
// remote.
func (c *Connection) startState(ctx context.Context, isNew bool) (*snapshot.StartSnapshot, error) {
	url, name, _ := known.SplitSnapshotURL(c.StartSnapshot)
	if !isNew && c.StartSnapshot != "" {
		_, err := c.Remotes.Remote(url)
		return nil, err
	}
	if !isNew {
		return nil, nil
	}

	ref := c.Remotes.FirstSource()
	if ref == nil && c.StartSnapshot != "" {
		var err error
		ref, err = c.Remotes.SetFirstSource(ctx, url, name)
		if errors.Is(err, backend.ErrNotFound) {
			if c.AllowEmpty {
				return nil, nil
			}
			return nil, errs.Fail(errs.NotExist, "%s: %w", url, err).WithHint("`amberfs remote snapshots %s`, in any mount, lists its snapshots; --or-empty begins with an empty workspace instead", url)
		}
		if err != nil {
			return nil, explainRemoteError(url, err)
		}
	}
	if ref == nil {
		return nil, nil
	}

	return &snapshot.StartSnapshot{ID: ref.StateHash(), Info: InfoOf(ref)}, nil
}

// HangUp makes all later reads from remotes fail.
func (c *Connection) HangUp() {
	if c.Remotes != nil {
		c.Remotes.HangUp()
	}
}

// Close frees the registry of remotes. It may be called before Remotes is set, and twice.
func (c *Connection) Close() {
	if c.Remotes != nil {
		c.Remotes.Close()
	}
}

// retryPause is the pause of Run after a remote did not answer.
const retryPause = 5 * time.Second

// firstHoldDelay is the time from the mount to the first hold that a store writes to a remote. A hold protects
// objects on the remote from gc. The delay is safe because the remote's gc keeps unused objects for a day. With the
// delay, short mounts write no hold, and the first reads are not slowed down.
const firstHoldDelay = 10 * time.Second

// Run does the background work for a store that reads from remotes, until ctx ends:
//
//   - It fetches contents before they are read. prefetch is known.PrefetchNone, PrefetchTree or PrefetchAll.
//   - It renews the holds. They protect objects that the store needs from the gc of the remotes.
func (c *Connection) Run(ctx context.Context, prefetch string) {
	heldAt := map[string]time.Time{}
	firstHoldAt := time.Now().Add(firstHoldDelay)
	if c.mountedBefore {
		c.Remotes.ProbeSources()
	}

	for ctx.Err() == nil {
		err := c.Remotes.Prefetch(ctx, prefetch)
		if err != nil && !errors.Is(err, backend.ErrAway) && ctx.Err() == nil {
			c.Log.Warn("fetching ahead of what is read", "err", err)
		}

		// The first hold is written late, see firstHoldDelay. After that, holds are renewed.
		untilFirst := time.Until(firstHoldAt)
		if untilFirst <= 0 && !errors.Is(err, backend.ErrAway) {
			err = c.Remotes.Hold(ctx, heldAt)
		}

		wait := known.HoldRenewal
		switch {
		case errors.Is(err, backend.ErrAway):
			wait = retryPause
		case untilFirst > 0:
			wait = untilFirst
		}

		select {
		case <-ctx.Done():
		case <-c.Remotes.SourceAdded():
		case <-time.After(wait):
		}
	}
}

// CheckStore verifies a store that is not mounted. journalBytes is the largest number of bytes of memory for the
// changes that are only in the store's journal. If the store can be opened and has damage, the error is of the kind
// Damaged and has the report as its result.
func CheckStore(ctx context.Context, dir string, journalBytes int64, show func(Progress)) (*repair.Report, error) {
	hint := "run `amberfs verify --repair " + dir + "`"
	c := &Connection{Log: slog.New(slog.DiscardHandler)}
	defer c.Close()

	r, err := snapshot.Check(ctx, dir, snapshot.Options{Connect: c.ConnectFunc(ctx), MemoryBytes: journalBytes}, byteProgress("verifying", show))
	if err == nil {
		return r, DamageError(r, hint)
	}

	// These errors of the operating system do not mean that the store is damaged.
	system := []error{fs.ErrPermission, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM}
	ofSystem := slices.ContainsFunc(system, func(e error) bool { return errors.Is(err, e) })
	if errs.ScriptKind(err) == errs.Busy || errors.Is(err, errs.Format) || errors.Is(err, cas.ErrLost) || errors.Is(err, backend.ErrAway) || errors.Is(err, vfs.ErrLinked) || ofSystem {
		return nil, err
	}

	return nil, errs.Fail(errs.Damaged, "cannot open the store %s: %w", dir, err).WithHint("%s", hint)
}

// RepairStore repairs a store that is not mounted. journalBytes is as in CheckStore. If some files could not be
// repaired, RepairStore returns an error of the kind Damaged.
func RepairStore(ctx context.Context, dir string, journalBytes int64, show func(Progress)) (*repair.Report, error) {
	c := &Connection{Log: slog.New(slog.DiscardHandler)}
	defer c.Close()

	r, err := snapshot.Repair(ctx, dir, snapshot.Options{Connect: c.ConnectFunc(ctx), MemoryBytes: journalBytes}, byteProgress("repairing", show))
	if err != nil || r.OK() || len(r.Affected) == 0 {
		return r, err
	}

	return r, DamageError(r, "what could not be repaired is in the store's folder quarantine")
}

// DamageError returns an error of the kind Damaged for a report with damage, else nil.
func DamageError(r *repair.Report, hint string) error {
	if r.OK() {
		return nil
	}
	if len(r.Damage) == 0 {
		return errs.Fail(errs.Damaged, "%s are incomplete", countText(len(r.Affected), "path")).
			WithHint("the stored data is sound, but these paths are incomplete: restore them from elsewhere, or delete them").WithResult(r)
	}
	return errs.Fail(errs.Damaged, "found %s", countText(len(r.Damage), "damaged record")).WithHint("%s", hint).WithResult(r)
}

// countText returns a number and a noun. The parameter what is the noun, to which countText adds an s unless n is 1.
// Unlike plural, it writes large numbers without commas.
func countText(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// VerifyForgottenStore searches a store that is not mounted, and its remotes, for forgotten contents. journalBytes is
// as in CheckStore. If it finds some, it returns an error of the kind Damaged.
func VerifyForgottenStore(ctx context.Context, dir string, journalBytes int64) (*forget.Proof, error) {
	c := &Connection{Log: slog.New(slog.DiscardHandler)}
	defer c.Close()

	st, err := snapshot.Open(dir, snapshot.Options{Connect: c.ConnectFunc(ctx), MemoryBytes: journalBytes, Quiet: true, ReadOnly: true})
	if err != nil {
		return nil, err
	}

	proof, err := (&erasure{store: st, registry: c.Remotes}).verify(ctx, &Request{}, VerifyForgotten{})
	return proof, cmp.Or(err, st.Close())
}
