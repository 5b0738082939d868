package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// A slowDisk lets reads begin, and end only when they may.
type slowDisk struct {
	content.Log
	slow   atomic.Bool
	begun  chan struct{}
	may    chan struct{}
	failed atomic.Pointer[error] // what a read returns that waited
}

func (d *slowDisk) wait() error {
	if !d.slow.Load() {
		return nil
	}
	d.begun <- struct{}{}
	<-d.may
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (d *slowDisk) ReadAt(p []byte, pos, payload int64) error {
	if err := d.wait(); err != nil {
		return err
	}
	return d.Log.ReadAt(p, pos, payload)
}

// slowForest has a fork and, in main, the file f.
func slowForest(t *testing.T) (f *Forest, d *slowDisk, file NodeID) {
	t.Helper()
	f = testForest(t, vfstest.NewMem())
	d = &slowDisk{Log: f.trees.log, begun: make(chan struct{}), may: make(chan struct{})}
	f.trees.waitingSrc = tree.NewSource(nil, d, 1<<20)
	f.Recovery.SetSource(f.trees.waitingSrc)
	made, err := f.Create(Node(MainView, RootIno), "f", NewNode{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Update(true, func(tx *Tx) error {
		tx.AddView(MainView+1, tree.NewRoot(tx.Epoch(), unix.S_IFDIR|0o755, 0, 0, 1))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return f, d, made.ID
}

// whileReading calls fn while a read of the disk, which begin causes, goes on. It ends with
// the answer of begin.
func whileReading(t *testing.T, d *slowDisk, begin, fn func() error) error {
	t.Helper()
	d.slow.Store(true)
	answer, done := make(chan error, 1), make(chan error, 1)
	go func() { answer <- begin() }()
	await.Receive(t, "a read of the disk", d.begun)
	go func() { done <- fn() }()
	if err := await.Receive(t, "a request during the read of another one", done); err != nil {
		t.Error(err)
	}
	d.slow.Store(false)
	d.may <- struct{}{}
	return await.Receive(t, "the read", answer)
}

// others are requests of all kinds, in two views.
func others(f *Forest, file NodeID) error {
	fork := Node(MainView+1, RootIno)
	made, err := f.Create(fork, "new", NewNode{Mode: unix.S_IFREG | 0o644})
	_, err2 := f.Write(made.ID, []byte("new"), 0, false)
	_, err3 := f.GetAttr(file)
	_, err4 := f.Lookup(Node(MainView, RootIno), "f")
	_, err5 := f.Unlink(fork, "new")
	return errors.Join(err, err2, err3, err4, err5)
}

// TestReadWaitsAlone: while the bytes of a file are read from the disk, other requests go on,
// and the file can change. The reader gets the bytes of when it began.
func TestReadWaitsAlone(t *testing.T) {
	f, d, file := slowForest(t)
	if _, err := f.Write(file, []byte("before"), 0, false); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	var n int
	err := whileReading(t, d, func() (err error) {
		n, err = f.ReadAt(file, got, 0)
		return err
	}, func() error {
		_, err := f.Write(file, []byte("afterwards"), 0, false)
		return errors.Join(err, others(f, file))
	})
	if err != nil || string(got[:n]) != "before" {
		t.Errorf("%q, %v", got[:n], err)
	}
}

// TestReadOfWhatIsRemoved: if bytes are removed before a reader gets them, because the file
// has them elsewhere by then, it reads again; if not, that is damage.
func TestReadOfWhatIsRemoved(t *testing.T) {
	f, d, file := slowForest(t)
	if _, err := f.Write(file, []byte("before"), 0, false); err != nil {
		t.Fatal(err)
	}
	removed := errors.New("removed")
	d.failed.Store(&removed)
	got := make([]byte, 10)
	var n int
	read := func() (err error) {
		n, err = f.ReadAt(file, got, 0)
		return err
	}
	if err := whileReading(t, d, read, func() error {
		_, err := f.Write(file, []byte("after"), 0, false)
		return err
	}); err != nil || string(got[:n]) != "aftere" {
		t.Errorf("%q, %v", got[:n], err)
	}
	d.slow.Store(true)
	answer := make(chan error, 1)
	go func() { answer <- read() }()
	for range 2 {
		await.Receive(t, "a read of the disk", d.begun)
		d.may <- struct{}{}
	}
	if err := await.Receive(t, "the read", answer); !errors.Is(err, removed) || errs.KindOf(err) != errs.Damaged {
		t.Error(err)
	}
}

// An idleDisk checks that the forest's lock is free while an object or bytes of the journal are
// read, and counts how often each object is.
type idleDisk struct {
	objects
	content.Log
	t     *testing.T
	f     *Forest
	doing string
	reads map[cas.Hash]int
}

func (d *idleDisk) check() {
	if !d.f.trees.mu.TryLock() {
		d.t.Errorf("%s: a read of the disk with the lock held", d.doing)
		return
	}
	d.f.trees.mu.Unlock()
}

func (d *idleDisk) Get(h cas.Hash, dst []byte) ([]byte, error) {
	d.check()
	d.reads[h]++
	return d.objects.Get(h, dst)
}

func (d *idleDisk) ReadAt(p []byte, pos, payload int64) error {
	d.check()
	return d.Log.ReadAt(p, pos, payload)
}

// coldState returns the id of a sealed state with directories, files and long records.
func coldState(t *testing.T, f *Forest, store objects) cas.Hash {
	t.Helper()
	f.trees.waitingSrc = tree.NewSource(store, f.trees.log, 1<<20)
	f.Recovery.SetSource(f.trees.waitingSrc)
	must := func(a Attr, err error) NodeID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	root, file := Node(MainView, RootIno), NewNode{Mode: unix.S_IFREG | 0o644}
	dir := must(f.Create(root, "dir", NewNode{Mode: unix.S_IFDIR | 0o755}))
	other := must(f.Create(root, "other", NewNode{Mode: unix.S_IFDIR | 0o755}))
	for i := range 300 {
		must(f.Create(dir, fmt.Sprint("file", i), file))
		for j := range 20 { // so that the files are on more pages than tree.MaxFetched
			must(f.Create(other, fmt.Sprint(i, ".", j), file))
		}
	}
	must(f.Create(dir, "sub", NewNode{Mode: unix.S_IFDIR | 0o755}))
	sparse := must(f.Create(root, "sparse", file))
	for i := range int64(400) {
		if _, err := f.Write(sparse, []byte{1}, i<<20, false); err != nil {
			t.Fatal(err)
		}
	}
	long := must(f.Create(root, "long", NewNode{Mode: unix.S_IFREG | 0o644, Xattrs: []tree.Xattr{{Name: "user.long", Value: make([]byte, 60<<10)}}}))
	if _, err := f.Write(long, []byte("long"), 0, false); err != nil {
		t.Fatal(err)
	}
	var st *tree.State
	if err := f.Update(true, func(tx *Tx) (err error) {
		st, err = tx.Capture(MainView)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	id, err := tree.Seal(context.Background(), f.trees.waitingSrc, &content.Sealer{Src: f.trees.waitingSrc.Files, Objects: store, Workers: 1}, st)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestNoReadWithTheLock: no request reads the disk with the lock held, or an object twice but for parts
// of a file or a listing. While nothing changes, there need not be a cache.
func TestNoReadWithTheLock(t *testing.T) {
	f := testForest(t, vfstest.NewMem())
	store := objects{all: make(map[cas.Hash][]byte)}
	id := coldState(t, f, store)
	inos := map[string]uint64{"": RootIno}
	for _, path := range []string{"dir", "dir/file7", "dir/file150", "sparse", "long"} {
		parent := ""
		if i := strings.LastIndex(path, "/"); i > 0 {
			parent = path[:i]
		}
		a, err := f.Lookup(Node(MainView, inos[parent]), path[strings.LastIndex(path, "/")+1:])
		if err != nil {
			t.Fatal(err)
		}
		inos[path] = a.ID.Ino()
	}
	d := &idleDisk{objects: store, Log: f.trees.log, t: t, f: f}
	f.trees.readView = func(src *tree.Source, _ uint32) (*tree.State, error) { return tree.Load(src, id) }
	list := func(read func(dir NodeID, add func(e tree.Dirent) bool) error) func(at func(string) NodeID) error {
		return func(at func(string) NodeID) error {
			var names []string
			err := read(at("dir"), func(e tree.Dirent) bool {
				names = append(names, e.Name)
				return true
			})
			slices.Sort(names)
			if len(d.reads) <= tree.MaxFetched && d.doing == "readdirplus" {
				t.Errorf("a listing reads %d pages", len(d.reads))
			}
			if all := len(slices.Compact(names)); err == nil && (all != len(names) || all != 301) {
				err = fmt.Errorf("%d names", all)
			}
			return err
		}
	}
	some := []byte("some")
	file := NewNode{Mode: unix.S_IFREG | 0o644}
	requests := map[string]func(at func(string) NodeID) error{
		"stat":   func(at func(string) NodeID) error { _, err := f.GetAttr(at("dir/file7")); return err },
		"lookup": func(at func(string) NodeID) error { _, err := f.Lookup(at("dir"), "file150"); return err },
		"path":   func(at func(string) NodeID) error { _, err := f.Path(at("dir/file150"), 4096); return err },
		"xattr":  func(at func(string) NodeID) error { _, err := f.GetXattr(at("long"), "user.long"); return err },
		"seek": func(at func(string) NodeID) error {
			_, err := f.Seek(at("sparse"), 5<<20+8192, unix.SEEK_DATA)
			return err
		},
		"readdir": list(func(dir NodeID, add func(tree.Dirent) bool) error {
			return f.ReadDir(dir, 0, func(e tree.Dirent, _ uint64) bool { return add(e) })
		}),
		"readdirplus": list(func(dir NodeID, add func(tree.Dirent) bool) error {
			return f.ReadDirPlus(dir, 0, func(e tree.Dirent, a *Attr, _ uint64) bool { return a != nil && a.ID.Ino() == e.Ino && add(e) })
		}),
		"read": func(at func(string) NodeID) error {
			n, err := f.ReadAt(at("sparse"), make([]byte, 5<<20), 0)
			if err == nil && n != 5<<20 {
				err = fmt.Errorf("%d bytes", n)
			}
			return err
		},
	}
	changes := map[string]func(at func(string) NodeID) error{
		"create": func(at func(string) NodeID) error { _, err := f.Create(at("dir"), "new", file); return err },
		"mkdir": func(at func(string) NodeID) error {
			_, err := f.Create(at("dir"), "new", NewNode{Mode: unix.S_IFDIR | 0o755})
			return err
		},
		"tmpfile": func(at func(string) NodeID) error { _, err := f.Tmpfile(at("dir"), file); return err },
		"link":    func(at func(string) NodeID) error { _, err := f.Link(at("long"), at("dir"), "new"); return err },
		"unlink":  func(at func(string) NodeID) error { _, err := f.Unlink(at("dir"), "file7"); return err },
		"rmdir":   func(at func(string) NodeID) error { _, err := f.Rmdir(at("dir"), "sub"); return err },
		"write":   func(at func(string) NodeID) error { _, err := f.Write(at("sparse"), some, 9<<20, false); return err },
		"rename": func(at func(string) NodeID) error {
			_, err := f.Rename(at("dir"), "file7", at(""), "long", 0, actors.Caller{})
			return err
		},
		"rename a directory": func(at func(string) NodeID) error {
			_, err := f.Rename(at(""), "dir", at(""), "moved", 0, actors.Caller{})
			return err
		},
		"truncate": func(at func(string) NodeID) error {
			size := int64(9<<20 + 5)
			_, err := f.SetAttr(at("sparse"), SetAttr{Size: &size})
			return err
		},
		"punch": func(at func(string) NodeID) error {
			return f.Fallocate(at("sparse"), 7<<20, 9<<20, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
		},
		"set xattr": func(at func(string) NodeID) error { return f.SetXattr(at("long"), "user.a", some, 0, false) },
		"copy": func(at func(string) NodeID) error {
			n, err := f.CopyRange(at("sparse"), 3<<20, at("long"), 1<<20, 50<<20)
			if err == nil && n != 50<<20 {
				err = fmt.Errorf("%d bytes", n)
			}
			return err
		},
	}
	view := uint32(MainView + 1)
	for _, of := range []map[string]func(at func(string) NodeID) error{requests, changes} {
		for name, request := range of {
			st, err := tree.Load(tree.NewSource(store, nil, 0), id)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Update(true, func(tx *Tx) error {
				tx.AddView(view, st)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			views, cache := []uint32{view}, int64(1<<20)
			if _, ok := requests[name]; ok {
				views, cache = append(views, 1<<20), 0 // a snapshot
			}
			f.trees.waitingSrc = tree.NewSource(d, d, cache)
			f.Recovery.SetSource(f.trees.waitingSrc)
			for _, in := range views {
				d.doing, d.reads = name, map[cas.Hash]int{}
				before := f.trees.mu.changeCount
				if err := request(func(path string) NodeID { return Node(in, inos[path]) }); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if len(d.reads) == 0 {
					t.Errorf("%s: nothing was read", name)
				}
				for h, n := range d.reads {
					if n > 1 && name != "read" && name != "readdirplus" {
						t.Errorf("%s: %s was read %d times", name, h, n)
					}
				}
				if n := f.trees.mu.changeCount - before; n > 1 {
					t.Errorf("%s: %d changes", name, n)
				}
			}
			view++
		}
	}
}
