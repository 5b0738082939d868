package snapshot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// The short names of what all tests of stores share.
var (
	afterKill, open, present = stores.AfterKill, stores.Open, stores.Present
	write, mkdir, read, want = stores.Write, stores.Mkdir, stores.Read, stores.Want
	listed                   = stores.Listed
)

// long reports whether the exhaustive forms of the tests are asked for; the others take samples.
var long = os.Getenv("AMBERFS_TEST_LONG") != ""

func TestCaptureRestoreRemount(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	s := open(t, dir)
	w := s.Main()
	src := mkdir(t, s, w.Root(), "src")
	write(t, s, src, "a", "one")
	write(t, s, w.Root(), "gone", "soon")
	_, err := w.Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	old, _ := s.Forest().Lookup(src, "a")
	write(t, s, src, "a", "two, longer")
	write(t, s, src, "new", "later")
	_, err = s.Forest().Unlink(w.Root(), "gone")
	must.OK(t, err)
	v1, err := w.Find("v1")
	must.OK(t, err)
	want(t, "view", read(t, s, live.Node(v1.View, src.Ino()), "a"), "one")
	res, err := w.Restore(ctx, snapshot.RestoreOptions{Name: "v1"})
	must.OK(t, err)
	want(t, "changes", listed(res.Paths), "[{gone created} {src/a modified} {src/new deleted}]")
	check := func(s *snapshot.Store) {
		t.Helper()
		want(t, "src/a", read(t, s, src, "a"), "one")
		want(t, "src/new", read(t, s, src, "new"), "(none)")
		want(t, "gone", read(t, s, s.Main().Root(), "gone"), "soon")
	}
	check(s)
	now, _ := s.Forest().Lookup(src, "a")
	if now.ID == old.ID {
		t.Error("a file that a restore changed kept its inode")
	}
	want(t, "old descriptor", fmt.Sprint(now.Mtime == old.Mtime), "true")
	again, err := w.Restore(ctx, snapshot.RestoreOptions{Name: "v1"})
	if err != nil || again.Changed != 0 {
		t.Errorf("restoring the same again: %+v, %v", again, err)
	}
	_, err = w.Snapshots().WaitSealed(ctx, "v1")
	must.OK(t, err)
	must.OK(t, s.Close())
	s = open(t, dir)
	check(s)
	_, err = s.Main().Restore(ctx, snapshot.RestoreOptions{Name: res.Undo})
	must.OK(t, err)
	want(t, "undone", read(t, s, src, "a"), "two, longer")
	want(t, "undone", read(t, s, src, "new"), "later")
}

func TestForkIsolationAndPromotion(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir())
	w := s.Main()
	write(t, s, w.Root(), "both", "base")
	write(t, s, w.Root(), "ours", "base")
	write(t, s, w.Root(), "theirs", "base")
	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f1"})
	must.OK(t, err)
	write(t, s, f.Root(), "theirs", "fork")
	write(t, s, w.Root(), "ours", "main")
	want(t, "main sees the fork", read(t, s, w.Root(), "theirs"), "base")
	want(t, "the fork sees main", read(t, s, f.Root(), "ours"), "base")
	res, err := w.Forks().Merge(ctx, snapshot.MergeOptions{Fork: "f1"})
	must.OK(t, err)
	want(t, "promoted", listed(res.Paths), "[{theirs modified}]")
	want(t, "ours", read(t, s, w.Root(), "ours"), "main")
	want(t, "theirs", read(t, s, w.Root(), "theirs"), "fork")
	write(t, s, w.Root(), "theirs2", "base")
	g, err := w.Forks().New(snapshot.ForkOptions{Name: "f2"})
	must.OK(t, err)
	write(t, s, w.Root(), "theirs2", "base") // touched, not changed
	write(t, s, g.Root(), "theirs2", "fork")
	if _, err := w.Forks().Merge(ctx, snapshot.MergeOptions{Fork: "f2"}); err != nil {
		t.Error("a file that was only touched is a conflict:", err)
	}
	want(t, "theirs2", read(t, s, w.Root(), "theirs2"), "fork")
	write(t, s, w.Root(), "both", "main")
	write(t, s, f.Root(), "both", "fork")
	if res, err := w.Forks().Merge(ctx, snapshot.MergeOptions{Fork: "f1"}); !errors.Is(err, threeway.ErrConflict) || fmt.Sprint(res.Conflicts) != "[both]" {
		t.Fatalf("a conflict was not refused: %+v, %v", res, err)
	}
	want(t, "after refusal", read(t, s, w.Root(), "both"), "main")
	_, err = w.Forks().Merge(ctx, snapshot.MergeOptions{Fork: "f1", MergeRules: snapshot.MergeRules{Theirs: true}})
	must.OK(t, err)
	want(t, "after --theirs", read(t, s, w.Root(), "both"), "fork")
	write(t, s, w.Root(), "both", "main again")
	write(t, s, w.Root(), "theirs2", "main again")
	write(t, s, f.Root(), "both", "fork again")
	write(t, s, f.Root(), "theirs2", "fork again")
	one := snapshot.MergeOptions{Fork: "f1", Resolve: map[string]threeway.Rule{"both": threeway.KeepOurs}}
	if _, err := w.Forks().Merge(ctx, one); !errors.Is(err, threeway.ErrConflict) {
		t.Fatalf("a conflict that nobody decided was not refused: %v", err)
	}
	one.Resolve["theirs2"] = threeway.TakeTheirs
	_, err = w.Forks().Merge(ctx, one)
	must.OK(t, err)
	want(t, "decided for ours", read(t, s, w.Root(), "both"), "main again")
	want(t, "decided for theirs", read(t, s, w.Root(), "theirs2"), "fork again")
	_, err = w.Forks().End("f1", actors.Caller{})
	must.OK(t, err)
	if _, err := w.Find("f1"); err != nil {
		t.Error("the last state of a fork that ended is not among the snapshots:", err)
	}
}

