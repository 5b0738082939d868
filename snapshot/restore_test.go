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
		must.OK(t, st.Walk(ctx, s.Source(), func(at *tree.Path, n *tree.Inode) error {
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
