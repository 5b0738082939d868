package tree

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// countingStore is an object store in memory that counts what is read.
type countingStore struct {
	mu      sync.Mutex
	objects map[cas.Hash][]byte
	gets    int
	puts    int
}

func newCountingStore() *countingStore {
	return &countingStore{objects: make(map[cas.Hash][]byte)}
}

func (m *countingStore) Put(_ cas.Kind, b []byte) (cas.Hash, error) {
	h := cas.Sum(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	if m.objects[h] == nil {
		m.objects[h] = slices.Clone(b)
	}
	return h, nil
}

func (m *countingStore) Get(h cas.Hash, dst []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gets++
	b, ok := m.objects[h]
	if !ok {
		return nil, cas.ErrNotFound
	}
	return append(dst[:0], b...), nil
}

// sliceLog is a journal in memory.
type sliceLog struct {
	mu sync.Mutex
	b  []byte
}

func (l *sliceLog) add(p string) (pos int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return int64(len(l.b) - len(p))
}

func (l *sliceLog) ReadAt(p []byte, pos, _ int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos < 0 || pos+int64(len(p)) > int64(len(l.b)) {
		return fmt.Errorf("journal position %d is not there", pos)
	}
	copy(p, l.b[pos:])
	return nil
}

// testFS changes a state the way a live tree does. Its methods panic on errors
// of the tree and answer false when a file system would refuse.
type testFS struct {
	store *countingStore
	log   *sliceLog
	src   *Source
	s     *State
	epoch uint64
	ino   uint64
	clock int64
}

func newTestFS() *testFS {
	f := &testFS{store: newCountingStore(), log: &sliceLog{}, epoch: 1, ino: RootIno, clock: 1_700_000_000_000_000_000}
	f.src = f.source()
	f.s = New(f.epoch, &Inode{Ino: RootIno, Mode: unix.S_IFDIR | 0o755, Nlink: 2, Mtime: f.clock, Ctime: f.clock})
	return f
}

// source returns a source with empty caches.
func (f *testFS) source() *Source { return NewSource(f.store, f.log, 8<<20) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// freeze returns the present state and goes on in a new epoch.
func (f *testFS) freeze() *State {
	c := f.s.Clone()
	f.epoch++
	return c
}

func (f *testFS) seal(t testing.TB, s *State) cas.Hash {
	t.Helper()
	z := &content.Sealer{Src: f.src.Files, Objects: f.store, Workers: 2}
	id, err := Seal(context.Background(), f.src, z, s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *testFS) load(t testing.TB, src *Source, id cas.Hash) *State {
	t.Helper()
	s, err := Load(src, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *testFS) own(ino uint64) *Inode { return must(f.s.Own(f.src, f.epoch, ino)) }

func (f *testFS) dir(ino uint64) *Inode {
	n := f.own(ino)
	f.clock++
	n.Mtime, n.Ctime = f.clock, f.clock
	return n
}

func (f *testFS) lookup(dir uint64, name string) (Dirent, bool) {
	n := must(f.s.Get(f.src, dir))
	e, ok, err := n.Dir.Lookup(f.src, name)
	check(err)
	return e, ok
}

// create makes a file of any type and returns its inode number.
func (f *testFS) create(dir uint64, name string, mode uint32) uint64 {
	f.ino++
	d := f.dir(dir)
	n := &Inode{Ino: f.ino, Mode: mode, Nlink: 1, Links: []Link{{dir, name}},
		Mtime: f.clock, Ctime: f.clock, Atime: f.clock, Btime: f.clock}
	if n.IsDir() {
		n.Nlink = 2
		d.Nlink++
	}
	if n.IsSymlink() {
		n.Target = "target of " + name
	}
	check(d.Dir.Insert(f.src, f.epoch, Dirent{name, n.Ino, n.Type()}))
	check(f.s.Put(f.src, f.epoch, n))
	return n.Ino
}

func (f *testFS) write(ino uint64, off int64, data string) {
	n := f.own(ino)
	n.Content = n.Content.VersionFor(f.epoch)
	check(n.Content.Write(f.src.Files, off, int64(len(data)), f.log.add(data), 0))
	f.clock++
	n.Mtime = f.clock
}

func (f *testFS) link(ino, dir uint64, name string) {
	n := f.own(ino)
	n.Nlink++
	n.Links = append(slices.Clip(n.Links), Link{dir, name})
	check(f.dir(dir).Dir.Insert(f.src, f.epoch, Dirent{name, ino, n.Type()}))
}

// unlink takes a name away, and the inode with its last one.
func (f *testFS) unlink(dir uint64, name string) {
	e, _ := f.lookup(dir, name)
	d := f.dir(dir)
	check(d.Dir.Remove(f.src, f.epoch, name))
	n := f.own(e.Ino)
	if n.IsDir() {
		d.Nlink--
		check(f.s.Delete(f.src, f.epoch, n.Ino))
		return
	}
	n.Nlink--
	n.Links = slices.DeleteFunc(slices.Clone(n.Links), func(l Link) bool { return l == Link{dir, name} })
	if n.Nlink == 0 {
		check(f.s.Delete(f.src, f.epoch, n.Ino))
	}
}

// remove unlinks a whole subtree.
func (f *testFS) remove(dir uint64, name string) {
	e, _ := f.lookup(dir, name)
	if n := must(f.s.Get(f.src, e.Ino)); n.IsDir() {
		for _, c := range must(n.Dir.sorted(f.src)) {
			f.remove(e.Ino, c.Name)
		}
	}
	f.unlink(dir, name)
}

// rename moves an entry to a name that is free.
func (f *testFS) rename(od uint64, on string, nd uint64, nn string) {
	e, _ := f.lookup(od, on)
	n := f.own(e.Ino)
	check(f.dir(od).Dir.Remove(f.src, f.epoch, on))
	check(f.dir(nd).Dir.Insert(f.src, f.epoch, Dirent{nn, e.Ino, e.Type}))
	n.Links = slices.Clone(n.Links)
	n.Links[slices.Index(n.Links, Link{od, on})] = Link{nd, nn}
	if n.IsDir() && od != nd {
		f.own(od).Nlink--
		f.own(nd).Nlink++
	}
}

// replace gives a regular file another inode with the same content and
// attributes, as restoring it would.
func (f *testFS) replace(dir uint64, name string) {
	e, _ := f.lookup(dir, name)
	old := *must(f.s.Get(f.src, e.Ino))
	f.unlink(dir, name)
	d := f.own(dir)
	f.ino++
	n := &Inode{Ino: f.ino, Mode: old.Mode, UID: old.UID, GID: old.GID, Nlink: 1, Rdev: old.Rdev, Mtime: old.Mtime,
		Xattrs: old.Xattrs, Target: old.Target, Content: old.Content, Links: []Link{{dir, name}}}
	check(d.Dir.Insert(f.src, f.epoch, Dirent{name, n.Ino, n.Type()}))
	check(f.s.Put(f.src, f.epoch, n))
}

// inside reports whether dir is ino or lies below it.
func (f *testFS) inside(dir, ino uint64) bool {
	for dir != ino {
		if dir == RootIno {
			return false
		}
		dir = must(f.s.Get(f.src, dir)).Links[0].Parent
	}
	return true
}

// readAll returns the bytes of a file.
func readAll(t testing.TB, src *Source, n *Inode) string {
	t.Helper()
	p := make([]byte, n.Size())
	if _, err := n.Content.ReadAt(src.Files, p, 0); err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// comparePaths orders paths by component, so that a directory is followed by
// what is below it and only then by its longer namesakes ("a", "a/b", "a.c").
func comparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

// sorted returns all entries in order of their names.
func (d *Dir) sorted(src *Source) (all []Dirent, err error) {
	err = d.List(src, 0, func(e Dirent, _ uint64) bool {
		all = append(all, e)
		return true
	})
	slices.SortFunc(all, byName)
	return all, err
}