// TestForkOfAFork: a fork begins with a snapshot of another fork, and outlives it.
func TestForkOfAFork(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	forks := s.Main().Forks()
	a, err := forks.New(snapshot.ForkOptions{Name: "a"})
	must.OK(t, err)
	write(t, s, live.Node(a.View(), live.RootIno), "f", "one")
	_, err = a.Capture(snapshot.CaptureOptions{Name: "v"})
	must.OK(t, err)
	for _, name := range []string{"a/w", "b/v", "a/v/v", "/v"} {
		if _, err := forks.New(snapshot.ForkOptions{Name: "b", Snapshot: name}); !errors.Is(err, errs.NotExist) {
			t.Errorf("a fork of %s: %v", name, err)
		}
	}
	b, err := forks.New(snapshot.ForkOptions{Name: "b", Snapshot: "a/v"})
	must.OK(t, err)
	want(t, "what it began from", b.BaseSnapshotName(), "a/v")
	write(t, s, live.Node(a.View(), live.RootIno), "f", "two")
	must.OK(t, forks.Discard("a", actors.Caller{}))
	s = afterKill(t, s, dir)
	if b, err = s.Main().Forks().Named("b"); err != nil {
		t.Fatal(err)
	}
	want(t, "the file", read(t, s, live.Node(b.View(), live.RootIno), "f"), "one")
}

func TestGCKeepsWhatIsNeeded(t *testing.T) {
	ctx := context.Background()
	s := open(t, t.TempDir())
	w := s.Main()
	for i := range 40 {
		write(t, s, w.Root(), fmt.Sprintf("f%d", i%10), string(bytes.Repeat([]byte{byte(i)}, 30000)))
		_, err := w.Capture(snapshot.CaptureOptions{Name: fmt.Sprintf("s%d", i)})
		must.OK(t, err)
	}
	_, err := w.Snapshots().WaitSealed(ctx, "latest")
	must.OK(t, err)
	for i := range 40 {
		if i%2 == 0 {
			must.OK(t, w.Snapshots().Delete(fmt.Sprintf("s%d", i), actors.Caller{}))
		}
	}
	res, err := s.GC(ctx, nil)
	must.OK(t, err)
	t.Logf("%+v", res)
	for i := range 40 {
		if i%2 == 0 {
			continue
		}
		info, err := w.Find(fmt.Sprintf("s%d", i))
		must.OK(t, err)
		got := read(t, s, live.Node(info.View, live.RootIno), fmt.Sprintf("f%d", i%10))
		want(t, info.Name, got, string(bytes.Repeat([]byte{byte(i)}, 30000)))
	}
}

