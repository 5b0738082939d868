package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestListsOfChanges: what a restore, its dry run and a promotion take for many changes
// is charged. With too little left they wait, which can be interrupted and holds up no
// writes, and go on when they have all. A result names no more paths than fit into it.
func TestListsOfChanges(t *testing.T) {
	s := open(t, t.TempDir())
	w, forest := s.Main(), s.Forest()
	_, err := w.Capture(snapshot.CaptureOptions{Name: "empty"})
	must.OK(t, err)
	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f"})
	must.OK(t, err)
	const files = 12_000
	dir := f.Root()
	for range 16 {
		a, err := forest.Create(dir, strings.Repeat("d", 250), live.NewNode{Mode: unix.S_IFDIR | 0o755})
		must.OK(t, err)
		dir = a.ID
	}
	for i := range files {
		_, err = forest.Create(dir, fmt.Sprint(i), live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(t, err)
	}
	_, err = f.Capture(snapshot.CaptureOptions{Name: "full"})
	must.OK(t, err)

	b := budget.New(4 << 20)
	other := b.NewCharge()
	for name, do := range map[string]func(ctx context.Context, list *budget.Charge) (n int, more bool, err error){
		"dry run": func(ctx context.Context, list *budget.Charge) (int, bool, error) {
			r, err := f.Restore(ctx, snapshot.RestoreOptions{Name: "base", DryRun: true, ListCharge: list})
			return r.Changed, r.More, err
		},
		"restore": func(ctx context.Context, list *budget.Charge) (int, bool, error) {
			r, err := f.Restore(ctx, snapshot.RestoreOptions{Name: "base", ListCharge: list})
			if err == nil {
				_, err = f.Restore(ctx, snapshot.RestoreOptions{Name: "full"})
			}
			return r.Changed, r.More, err
		},
		"promotion": func(ctx context.Context, list *budget.Charge) (int, bool, error) {
			r, err := w.Forks().Merge(ctx, snapshot.MergeOptions{Fork: "f", ListCharge: list})
			if err == nil {
				_, err = w.Restore(ctx, snapshot.RestoreOptions{Name: "empty"})
			}
			return r.Changed, r.More, err
		},
	} {
		must.OK(t, other.Add(context.Background(), 3<<20))
		ctx, stop := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() {
			list := b.NewCharge()
			defer list.Release()
			_, _, err := do(ctx, list)
			result <- err
		}()
		await.Blocked(t, 1, "budget.(*Charge).RemoveLimit")
		stop()
		if err := await.Receive(t, name, result); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, while there is too little: %v", name, err)
		}
		go func() {
			list := b.NewCharge()
			defer list.Release()
			n, more, err := do(context.Background(), list)
			if err == nil && (n != files+16 || !more) {
				err = fmt.Errorf("%d changes, more: %v", n, more)
			}
			result <- err
		}()
		await.Blocked(t, 1, "budget.(*Charge).RemoveLimit")
		if _, err := forest.SetAttr(f.Root(), live.SetAttr{}); err != nil {
			t.Errorf("%s: a change meanwhile: %v", name, err)
		}
		other.Release()
		if err := <-result; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.NewCharge().Add(context.Background(), 5<<20); !errors.Is(err, errs.Quota) {
		t.Errorf("the budget is not what it was: %v", err)
	}
}
