package repair_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestDamagedFileAlone: a file whose list of chunks is damaged cannot be read or
// changed there; everything else goes on, and so it does after the next opening.
func TestDamagedFileAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	f, root := s.Forest(), s.Main().Root()
	big, err := f.Create(root, "big", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	rnd := rand.New(rand.NewPCG(1, 1))
	for off := int64(0); off < 8<<20; off += 1 << 20 {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		_, err = f.Write(big.ID, b, off, false)
		must.OK(t, err)
	}
	hole := int64(100 << 20) // so that what is allocated is not known without the list
	_, err = f.SetAttr(big.ID, live.SetAttr{Size: &hole})
	must.OK(t, err)
	must.OK(t, s.Close())
	pack, b := onlyPack(t, dir)
	n := 0
	eachRecord(b, func(header, body []byte) {
		// A list is hashes, which do not compress; its first byte is 6.
		if header[4] == 2 && header[5] == 0 && body[0] == 6 {
			n++
			body[len(body)/2] ^= 0xff
		}
	})
	if n == 0 {
		t.Fatal("no list found")
	}
	must.OK(t, os.WriteFile(pack, b, 0o600))
	for range 2 {
		s = stores.Open(t, dir)
		f := s.Forest()
		if _, err := f.Write(big.ID, []byte("change"), 3<<20, false); !errors.Is(err, errs.Damaged) {
			t.Fatalf("write into the damaged file: %v", err)
		}
		half := int64(4 << 20)
		if _, err := f.SetAttr(big.ID, live.SetAttr{Size: &half}); !errors.Is(err, errs.Damaged) {
			t.Fatalf("truncate of the damaged file: %v", err)
		}
		if _, err := f.ReadAt(big.ID, make([]byte, 10), 3<<20); !errors.Is(err, errs.Damaged) {
			t.Fatalf("read of the damaged file: %v", err)
		}
		name := "other" + string(rune('a'+rnd.IntN(26)))
		a, err := f.Create(root, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			_, err = f.Write(a.ID, []byte("fine"), 0, false)
		}
		if err != nil {
			t.Fatalf("another file: %v", err)
		}
		_, err = f.Unlink(root, name)
		must.OK(t, err)
		if _, err := s.GC(t.Context(), nil); !errors.Is(err, errs.Damaged) {
			t.Fatalf("gc: %v", err)
		}
		if got := s.Main().Status().Health; !strings.Contains(got, "verify --repair") {
			t.Fatalf("after a gc that needs a repair the health is %q", got)
		}
		// Closing makes a checkpoint around the damage.
		must.OK(t, s.Close())
	}
	s = stores.Open(t, dir)
	if _, err := s.Forest().Unlink(root, "big"); err != nil {
		t.Fatalf("unlink of the damaged file: %v", err)
	}
}

// TestDamagedChunk: one damaged chunk is an error of reading it and of nothing else. The
// file can be written beside it and into it; snapshots of that, of other files and of
// forks are sealed, and checkpoints, gc and pushes go on.
func TestDamagedChunk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	rnd := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, 4<<20)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	stores.Write(t, s, s.Main().Root(), "big", string(b))
	must.OK(t, s.Close())
	pack, raw := onlyPack(t, dir)
	n := 0
	eachRecord(raw, func(header, body []byte) {
		if n++; header[4] == 1 && n == 20 {
			body[len(body)/2] ^= 0xff
		}
	})
	if n < 20 {
		t.Fatalf("only %d records", n)
	}
	must.OK(t, os.WriteFile(pack, raw, 0o600))
	s = stores.Open(t, dir)
	f := s.Forest()
	a, err := f.Lookup(s.Main().Root(), "big")
	must.OK(t, err)
	var bad []int64
	for off := int64(0); off < int64(len(b)); off += 4096 {
		if _, err := f.ReadAt(a.ID, make([]byte, 4096), off); errors.Is(err, errs.Damaged) {
			bad = append(bad, off)
		}
	}
	if len(bad) < 2 {
		t.Fatal("no damage found")
	}
	fork, err := s.Main().Forks().New(snapshot.ForkOptions{Name: "side"})
	must.OK(t, err)
	for i, off := range []int64{bad[0] - 8192, bad[len(bad)-1] + 8192, bad[len(bad)/2]} {
		_, err = f.Write(a.ID, []byte("x"), off, false)
		must.OK(t, err)
		for _, w := range []*snapshot.Workspace{s.Main(), fork} {
			stores.Write(t, s, w.Root(), "other", fmt.Sprint(i))
			info, err := w.Capture(snapshot.CaptureOptions{})
			if err == nil {
				_, err = w.Snapshots().WaitSealed(t.Context(), info.Name)
			}
			if err != nil {
				t.Fatalf("a snapshot after a write at %d: %v", off, err)
			}
			p, err := w.Remotes().PreparePush(t.Context(), info.Name)
			must.OK(t, err)
			p.Release()
		}
		if _, err := f.ReadAt(a.ID, make([]byte, 1), off); err != nil && i < 2 {
			t.Errorf("what was written at %d: %v", off, err)
		}
		if err := s.Checkpoint(t.Context()); err != nil {
			t.Fatalf("a checkpoint after a write at %d: %v", off, err)
		}
		if _, err := s.GC(t.Context(), nil); err != nil {
			t.Fatalf("gc after a write at %d: %v", off, err)
		}
	}
	if _, err := f.ReadAt(a.ID, make([]byte, 1), bad[1]); !errors.Is(err, errs.Damaged) && !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("the damaged chunk is read: %v", err)
	}
	r, err := s.Verify(t.Context(), nil)
	if err != nil || len(r.Affected) == 0 {
		t.Fatalf("verify names %v, %v", r, err)
	}
	for _, at := range r.Affected {
		if at.Path != "big" {
			t.Errorf("verify names %+v", at)
		}
	}
}

// onlyPack returns the name and the bytes of the one pack of objects of a store.
func onlyPack(t *testing.T, dir string) (name string, b []byte) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, "packs", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	if b, err = os.ReadFile(packs[0]); err != nil {
		t.Fatal(err)
	}
	return packs[0], b
}

// eachRecord calls fn for the records of a pack, whose bytes it may change. The
// layout is that of ../cas/FORMAT.md.
func eachRecord(pack []byte, fn func(header, body []byte)) {
	for off := 64; off+64 < len(pack); {
		stored := int(pack[off+12]) | int(pack[off+13])<<8 | int(pack[off+14])<<16
		fn(pack[off:off+64], pack[off+64:][:stored])
		off += (64 + stored + 63) / 64 * 64
	}
}
