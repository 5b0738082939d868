package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// flipIn changes a bit of the first place in a folder's files that holds what.
func flipIn(t *testing.T, folder, what string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		i := bytes.Index(b, []byte(what))
		if i < 0 {
			continue
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{b[i] ^ 1}, int64(i)); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%q is nowhere in %s", what, folder)
}

// TestJournalDamagedInUse: bytes that are damaged in the journal of a running
// store are never served, not sealed as if they were right, and named.
func TestJournalDamagedInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	root := s.Main().Root()
	write(t, s, root, "before", "this is right")
	bad := write(t, s, root, "bad", "this was wrote")
	write(t, s, root, "after", "this is right as well")
	if _, err := s.Main().Capture(context.Background(), snapshot.CaptureOptions{Name: "v1"}); err != nil {
		t.Fatal(err)
	}
	flipIn(t, filepath.Join(dir, "journal"), "this was wrote")

	check := func(s *snapshot.Store, when string) {
		t.Helper()
		if _, err := s.Forest().ReadAt(bad, make([]byte, 9), 2); !errors.Is(err, live.ErrDamaged) {
			t.Errorf("%s: reading what is damaged: %v", when, err)
		}
		for name, want := range map[string]string{"before": "this is right", "after": "this is right as well"} {
			a, err := s.Forest().Lookup(root, name)
			if err != nil {
				t.Fatal(err)
			}
			p := make([]byte, 100)
			if n, err := s.Forest().ReadAt(a.ID, p, 0); err != nil || string(p[:n]) != want {
				t.Errorf("%s: %s holds %q, %v", when, name, p[:n], err)
			}
		}
		r, err := s.Verify(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []snapshot.Affected{{Workspace: "main", Path: "bad"}, {Workspace: "main", Snapshot: "v1", Path: "bad"}}
		if !slices.Equal(r.Affected, want) {
			t.Errorf("%s: verify names %v, want %v", when, r.Affected, want)
		}
	}
	check(s, "in use")
	if r, err := s.Verify(context.Background(), nil); err != nil || len(r.Damage) != 1 || r.Damage[0].Segment == "" {
		t.Errorf("verify: %+v, %v", r, err)
	}
	if err := s.Checkpoint(context.Background()); err != nil {
		t.Fatal(err)
	}
	check(s, "sealed")
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	check(s, "opened again")
	if _, err := s.GC(context.Background(), nil); err != nil {
		t.Errorf("gc: %v", err)
	}
	check(open(t, killed), "killed and opened again")
}

