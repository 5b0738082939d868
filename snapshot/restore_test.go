package snapshot_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestRecoveryWithoutTheRemote: a restore from a snapshot whose objects are on a remote
// only is there after a kill, though the remote is away and what was read of it is lost.
func TestRecoveryWithoutTheRemote(t *testing.T) {
	ctx, p := context.Background(), newPlace()
	a := open(t, t.TempDir())
	in := mkdir(t, a, a.Main().Root(), "in")
	for i := range 300 {
		write(t, a, in, fmt.Sprint("f", i), strings.Repeat(fmt.Sprint("line ", i, "\n"), 200))
	}
	_, err := a.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	info := p.push(t, a.Main(), "v1")

	dir := t.TempDir()
	p.fresh = true
	s := openWith(t, dir, p, nil)
	write(t, s, s.Main().Root(), "mine", "mine")
	_, err = s.Main().Remotes().AddPulled(info, startOf(t, info).ID, actors.Caller{})
	must.OK(t, err)
	if res, err := s.Main().Restore(ctx, snapshot.RestoreOptions{Name: "v1"}); err != nil || res.Changed != 302 {
		t.Fatalf("%+v, %v", res, err)
	}
	tell := func(s *snapshot.Store) string {
		st, err := s.Main().State()
		must.OK(t, err)
		var b strings.Builder
		must.OK(t, st.Walk(ctx, s.Source(), tree.WalkOptions{}, func(at *tree.Path, n *tree.Inode) error {
			fmt.Fprintln(&b, at, n.Ino, n.Mode, n.Nlink, n.Size(), n.Mtime)
			return nil
		}))
		return b.String()
	}
	now := tell(s)
	must.OK(t, s.Sync())
	killed := filepath.Join(t.TempDir(), "store")
	must.CopyStore(t, killed, dir)
	p.mu.Lock()
	clear(p.near)
	p.away = true
	p.mu.Unlock()
	again := openWith(t, killed, p, nil)
	want(t, "after a kill, without the remote", tell(again), now)
	p.mu.Lock()
	p.away = false
	p.mu.Unlock()
	dirs, err := again.Forest().Lookup(again.Main().Root(), "in")
	must.OK(t, err)
	want(t, "with it", read(t, again, dirs.ID, "f7"), strings.Repeat("line 7\n", 200))
}

// TestRestoreBelowASymlink: a path whose directory has become a symbolic link, or a file,
// is restored with its directory.
func TestRestoreBelowASymlink(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir())
	w, f := s.Main(), s.Forest()
	d := mkdir(t, s, w.Root(), "d")
	e := mkdir(t, s, d, "e")
	write(t, s, e, "f", "one")
	write(t, s, e, "g", "two")
	_, err := w.Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	link := live.NewNode{Mode: unix.S_IFLNK | 0o777, Target: "elsewhere"}
	for what, spoil := range map[string]func() error{
		"a symlink": func() error { _, err := f.Create(w.Root(), "d", link); return err },
		"a file":    func() error { _, err := f.Create(w.Root(), "d", live.NewNode{Mode: unix.S_IFREG | 0o644}); return err },
	} {
		_, err := f.Rename(w.Root(), "d", w.Root(), "moved"+what, 0, actors.Caller{})
		must.OK(t, err)
		must.OK(t, spoil())
		res, err := w.Restore(ctx, snapshot.RestoreOptions{Name: "v1", Paths: []naming.BytePath{"d/e/f"}})
		if err != nil {
			t.Fatalf("where d is %s: %v", what, err)
		}
		want(t, "what is restored", listed(res.Paths), "[{d modified} {d/e created} {d/e/f created}]")
		want(t, "the file", stores.ReadPath(t, s, "d/e/f"), "one")
		if names, err := f.Lookup(w.Root(), "d"); err != nil || names.Mode&unix.S_IFMT != unix.S_IFDIR {
			t.Errorf("d is %+v, %v", names, err)
		}
	}
	_, err = f.Create(w.Root(), "to", link)
	must.OK(t, err)
	if _, err := w.Restore(ctx, snapshot.RestoreOptions{Name: "v1", Paths: []naming.BytePath{"to/f"}}); err == nil || !strings.Contains(err.Error(), "name its target") {
		t.Errorf("a path through a symlink that the snapshot does not have: %v", err)
	}
}

