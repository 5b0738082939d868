package engine_test

import (
	"context"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestPathsOfAnyBytesInTheJournal: paths are bytes, of which the records of restores,
// imports and promotions keep each.
func TestPathsOfAnyBytesInTheJournal(t *testing.T) {
	const odd = "a\xff\xfe"
	for _, what := range []string{"restore", "promote", "import"} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
			must.OK(t, err)
			defer func() { s.Close() }()
			ctx := context.Background()
			w, root := s.Main(), s.Main().Root()
			d, err := s.Forest().Create(root, odd, live.NewNode{Mode: unix.S_IFDIR | 0o755})
			must.OK(t, err)
			stores.Write(t, s, d.ID, odd, "old")
			_, err = w.Capture(snapshot.CaptureOptions{Name: "v1"})
			must.OK(t, err)
			want := "old"
			switch what {
			case "restore":
				stores.Write(t, s, d.ID, odd, "new")
				r, err := w.Restore(ctx, snapshot.RestoreOptions{Name: "v1", Paths: []naming.BytePath{odd + "/" + odd}})
				if err != nil || r.Changed != 1 {
					t.Fatal(r, err)
				}
			case "promote":
				f, err := w.Forks().New(snapshot.ForkOptions{Snapshot: "v1", Name: "side"})
				must.OK(t, err)
				there, err := s.Forest().Lookup(f.Root(), odd)
				must.OK(t, err)
				stores.Write(t, s, there.ID, odd, "theirs")
				stores.Write(t, s, d.ID, odd, "ours")
				_, err = w.Forks().Merge(ctx, snapshot.MergeOptions{Fork: "side", MergeRules: snapshot.MergeRules{Ours: true}})
				must.OK(t, err)
				want = "ours"
			case "import":
				_, err = w.Snapshots().WaitSealed(ctx, "v1")
				must.OK(t, err)
				st, _, err := w.HoldState("v1")
				must.OK(t, err)
				_, err = s.Forest().Create(d.ID, "in", live.NewNode{Mode: unix.S_IFDIR | 0o755})
				must.OK(t, err)
				_, err = w.Graft(ctx, snapshot.GraftOptions{Tree: st, Path: odd + "/in"})
				must.OK(t, err)
			}
			again := stores.AfterKill(t, s, dir)
			path := odd + "/" + odd
			if what == "import" {
				path = odd + "/in/" + odd + "/" + odd
			}
			if got := stores.ReadPath(t, again, path); got != want {
				t.Errorf("%q is %q, want %q", path, got, want)
			}
		})
	}
}
