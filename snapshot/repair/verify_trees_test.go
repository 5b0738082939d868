package repair_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestDamagedTreeObjects damages each object of a tree in turn. Whatever is asked
// for then either fails before it is begun, or is done: nothing fails half-way,
// which would be the end of all changes.
func TestDamagedTreeObjects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := stores.Open(t, dir)
	f, root := s.Forest(), s.Main().Root()
	file := live.NewNode{Mode: unix.S_IFREG | 0o644}
	mkdir := func(parent live.NodeID, name string, entries int) live.NodeID {
		d, err := f.Create(parent, name, live.NewNode{Mode: unix.S_IFDIR | 0o755})
		must.OK(t, err)
		for i := range entries {
			_, err = f.Create(d.ID, fmt.Sprint("f", i), file)
			must.OK(t, err)
		}
		return d.ID
	}
	// Of 129 entries on a directory has more than one page.
	full, over := mkdir(root, "full", 129), mkdir(root, "over", 130)
	mkdir(root, "little", 3)
	_, err := s.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	_, err = f.Unlink(over, "f7")
	must.OK(t, err)
	stores.Write(t, s, root, "last", "some bytes")
	must.OK(t, s.Close())
	pack, whole := onlyPack(t, dir)
	objects := 0
	eachRecord(whole, func(header, _ []byte) {
		if header[4] == 2 {
			objects++
		}
	})
	steps := []struct {
		name string
		do   func(f *live.Forest, w *snapshot.Workspace) error
	}{
		{"create", func(f *live.Forest, _ *snapshot.Workspace) error { _, err := f.Create(root, "new", file); return err }},
		{"create in a full directory", func(f *live.Forest, _ *snapshot.Workspace) error {
			_, err := f.Create(full, "new", file)
			return err
		}},
		{"unlink", func(f *live.Forest, _ *snapshot.Workspace) error { _, err := f.Unlink(full, "f3"); return err }},
		{"unlink last", func(f *live.Forest, _ *snapshot.Workspace) error { _, err := f.Unlink(root, "last"); return err }},
		{"rename away", func(f *live.Forest, _ *snapshot.Workspace) error {
			_, err := f.Rename(full, "f3", root, "moved", 0, actors.Caller{})
			return err
		}},
		{"rename within", func(f *live.Forest, _ *snapshot.Workspace) error {
			_, err := f.Rename(full, "f3", full, "f4", 0, actors.Caller{})
			return err
		}},
		{"rename onto", func(f *live.Forest, _ *snapshot.Workspace) error {
			_, err := f.Rename(full, "f3", over, "f4", 0, actors.Caller{})
			return err
		}},
		{"exchange", func(f *live.Forest, _ *snapshot.Workspace) error {
			_, err := f.Rename(full, "f3", over, "f4", unix.RENAME_EXCHANGE, actors.Caller{})
			return err
		}},
		{"whiteout", func(f *live.Forest, _ *snapshot.Workspace) error {
			_, err := f.Rename(full, "f3", over, "f4", unix.RENAME_WHITEOUT, actors.Caller{})
			return err
		}},
		{"link", func(f *live.Forest, _ *snapshot.Workspace) error {
			a, err := f.Lookup(root, "last")
			if err == nil {
				_, err = f.Link(a.ID, full, "linked")
			}
			return err
		}},
		{"restore", func(_ *live.Forest, w *snapshot.Workspace) error {
			_, err := w.Restore(context.Background(), snapshot.RestoreOptions{Name: "v1"})
			return err
		}},
		{"fork", func(_ *live.Forest, w *snapshot.Workspace) error {
			_, err := w.Forks().New(snapshot.ForkOptions{Snapshot: "v1", Name: fmt.Sprint("fork", len(w.Forks().List()))})
			return err
		}},
		{"capture", func(_ *live.Forest, w *snapshot.Workspace) error {
			_, err := w.Capture(snapshot.CaptureOptions{})
			return err
		}},
	}
	failed := map[string]int{}
	every := 4 // objects
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		every = 1
	}
	for i := 0; i < objects; i += every {
		n := 0
		b := append([]byte(nil), whole...)
		eachRecord(b, func(header, body []byte) {
			if header[4] == 2 {
				if n == i {
					body[len(body)/2] ^= 0xff
				}
				n++
			}
		})
		// Each store begins with another step, for it knows more after each.
		for _, first := range []int{i, i + len(steps)/2} {
			copied := filepath.Join(t.TempDir(), "store")
			must.CopyStore(t, copied, dir)
			must.OK(t, os.WriteFile(filepath.Join(copied, "packs", filepath.Base(pack)), b, 0o600))
			s, err := snapshot.Open(copied, snapshot.Options{Quiet: true})
			if err != nil {
				continue // there is no root
			}
			f := s.Forest()
			for k := range steps {
				step := steps[(first+k)%len(steps)]
				err := step.do(f, s.Main())
				if err != nil {
					failed[step.name]++
				}
				if _, lerr := f.Lookup(root, "full"); err != nil && lerr == nil && (step.name == "create" || step.name == "capture") {
					t.Errorf("object %d, %s: %v", i, step.name, err)
				}
				if err := f.Failure(); err != nil {
					t.Errorf("object %d, %s: %v", i, step.name, err)
					break
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d objects, failed: %v", objects, failed)
}

// sameHash returns names of one hash: of the two words that go through the same lane
// of XXH64, the second makes up for the first.
func sameHash(n int) (names []string) {
	const p1, p2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
	inverse := uint64(p2)
	for range 6 {
		inverse *= 2 - p2*inverse
	}
	round := func(acc, w uint64) uint64 { return bits.RotateLeft64(acc+w*p2, 31) * p1 }
	rnd := rand.New(rand.NewPCG(1, 1))
	seed := uint64(p1)
	seed += p2
	for len(names) < n {
		w := rnd.Uint64()
		b := []byte(strings.Repeat("x", 64))
		binary.LittleEndian.PutUint64(b, w)
		binary.LittleEndian.PutUint64(b[32:], (12345-round(seed, w))*inverse)
		if name := string(b); !strings.ContainsAny(name, "/\x00") {
			names = append(names, name)
		}
	}
	return names
}

// TestNamesOfOneHash: who looks for them finds names that one directory cannot hold
// all of. It is an error for the caller that makes one too many, and for no other.
func TestNamesOfOneHash(t *testing.T) {
	s := stores.Open(t, filepath.Join(t.TempDir(), "store"))
	f, root := s.Forest(), s.Main().Root()
	names := sameHash(200)
	if xxhash.Sum64String(names[0]) != xxhash.Sum64String(names[1]) {
		t.Fatal("the names have different hashes")
	}
	made := 0
	for _, name := range names {
		_, err := f.Create(root, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			made++
		} else if !errors.Is(err, errs.NoSpace) {
			t.Fatal(err)
		}
	}
	if made < 100 || made == len(names) {
		t.Errorf("%d names", made)
	}
	other := stores.Write(t, s, root, "other", "x")
	for op, try := range map[string]func() error{
		"link":   func() error { _, err := f.Link(other, root, names[199]); return err },
		"rename": func() error { _, err := f.Rename(root, "other", root, names[199], 0, actors.Caller{}); return err },
	} {
		if err := try(); !errors.Is(err, errs.NoSpace) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if err := f.Failure(); err != nil {
		t.Error(err)
	}
}