// TestListingAroundDamage: a directory is listed also when the inodes of some of
// its entries cannot be read.
func TestListingAroundDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	root := s.Main().Root()
	d, err := s.Forest().Create(root, "d", live.Create{Mode: unix.S_IFDIR | 0o755})
	if err != nil {
		t.Fatal(err)
	}
	names := func(s *snapshot.Store) (got []string, bare int, err error) {
		err = s.Forest().ReadDirPlus(d.ID, 0, func(e tree.Dirent, a *live.Attr, _ uint64) bool {
			got = append(got, e.Name)
			if a == nil {
				bare++
			}
			return true
		})
		slices.Sort(got)
		return got, bare, err
	}
	for i := range 300 {
		write(t, s, d.ID, "file"+string(rune('a'+i%26))+string(rune('a'+i/26)), "x")
	}
	want, _, err := names(s)
	if err != nil || len(want) != 300 {
		t.Fatal(len(want), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	pack, b := onlyPack(t, dir)
	around := 0
	eachRecord(b, func(header, body []byte) {
		if header[4] != 2 { // no page
			return
		}
		body[len(body)/2] ^= 0xff
		defer func() { body[len(body)/2] ^= 0xff }()
		if err := os.WriteFile(pack, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := snapshot.Open(dir, snapshot.Options{Quiet: true, Salvage: true, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, bare, err := names(s); err == nil && bare > 0 {
			around++
			if !slices.Equal(got, want) {
				t.Errorf("%d names", len(got))
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if around == 0 {
		t.Error("no page of inodes was found")
	}
}

// TestJournalCutInUse: a segment that gets shorter while the store is in use has
// lost bytes like one that is overwritten, and the rest is sealed.
func TestJournalCutInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	root := s.Main().Root()
	write(t, s, root, "before", "this is right")
	bad := write(t, s, root, "bad", string(bytes.Repeat([]byte("this was wrote"), 1000)))
	segments, err := filepath.Glob(filepath.Join(dir, "journal", "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(segments[0], int64(bytes.Index(b, []byte("this was wrote"))+5000)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Forest().ReadAt(bad, make([]byte, 9), 2); !errors.Is(err, live.ErrDamaged) {
		t.Errorf("reading what is lost: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	want(t, "the file before", read(t, s, root, "before"), "this is right")
	if _, err := s.Forest().ReadAt(bad, make([]byte, 9), 2); !errors.Is(err, live.ErrDamaged) {
		t.Errorf("reading what is lost, later: %v", err)
	}
}

// TestCheckpointLost: as long as the journal goes back to the beginning of a
// store, nothing is lost with the only checkpoint, neither with its catalogue
// nor with the states that that names.
func TestCheckpointLost(t *testing.T) {
	for _, kind := range []string{"meta", "pack"} {
		t.Run(kind, func(t *testing.T) { checkpointLost(t, kind) })
	}
}

func checkpointLost(t *testing.T, kind string) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 { // who can make it someone else's
		uid, gid = 77, 78
	}
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true, UID: uint32(uid), GID: uint32(gid)})
	if err != nil {
		t.Fatal(err)
	}
	root := s.Main().Root()
	for i := range 40 {
		write(t, s, root, fmt.Sprint("file", i), fmt.Sprint("content ", i))
	}
	if _, err := s.Main().Capture(ctx, snapshot.CaptureOptions{Name: "v1"}); err != nil {
		t.Fatal(err)
	}
	info, err := s.Main().WaitSealed(ctx, "v1")
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, root, "later", "than that")
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(killed, uid, gid); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(killed, "packs", "*."+kind))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	if err := os.Truncate(packs[0], 100); err != nil {
		t.Fatal(err)
	}
	if kind == "meta" {
		if err := os.Remove(filepath.Join(killed, "packs", "metadata.copy")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := snapshot.Open(killed, snapshot.Options{}); !errors.Is(err, live.ErrDamaged) && !errors.Is(err, cas.ErrDamaged) {
		t.Errorf("without a checkpoint it opens: %v", err)
	}
	if r, err := snapshot.Check(ctx, killed, snapshot.Options{}, nil); err != nil || len(r.Damage) == 0 || len(r.Affected) > 0 {
		t.Errorf("a check says %+v, %v", r, err)
	}
	if r, err := snapshot.Repair(ctx, killed, snapshot.Options{}, nil); err != nil || len(r.Affected) > 0 || r.LostChanges > 0 {
		t.Errorf("a repair says %+v, %v", r, err)
	}
	s = open(t, killed)
	if now, err := s.Main().Find("v1"); err != nil || now.Seq != info.Seq || now.Files != 40 {
		t.Errorf("the snapshot came back as %+v, %v", now, err)
	}
	for name, want := range map[string]string{"file7": "content 7", "later": "than that"} {
		a, err := s.Forest().Lookup(s.Main().Root(), name)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 100)
		if n, err := s.Forest().ReadAt(a.ID, p, 0); err != nil || string(p[:n]) != want {
			t.Errorf("%s holds %q, %v", name, p[:n], err)
		}
	}
	if a, err := s.Forest().GetAttr(s.Main().Root()); err != nil || a.UID != uint32(uid) {
		t.Errorf("the root is %+v, %v", a, err)
	}
}

// TestRestingJournalLost: the journal of a store at rest holds nothing but its
// position. One whose only header is damaged must not forget it, either; but nobody
// can tell any more that it was at rest, so that it is damage.
func TestRestingJournalLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	write(t, s, s.Main().Root(), "file", string(make([]byte, 10_000)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "journal", "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	if err := os.WriteFile(segments[0], make([]byte, 160), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r, err := snapshot.Check(context.Background(), dir, snapshot.Options{}, nil); err != nil || r.OK() {
			t.Fatalf("a check says %+v, %v", r, err)
		}
	}
	if s, err := snapshot.Open(dir, snapshot.Options{}); err == nil {
		t.Error("it opens")
		_ = s.Close()
	}
	if _, err := snapshot.Repair(context.Background(), dir, snapshot.Options{}, nil); err != nil {
		t.Fatal(err)
	}
	if r, err := snapshot.Check(context.Background(), dir, snapshot.Options{}, nil); err != nil || !r.OK() {
		t.Fatalf("a check after the repair says %+v, %v", r, err)
	}
	s = open(t, dir)
	write(t, s, s.Main().Root(), "more", "content")
}

// TestLostNames: forks and snapshots that were made behind damage in the journal
// are named, as they were called last.
func TestLostNames(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	w := s.Main()
	capture := func(w *snapshot.Workspace, name string) {
		t.Helper()
		if _, err := w.Capture(ctx, snapshot.CaptureOptions{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	fork := func(name string) *snapshot.Workspace {
		t.Helper()
		f, err := w.Fork(ctx, "v0", name, live.Caller{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	capture(w, "v0")
	write(t, s, w.Root(), "file", "this will be damaged")
	capture(w, "v1")
	capture(w, "v2")
	capture(w, "v3")
	f := fork("f1")
	capture(f, "inside")
	fork("f2")
	fork("f3")
	for _, err := range []error{
		w.Delete("v2", live.Caller{}), w.Rename("v3", "v4", live.Caller{}), w.RenameFork("f2", "f4"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.EndFork("f3", live.Caller{}); err != nil {
		t.Fatal(err)
	}
	var ended string
	for _, i := range w.List() {
		if !slices.Contains([]string{"v0", "v1", "v4"}, i.Name) {
			ended = i.Name
		}
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	flipIn(t, filepath.Join(killed, "journal"), "this will be damaged")
	for what, look := range map[string]func(context.Context, string, snapshot.Options, func(done, total int64)) (*snapshot.Report, error){
		"check": snapshot.Check, "repair": snapshot.Repair,
	} {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(killed)); err != nil {
			t.Fatal(err)
		}
		r, err := look(ctx, dir, snapshot.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range r.Affected {
			if a.Path == "" {
				got = append(got, a.Workspace+"@"+a.Snapshot)
			}
		}
		want := []string{"f1@", "f1@inside", "f4@", "main@", "main@" + ended, "main@v1", "main@v4"}
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s names %v, want %v", what, got, want)
		}
	}
}

// loseCatalogue removes the metadata packs and the index.
func loseCatalogue(t *testing.T, dir string) {
	t.Helper()
	metas, err := filepath.Glob(filepath.Join(dir, "packs", "*.meta"))
	if err != nil || len(metas) == 0 {
		t.Fatal("no metadata", err)
	}
	for _, name := range append(metas, filepath.Join(dir, "index")) {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCatalogueHasACopy: all is there that was when the store was closed.
func TestCatalogueHasACopy(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	open := func(dir string) *snapshot.Store {
		t.Helper()
		// Nothing removes old snapshots while they are looked at.
		s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open(dir)
	x := &walker{t: t, r: rand.New(rand.NewPCG(3, 9)), s: s}
	for range 200 {
		ws := s.Workspaces()
		sort.Slice(ws, func(i, j int) bool { return ws[i].View() < ws[j].View() })
		if err := errors.Join(x.step(ws[x.r.IntN(len(ws))]), x.history()); !expected(err) {
			t.Fatal(err)
		}
	}
	before := portrait(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	loseCatalogue(t, dir)
	r, err := snapshot.Check(ctx, dir, snapshot.Options{}, nil)
	if err != nil || len(r.Damage) == 0 || len(r.Affected) > 0 {
		t.Errorf("the check finds %+v, %v", r, err)
	}
	s = open(dir)
	compare(t, "with the copy", portrait(t, s), before)
	intactStore(t, s)

	// A killed store goes back to when the copy was made, and says so.
	write(t, s, s.Main().Root(), "later", "is lost")
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	journals, err := filepath.Glob(filepath.Join(killed, "journal", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range journals {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	loseCatalogue(t, killed)
	if r, err := snapshot.Check(ctx, killed, snapshot.Options{}, nil); err == nil && r.OK() {
		t.Error("the check finds nothing in the killed store")
	}
	if _, err := snapshot.Repair(ctx, killed, snapshot.Options{}, nil); err != nil {
		t.Fatal(err)
	}
	s = open(killed)
	compare(t, "after a kill", portrait(t, s), before)
	intactStore(t, s)
}

func intactStore(t *testing.T, s *snapshot.Store) {
	t.Helper()
	if r, err := s.Verify(context.Background(), nil); err != nil || !r.OK() {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// TestCatalogueAndJournalLost: when neither the catalogue nor the beginning of the
// journal is left, whoever opens, verifies or repairs the store is told so, and
// nothing is changed.
func TestCatalogueAndJournalLost(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	for i := range 50 {
		write(t, s, s.Main().Root(), fmt.Sprint(i), strings.Repeat(fmt.Sprint(i), 100))
	}
	if _, err := s.Main().Capture(ctx, snapshot.CaptureOptions{Name: "v1"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	loseCatalogue(t, dir)
	if err := os.Remove(filepath.Join(dir, "packs", "metadata.copy")); err != nil {
		t.Fatal(err)
	}
	files := func() string {
		names, err := filepath.Glob(filepath.Join(dir, "journal", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, " ")
	}
	before := files()
	for what, fn := range map[string]func() error{
		"opening":   func() error { _, err := snapshot.Open(dir, snapshot.Options{}); return err },
		"verifying": func() error { _, err := snapshot.Check(ctx, dir, snapshot.Options{}, nil); return err },
		"repairing": func() error { _, err := snapshot.Repair(ctx, dir, snapshot.Options{}, nil); return err },
	} {
		if err := fn(); !errors.Is(err, snapshot.ErrLost) || !errors.Is(err, cas.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := files(); now != before {
		t.Errorf("the journal was %s, is %s", before, now)
	}
}