// TestRootKeepsItsOwner: a restore, an undo and a merge leave the root directory as it is where its owner or
// group is another one, and make its mode what it was where both are the same.
func TestRootKeepsItsOwner(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	w := s.Main()
	root := func() string {
		st, err := w.State()
		must.OK(t, err)
		first, _, _ := strings.Cut(stores.Dump(t, s, st), "\n")
		first, _, _ = strings.Cut(first, " nlink")
		return first[strings.Index(first, "mode"):]
	}
	own := func(node live.NodeID, uid, gid, mode uint32) {
		_, err := s.Forest().SetAttr(node, live.SetAttr{UID: &uid, GID: &gid, Mode: &mode})
		must.OK(t, err)
	}
	restore := func(changed int) {
		t.Helper()
		res, err := w.Restore(context.Background(), snapshot.RestoreOptions{Name: "v1"})
		if must.OK(t, err); res.Changed != changed {
			t.Errorf("changed: %+v", res.Changes)
		}
	}

	own(w.Root(), 0, 0, 0o755)
	_, err := w.Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	own(w.Root(), 0, 0, 0o700)
	restore(1)
	want(t, "a mode", root(), "mode=40755 uid=0")

	own(w.Root(), 1000, 2000, 0o2770)
	restore(0)
	want(t, "an owner", root(), "mode=42770 uid=1000")
	write(t, s, w.Root(), "f", "later")
	restore(1)
	want(t, "an owner, beside a file", root(), "mode=42770 uid=1000")
	want(t, "the file", read(t, s, w.Root(), "f"), "(none)")

	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f1"})
	must.OK(t, err)
	own(f.Root(), 1001, 2000, 0o777)
	_, err = w.Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: "f1"})
	must.OK(t, err)
	write(t, s, w.Root(), "ours", "x")
	write(t, s, f.Root(), "theirs", "y")
	_, err = w.Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: "f1"})
	must.OK(t, err)
	want(t, "after merges", root(), "mode=42770 uid=1000")
	want(t, "what came", read(t, s, w.Root(), "theirs"), "y")

	s = afterKill(t, s, dir)
	w = s.Main()
	want(t, "after a kill", root(), "mode=42770 uid=1000")
}

// TestRestoreOfALargeDirectory: a directory that goes or comes as a whole costs each of its
// pages once, however often the restore seals; name by name nearly all of them would
// be in memory, and written, each time.
func TestRestoreOfALargeDirectory(t *testing.T) {
	const names, seals = 20_000, 40
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{Quiet: true, MaxJournaledSteps: 2 * names / seals})
	must.OK(t, err)
	defer s.Close()
	f, ctx := s.Forest(), context.Background()
	create := func(dir live.NodeID, name string, mode uint32) live.NodeID {
		t.Helper()
		a, err := f.Create(dir, name, live.NewNode{Mode: mode | 0o755})
		must.OK(t, err)
		return a.ID
	}
	dir := create(live.Node(live.MainView, live.RootIno), "dir", unix.S_IFDIR)
	for i := range names {
		create(dir, fmt.Sprintf("f%07d", i), unix.S_IFREG)
	}
	_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "v"})
	must.OK(t, err)
	must.OK(t, s.Checkpoint(ctx))
	pages := s.CAS().Stats().Objects
	for _, name := range []string{"base", "v"} {
		before := s.CAS().Stats().Objects
		_, err = s.Main().Restore(ctx, snapshot.RestoreOptions{Name: name})
		must.OK(t, err)
		if n := s.CAS().Stats().Objects - before; n > 2*pages {
			t.Errorf("restoring %s wrote %d objects, where %d hold all", name, n, pages)
		}
		if differ, err := s.Main().Restore(ctx, snapshot.RestoreOptions{Name: name, DryRun: true}); err != nil || differ.Changed > 0 {
			t.Errorf("%d paths differ from %s, %v", differ.Changed, name, err)
		}
	}
}
