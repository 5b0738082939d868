package repair_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/repair"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestJournalDamagedInUse: bytes that are damaged in the journal of a running
// store are never served, not sealed as if they were right, and named.
func TestJournalDamagedInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	must.OK(t, err)
	root := s.Main().Root()
	stores.Write(t, s, root, "before", "this is right")
	bad := stores.Write(t, s, root, "bad", "this was wrote")
	stores.Write(t, s, root, "after", "this is right as well")
	_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	stores.FlipIn(t, filepath.Join(dir, "journal"), "this was wrote")

	check := func(s *snapshot.Store, when string) {
		t.Helper()
		if _, err := s.Forest().ReadAt(bad, make([]byte, 9), 2); !errors.Is(err, errs.Damaged) {
			t.Errorf("%s: reading what is damaged: %v", when, err)
		}
		for name, want := range map[string]string{"before": "this is right", "after": "this is right as well"} {
			a, err := s.Forest().Lookup(root, name)
			must.OK(t, err)
			p := make([]byte, 100)
			if n, err := s.Forest().ReadAt(a.ID, p, 0); err != nil || string(p[:n]) != want {
				t.Errorf("%s: %s holds %q, %v", when, name, p[:n], err)
			}
		}
		r, err := s.Verify(context.Background(), nil)
		must.OK(t, err)
		want := []repair.Affected{{Workspace: "main", Path: "bad"}, {Workspace: "main", Snapshot: "v1", Path: "bad"}}
		if !slices.Equal(r.Affected, want) {
			t.Errorf("%s: verify names %v, want %v", when, r.Affected, want)
		}
	}
	check(s, "in use")
	if r, err := s.Verify(context.Background(), nil); err != nil || len(r.Damage) != 1 || r.Damage[0].Segment == "" {
		t.Errorf("verify: %+v, %v", r, err)
	}
	must.OK(t, s.Checkpoint(context.Background()))
	check(s, "sealed")
	killed := filepath.Join(t.TempDir(), "killed")
	must.CopyStore(t, killed, dir)
	must.OK(t, s.Close())
	s = stores.Open(t, dir)
	check(s, "opened again")
	if _, err := s.GC(context.Background(), nil); err != nil {
		t.Errorf("gc: %v", err)
	}
	check(stores.Open(t, killed), "killed and opened again")
}

// TestListingAroundDamage: a directory is listed also when the inodes of some of
// its entries cannot be read.
func TestListingAroundDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	root := s.Main().Root()
	d, err := s.Forest().Create(root, "d", live.NewNode{Mode: unix.S_IFDIR | 0o755})
	must.OK(t, err)
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
		stores.Write(t, s, d.ID, "file"+string(rune('a'+i%26))+string(rune('a'+i/26)), "x")
	}
	want, _, err := names(s)
	if err != nil || len(want) != 300 {
		t.Fatal(len(want), err)
	}
	must.OK(t, s.Close())
	pack, b := onlyPack(t, dir)
	around := 0
	eachRecord(b, func(header, body []byte) {
		if header[4] != 2 { // no page
			return
		}
		body[len(body)/2] ^= 0xff
		defer func() { body[len(body)/2] ^= 0xff }()
		must.OK(t, os.WriteFile(pack, b, 0o600))
		s, err := snapshot.Open(dir, snapshot.Options{Quiet: true, Salvage: true, ReadOnly: true})
		must.OK(t, err)
		if got, bare, err := names(s); err == nil && bare > 0 {
			around++
			if !slices.Equal(got, want) {
				t.Errorf("%d names", len(got))
			}
		}
		must.OK(t, s.Close())
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
	must.OK(t, err)
	root := s.Main().Root()
	stores.Write(t, s, root, "before", "this is right")
	bad := stores.Write(t, s, root, "bad", string(bytes.Repeat([]byte("this was wrote"), 1000)))
	segments, err := filepath.Glob(filepath.Join(dir, "journal", "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	b, err := os.ReadFile(segments[0])
	must.OK(t, err)
	must.OK(t, os.Truncate(segments[0], int64(bytes.Index(b, []byte("this was wrote"))+5000)))
	if _, err := s.Forest().ReadAt(bad, make([]byte, 9), 2); !errors.Is(err, errs.Damaged) {
		t.Errorf("reading what is lost: %v", err)
	}
	must.OK(t, s.Close())
	s = stores.Open(t, dir)
	stores.Want(t, "the file before", stores.Read(t, s, root, "before"), "this is right")
	if _, err := s.Forest().ReadAt(bad, make([]byte, 9), 2); !errors.Is(err, errs.Damaged) {
		t.Errorf("reading what is lost, later: %v", err)
	}
}

// TestRestingJournalLost: the journal of a store at rest holds nothing but its
// position. One whose only header is damaged must not forget it, either; but no process
// can tell any more that it was at rest, so that it is damage.
func TestRestingJournalLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	stores.Write(t, s, s.Main().Root(), "file", string(make([]byte, 10_000)))
	must.OK(t, s.Close())
	segments, err := filepath.Glob(filepath.Join(dir, "journal", "*.seg"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	must.OK(t, os.WriteFile(segments[0], make([]byte, 160), 0o600))
	for range 3 {
		if r, err := snapshot.Check(context.Background(), dir, snapshot.Options{}, nil); err != nil || r.OK() {
			t.Fatalf("a check says %+v, %v", r, err)
		}
	}
	if s, err := snapshot.Open(dir, snapshot.Options{}); err == nil {
		t.Error("it opens")
		_ = s.Close()
	}
	_, err = snapshot.Repair(context.Background(), dir, snapshot.Options{}, nil)
	must.OK(t, err)
	if r, err := snapshot.Check(context.Background(), dir, snapshot.Options{}, nil); err != nil || !r.OK() {
		t.Fatalf("a check after the repair says %+v, %v", r, err)
	}
	s = stores.Open(t, dir)
	stores.Write(t, s, s.Main().Root(), "more", "content")
}

// loseCatalogue removes both manifests.
func loseCatalogue(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "manifest*"))
	if err != nil || len(names) == 0 {
		t.Fatal("no manifest", err)
	}
	for _, name := range names {
		must.OK(t, os.Remove(name))
	}
}

// TestCatalogueAndJournalLost: when neither the catalogue nor the beginning of the
// journal is left, opening, verifying or repairing the store reports that, and
// nothing is changed.
func TestCatalogueAndJournalLost(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	for i := range 50 {
		stores.Write(t, s, s.Main().Root(), fmt.Sprint(i), strings.Repeat(fmt.Sprint(i), 100))
	}
	_, err := s.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	must.OK(t, s.Close())
	loseCatalogue(t, dir)
	files := func() string {
		names, err := filepath.Glob(filepath.Join(dir, "journal", "*"))
		must.OK(t, err)
		return strings.Join(names, " ")
	}
	before := files()
	for what, fn := range map[string]func() error{
		"opening":   func() error { _, err := snapshot.Open(dir, snapshot.Options{}); return err },
		"verifying": func() error { _, err := snapshot.Check(ctx, dir, snapshot.Options{}, nil); return err },
		"repairing": func() error { _, err := snapshot.Repair(ctx, dir, snapshot.Options{}, nil); return err },
	} {
		if err := fn(); !errors.Is(err, cas.ErrLost) || !errors.Is(err, cas.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := files(); now != before {
		t.Errorf("the journal was %s, is %s", before, now)
	}
}
