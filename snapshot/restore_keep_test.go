package snapshot_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/tests/must"
)

// TestRestoreKeeps: a restore of everything leaves the kept paths as they are, whether
// they changed, came, went, or lie in a directory that the snapshot has not. Everything
// else is as in the snapshot, after a remount too.
func TestRestoreKeeps(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	w, f := s.Main(), s.Forest()
	root := w.Root()
	git := mkdir(t, s, root, ".git")
	write(t, s, git, "HEAD", "old")
	write(t, s, git, "lost", "x")
	write(t, s, root, "a", "old")
	write(t, s, root, "gone", "kept away")
	for i := range 1000 {
		write(t, s, git, fmt.Sprint("o", i), "object")
	}
	_, err := w.Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	head := write(t, s, git, "HEAD", "new")
	write(t, s, git, "index", "new")
	_, err = f.Unlink(git, "lost")
	must.OK(t, err)
	_, err = f.Unlink(root, "gone")
	must.OK(t, err)
	write(t, s, root, "a", "new")
	deep := mkdir(t, s, mkdir(t, s, root, "only"), "now")
	write(t, s, deep, "db", "rows")
	write(t, s, deep, "log", "lines")

	keep := []naming.BytePath{".git", "only/now/db", "gone"}
	try, err := w.Restore(t.Context(), snapshot.RestoreOptions{Name: "v1", Keep: keep, DryRun: true})
	if err != nil || !slices.Equal(try.Kept, []string{".git", "gone", "only/now/db"}) {
		t.Errorf("a dry run says %+v, %v", try, err)
	}
	done, err := w.Restore(t.Context(), snapshot.RestoreOptions{Name: "v1", Keep: keep})
	if err != nil || done.Changed != try.Changed || !slices.Equal(done.Kept, try.Kept) {
		t.Fatalf("%+v, %v", done, err)
	}
	check := func(s *snapshot.Store) {
		t.Helper()
		f := s.Forest()
		look := func(parent live.NodeID, name string) live.NodeID {
			a, err := f.Lookup(parent, name)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return a.ID
		}
		root := s.Main().Root()
		git, deep := look(root, ".git"), look(look(root, "only"), "now")
		want(t, "HEAD", read(t, s, git, "HEAD"), "new")
		want(t, "index", read(t, s, git, "index"), "new")
		want(t, "lost", read(t, s, git, "lost"), "(none)")
		want(t, "a", read(t, s, root, "a"), "old")
		want(t, "gone", read(t, s, root, "gone"), "(none)")
		want(t, "db", read(t, s, deep, "db"), "rows")
		want(t, "log", read(t, s, deep, "log"), "(none)")
	}
	check(s)
	if a, err := f.Lookup(git, "HEAD"); err != nil || a.ID != head {
		t.Errorf("a kept file has another inode: %v, %v", a.ID, err)
	}
	must.OK(t, s.Close())
	s = open(t, dir)
	check(s)

	// The policy keeps for every restore, and a restore of paths keeps nothing.
	w = s.Main()
	_, err = w.PatchPolicy([]byte(`{"restore_keeps":[".git"]}`), actors.Caller{ViaSocket: true})
	must.OK(t, err)
	if done, err = w.Restore(t.Context(), snapshot.RestoreOptions{Name: "v1"}); err != nil || !slices.Equal(done.Kept, []string{".git"}) {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := s.Forest().Lookup(w.Root(), "only"); !errors.Is(err, errs.NotExist) {
		t.Errorf("a directory that is not kept stays: %v", err)
	}
	if done, err = w.Restore(t.Context(), snapshot.RestoreOptions{Name: "v1", Paths: []naming.BytePath{".git/HEAD"}}); err != nil || done.Changed != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	for _, bad := range [][]naming.BytePath{{"."}, {"../x"}, {""}} {
		if _, err := w.Restore(t.Context(), snapshot.RestoreOptions{Name: "v1", Keep: bad}); !errors.Is(err, errs.Invalid) && !errors.Is(err, unix.EINVAL) {
			t.Errorf("keep %q: %v", bad, err)
		}
	}
}
