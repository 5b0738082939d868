package repair_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/repair"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// TestBytesDamagedAfterKill: a bit that flips in the bytes of a file, or of a sector of them
// that cannot be read any more, is that file's damage also when the journal is replayed. The
// store opens without a repair, and nothing behind it is left out.
func TestBytesDamagedAfterKill(t *testing.T) {
	for _, size := range []int{100, 200_000} { // in a record with the write, and in one of its own
		for _, how := range []string{"flipped", "unreadable"} {
			s, dir := stores.Quiet(t)
			root := s.Main().Root()
			stores.Write(t, s, root, "before", "this is right")
			stores.Write(t, s, root, "bad", "this was wrote"+strings.Repeat("x", size))
			must.OK(t, s.Sync())
			stores.Write(t, s, root, "after", "this is right as well")
			stores.Capture(t, s.Main(), "v1")
			stores.Write(t, s, root, "later", "this, too")
			must.OK(t, s.Sync())
			killed := filepath.Join(t.TempDir(), "killed")
			must.CopyStore(t, killed, dir)
			o := snapshot.Options{Quiet: true}
			if how == "flipped" {
				stores.FlipIn(t, filepath.Join(killed, "journal"), "this was wrote")
			} else {
				o.FS = badSector(t, killed, "this was wrote")
			}
			s, err := snapshot.Open(killed, o)
			if err != nil {
				t.Fatalf("%d bytes, %s: %v", size, how, err)
			}
			check := func(when string) {
				t.Helper()
				root := s.Main().Root()
				for name, content := range map[string]string{"before": "this is right", "after": "this is right as well", "later": "this, too"} {
					stores.Want(t, when+": "+name, stores.Read(t, s, root, name), content)
				}
				a, err := s.Forest().Lookup(root, "bad")
				must.OK(t, err)
				if _, err := s.Forest().ReadAt(a.ID, make([]byte, 9), 2); !errors.Is(err, errs.Damaged) {
					t.Errorf("%d bytes, %s, %s: reading what is damaged: %v", size, how, when, err)
				}
				r, err := s.Verify(context.Background(), nil)
				must.OK(t, err)
				named := []repair.Affected{{Workspace: "main", Path: "bad"}, {Workspace: "main", Snapshot: "v1", Path: "bad"}}
				if !slices.Equal(r.Affected, named) {
					t.Errorf("%d bytes, %s, %s: verify names %v", size, how, when, r.Affected)
				}
			}
			check("after the kill")
			must.OK(t, s.Checkpoint(context.Background()))
			check("sealed")
			must.OK(t, s.Close())
			if how == "flipped" {
				_, err = snapshot.Repair(context.Background(), killed, snapshot.Options{}, nil)
				must.OK(t, err)
			}
			s = stores.Open(t, killed)
			check("opened again")
		}
	}
}

// TestRepairKeepsWhatFollowsBytes: a repair that is run before the store is opened leaves
// out nothing behind damaged bytes of a file.
func TestRepairKeepsWhatFollowsBytes(t *testing.T) {
	s, dir := stores.Quiet(t)
	root := s.Main().Root()
	stores.Write(t, s, root, "bad", "this was wrote")
	must.OK(t, s.Sync())
	stores.Write(t, s, root, "after", "this is right")
	stores.Capture(t, s.Main(), "v1")
	must.OK(t, s.Sync())
	killed := filepath.Join(t.TempDir(), "killed")
	must.CopyStore(t, killed, dir)
	stores.FlipIn(t, filepath.Join(killed, "journal"), "this was wrote")
	r, err := snapshot.Repair(context.Background(), killed, snapshot.Options{}, nil)
	if err != nil || r.LostChanges > 0 {
		t.Fatalf("repair: %+v, %v", r, err)
	}
	s = stores.Open(t, killed)
	stores.Want(t, "after", stores.Read(t, s, s.Main().Root(), "after"), "this is right")
	if _, err := s.Main().Find("v1"); err != nil {
		t.Error(err)
	}
}

// TestSectorUnreadableInUse: a sector of the journal that cannot be read costs the file whose
// bytes it has, and no checkpoint. The segment is kept aside.
func TestSectorUnreadableInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	disk := &unreadable{FS: vfs.OS}
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true, FS: disk})
	must.OK(t, err)
	root := s.Main().Root()
	stores.Write(t, s, root, "before", "this is right")
	stores.Write(t, s, root, "bad", "this was wrote")
	stores.Write(t, s, root, "after", "this is right as well")
	stores.Write(t, s, root, "more", strings.Repeat("y", 3<<20)) // a segment that is given up
	disk.at(t, dir, "this was wrote")
	must.OK(t, s.Checkpoint(context.Background()))
	_, err = s.GC(context.Background(), nil)
	must.OK(t, err)
	if health := s.Main().Status().Health; health != "ok" {
		t.Errorf("health: %s", health)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "quarantine", "*.seg")); len(kept) != 1 {
		t.Errorf("kept aside: %v", kept)
	}
	must.OK(t, s.Close())
	s = stores.Open(t, dir)
	root = s.Main().Root()
	stores.Want(t, "before", stores.Read(t, s, root, "before"), "this is right")
	stores.Want(t, "after", stores.Read(t, s, root, "after"), "this is right as well")
	a, err := s.Forest().Lookup(root, "bad")
	must.OK(t, err)
	if _, err := s.Forest().ReadAt(a.ID, make([]byte, 9), 2); !errors.Is(err, errs.Damaged) {
		t.Errorf("reading what is lost: %v", err)
	}
}

// unreadable is a disk that fails at one place of the first segment of the journal, once it
// is set.
type unreadable struct {
	vfs.FS
	off atomic.Int64
}

type unreadableFile struct {
	vfs.File
	on *unreadable
}

func badSector(t *testing.T, dir, what string) vfs.FS {
	u := &unreadable{FS: vfs.OS}
	u.at(t, dir, what)
	return u
}

// at sets the place to what.
func (u *unreadable) at(t *testing.T, dir, what string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "journal", "*.seg"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	b, err := os.ReadFile(names[0])
	must.OK(t, err)
	u.off.Store(int64(bytes.Index(b, []byte(what))) + 4)
}

func (u *unreadable) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := u.FS.OpenFile(name, flag, perm)
	if err == nil && filepath.Base(name) == strings.Repeat("0", 16)+".seg" {
		f = unreadableFile{f, u}
	}
	return f, err
}

func (f unreadableFile) ReadAt(p []byte, off int64) (int, error) {
	if at := f.on.off.Load(); at > 0 && off <= at && at < off+int64(len(p)) {
		n, _ := f.File.ReadAt(p[:at-off], off)
		return n, syscall.EIO
	}
	return f.File.ReadAt(p, off)
}
