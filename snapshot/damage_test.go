package snapshot_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
)

// TestDamagedFileAlone: a file whose list of chunks is damaged cannot be read or
// changed there; everything else goes on, and so it does after the next opening.
func TestDamagedFileAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	f, root := s.Forest(), s.Main().Root()
	big, err := f.Create(root, "big", live.Create{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for off := int64(0); off < 8<<20; off += 1 << 20 {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		if _, err := f.Write(big.ID, b, off, false); err != nil {
			t.Fatal(err)
		}
	}
	hole := int64(100 << 20) // so that what is allocated is not known without the list
	if _, err := f.SetAttr(big.ID, live.SetAttr{Size: &hole}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(pack, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = open(t, dir)
		f := s.Forest()
		if _, err := f.Write(big.ID, []byte("change"), 3<<20, false); !errors.Is(err, live.ErrDamaged) {
			t.Fatalf("write into the damaged file: %v", err)
		}
		half := int64(4 << 20)
		if _, err := f.SetAttr(big.ID, live.SetAttr{Size: &half}); !errors.Is(err, live.ErrDamaged) {
			t.Fatalf("truncate of the damaged file: %v", err)
		}
		if _, err := f.ReadAt(big.ID, make([]byte, 10), 3<<20); !errors.Is(err, live.ErrDamaged) {
			t.Fatalf("read of the damaged file: %v", err)
		}
		name := "other" + string(rune('a'+rnd.IntN(26)))
		a, err := f.Create(root, name, live.Create{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			_, err = f.Write(a.ID, []byte("fine"), 0, false)
		}
		if err != nil {
			t.Fatalf("another file: %v", err)
		}
		if _, err := f.Unlink(root, name); err != nil {
			t.Fatal(err)
		}
		// Closing makes a checkpoint around the damage.
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir)
	if _, err := s.Forest().Unlink(root, "big"); err != nil {
		t.Fatalf("unlink of the damaged file: %v", err)
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