func TestCreated(t *testing.T) {
	dir := t.TempDir()
	for _, first := range []bool{true, false, false} {
		s := open(t, dir)
		if s.IsNewOrUnfilled() != first {
			t.Errorf("Created is %v", s.IsNewOrUnfilled())
		}
		must.OK(t, s.Close())
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	must.OK(t, s.SetMountpoint("/somewhere"))
	_, err := snapshot.Open(dir, snapshot.Options{})
	var locked *storedir.LockedError
	if !errors.As(err, &locked) || locked.Mountpoint != "/somewhere" || locked.PID == 0 {
		t.Fatalf("got %v", err)
	}
}

// TestCloseTime closes a store that has much to seal, and little time for it.
func TestCloseTime(t *testing.T) {
	dir := t.TempDir()
	const size = 64 << 20
	b := make([]byte, size)
	_, err := rand.NewChaCha8([32]byte{}).Read(b)
	must.OK(t, err)
	content := string(b)
	o := snapshot.Options{Quiet: true, CloseTime: time.Millisecond}
	again := func(after string) *snapshot.Store {
		t.Helper()
		s, err := snapshot.Open(dir, o)
		if err != nil {
			t.Fatal(after, err)
		}
		t.Cleanup(func() { s.Close() })
		if read(t, s, s.Main().Root(), "f") != content {
			t.Errorf("%s: the file is another", after)
		}
		if info := stores.Find(t, s.Main(), "v1"); read(t, s, live.Node(info.View, live.RootIno), "f") != content[1:] {
			t.Errorf("%s: the file in the snapshot is another", after)
		}
		return s
	}
	finish := func(s *snapshot.Store) {
		t.Helper()
		must.OK(t, s.Close())
	}
	s, err := snapshot.Open(dir, o)
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	write(t, s, s.Main().Root(), "f", content[1:])
	_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	write(t, s, s.Main().Root(), "f", content)
	finish(s)

	o.CloseTime = 0
	s = again("after a hasty end")
	if n := s.CAS().Stats().StoredBytes; n > size/2 {
		t.Errorf("%d bytes were sealed in a millisecond", n)
	}
	finish(s)
	s = again("after the next")
	if n := s.CAS().Stats().StoredBytes; n < size {
		t.Errorf("the store has %d bytes of %d", n, size)
	}
	finish(s)
	journal := int64(0)
	names, err := filepath.Glob(filepath.Join(dir, "journal", "*"))
	must.OK(t, err)
	for _, name := range names {
		var st unix.Stat_t
		must.OK(t, unix.Stat(name, &st))
		journal += st.Blocks * 512
	}
	if journal > size/2 {
		t.Errorf("the journal keeps %d bytes of what is sealed", journal)
	}
}

// What is known of a snapshot is the same after a kill and after a checkpoint.
func TestInfoIsKept(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	expires := time.Date(2300, 1, 2, 3, 4, 5, 6, time.UTC)
	made, err := s.Main().Capture(snapshot.CaptureOptions{
		Name: "v1", Message: "a message", Labels: map[string]string{"k": "v"}, Expires: expires.Format(time.RFC3339Nano), Pinned: true,
		Caller: actors.Caller{UID: 7, PID: 8, Command: "make all"},
	})
	must.OK(t, err)
	if made.Command != "make all" {
		t.Errorf("the command is %q", made.Command)
	}
	same := func(when string, s *snapshot.Store) {
		t.Helper()
		i, err := s.Main().Find("v1")
		must.OK(t, err)
		i.ID, i.Sealed, i.UniqueBytes = "", false, 0
		got, err := json.Marshal(i)
		must.OK(t, err)
		before, err := json.Marshal(made)
		must.OK(t, err)
		want(t, when, string(got), string(before))
	}
	same("after a kill", afterKill(t, s, dir))
	must.OK(t, s.Close())
	s = open(t, dir)
	same("after a checkpoint", s)
}

func TestNamesAreChecked(t *testing.T) {
	for name, ok := range map[string]bool{
		"v1": true, "_": true, "a.b-c": true, "": false, "-a": false, ".a": false, "a/b": false, "a..b": false,
		"a.": false, "a.lock": false, "cp-1": false, "cp-x": true, "create": false, "base": false, "README": false, "ä": false,
	} {
		if err := naming.Check(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := naming.Check(string(bytes.Repeat([]byte{'a'}, 129))); !errors.Is(err, errs.NameTooLong) {
		t.Error(err)
	}
}
