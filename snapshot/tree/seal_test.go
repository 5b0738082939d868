package tree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/content"
)

// TestSealRoundTrip checks that every field comes back.
func TestSealRoundTrip(t *testing.T) {
	f := newTestFS()
	f.s.Bytes = 12345
	full := func(n *Inode) {
		n.UID, n.GID, n.Mode = 1<<32-1, 7, n.Mode|0o7000
		n.Atime, n.Mtime, n.Ctime, n.Btime = -1, 1<<62, -1<<62, 0
		n.Xattrs = []Xattr{{"security.capability", []byte{0, 1}}, {"user.empty", nil}}
	}
	for i, mode := range []uint32{unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFIFO, unix.S_IFSOCK} {
		ino := f.create(RootIno, fmt.Sprint("plain", i), mode)
		full(f.own(f.create(RootIno, fmt.Sprint("full", i), mode)))
		f.own(ino + 1).Rdev = 1<<32 - 1
	}
	e, _ := f.lookup(RootIno, "full0")
	f.write(e.Ino, 10, strings.Repeat("content", 10))
	f.link(e.Ino, RootIno, "name 2")
	f.link(e.Ino, RootIno, "name 1")
	s := f.freeze()
	src := f.source()
	c := f.load(t, src, f.seal(t, s))
	if c.Inodes != s.Inodes || c.Bytes != s.Bytes {
		t.Errorf("counts %d, %d, want %d, %d", c.Inodes, c.Bytes, s.Inodes, s.Bytes)
	}
	f.s.Bytes = 0
	a, b := flatten(t, src, s), flatten(t, src, c)
	if len(a.files) != len(b.files) || len(a.files) < 15 {
		t.Fatalf("%d files, want %d", len(b.files), len(a.files))
	}
	for path, n := range a.files {
		got, want := *b.files[path], *n
		if a.data[path] != b.data[path] {
			t.Errorf("%q: content differs", path)
		}
		if got.Blocks() != want.Blocks() || got.Size() != want.Size() || got.Dir.Len() != want.Dir.Len() {
			t.Errorf("%q: size differs", path)
		}
		for _, n := range []*Inode{&got, &want} {
			n.Content, n.Dir, n.epoch = nil, Dir{}, 0
			n.Links = canonicalLinks(n.Links)
			for i := range n.Xattrs {
				n.Xattrs[i].Value = append([]byte{}, n.Xattrs[i].Value...)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n got %+v\nwant %+v", path, got, want)
		}
	}
}

// TestSealOnce checks that a state has one id, that what is sealed is not
// written again, and that a small change writes little.
func TestSealOnce(t *testing.T) {
	f := newTestFS()
	d := f.create(RootIno, "d", unix.S_IFDIR|0o755)
	for i := range 2000 {
		f.write(f.create(d, testName(i), unix.S_IFREG|0o644), 0, testName(i))
	}
	s := f.freeze()
	again := s.Clone()
	id := f.seal(t, s)
	if got, ok := s.ID(); !ok || got != id {
		t.Errorf("ID = %v, %v, want %v", got, ok, id)
	}
	if _, ok := again.ID(); ok {
		t.Error("a clone made before the seal has an id")
	}
	puts := f.store.puts
	if got := f.seal(t, again); got != id {
		t.Errorf("sealed again as %v, want %v", got, id)
	}
	if n := f.store.puts - puts; n != 1 {
		t.Errorf("sealing again wrote %d objects, want the state only", n)
	}
	n := 0
	var u UnsealedContents
	u.Each(s, true, func(*content.Content) { n++ })
	if n != 0 {
		t.Errorf("%d inodes in memory after the seal", n)
	}

	e, _ := f.lookup(d, testName(99))
	f.write(e.Ino, 0, "x")
	u.Each(f.s, false, func(*content.Content) { n++ })
	if n != 1 {
		t.Errorf("%d inodes in memory after one write", n)
	}
	frozen := f.freeze()
	u.Each(frozen, true, func(*content.Content) { n++ })
	u.Each(f.s, false, func(*content.Content) { n++ })
	if n != 2 {
		t.Errorf("%d inodes seen, the one that a frozen state shares is to be seen once more", n)
	}
	puts = f.store.puts
	f.seal(t, f.freeze())
	if n := f.store.puts - puts; n > 5 {
		t.Errorf("one write made %d objects", n)
	}
}

// TestSealWhileRunning seals while the tree goes on changing and readers read
// the frozen state, and checks that no one sees anything else.
func TestSealWhileRunning(t *testing.T) {
	f := newTestFS()
	r := rand.New(rand.NewPCG(1, 5))
	for range 300 {
		randomOp(f, r)
	}
	s := f.freeze()
	want := flatten(t, f.src, s)
	var wg sync.WaitGroup
	ids := make([]cas.Hash, 2)
	for i := range ids {
		wg.Go(func() {
			z := &content.Sealer{Src: f.src.Files, Objects: f.store, Workers: 2}
			id, err := Seal(context.Background(), f.src, z, s.Clone())
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
		})
	}
	for range 3 {
		wg.Go(func() {
			defer func() {
				if err := recover(); err != nil { // check and must panic
					t.Error(err)
				}
			}()
			if d := naiveDiff(want, flatten(panicker{t}, f.src, s)); len(d) != 0 {
				t.Errorf("the frozen state changed: %v", d)
			}
		})
	}
	for range 200 {
		randomOp(f, r)
	}
	wg.Wait()
	if ids[0] != ids[1] {
		t.Errorf("two seals at once: %v, %v", ids[0], ids[1])
	}
	now := flatten(t, f.src, f.s)
	cold := f.load(t, f.source(), f.seal(t, f.freeze()))
	if d := naiveDiff(now, flatten(t, f.src, cold)); len(d) != 0 {
		t.Errorf("sealed differently from what it was: %v", d)
	}
}

// panicker is for goroutines, which must not call Fatal.
type panicker struct{ testing.TB }

func (panicker) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// TestSealIDIsLogical makes the same tree in two ways.
func TestSealIDIsLogical(t *testing.T) {
	var ids []cas.Hash
	for _, way := range []int{0, 1} {
		f := newTestFS()
		d := f.create(RootIno, "d", unix.S_IFDIR|0o755)
		file := f.create(d, "file", unix.S_IFREG|0o644)
		if way == 0 {
			f.write(file, 0, "some content")
			f.link(file, RootIno, "a")
			f.link(file, RootIno, "b")
		} else {
			f.write(file, 0, "some")
			f.link(file, RootIno, "b")
			f.seal(t, f.freeze())
			f.write(file, 4, " content")
			f.create(d, "gone", unix.S_IFREG)
			f.freeze()
			f.unlink(d, "gone")
			f.link(file, RootIno, "a")
		}
		for _, ino := range []uint64{RootIno, d, file} {
			n := f.own(ino)
			n.Atime, n.Mtime, n.Ctime = 1, 2, 3
			n.Xattrs = nil
			if way == 1 {
				n.Xattrs = []Xattr{}
			}
		}
		ids = append(ids, f.seal(t, f.freeze()))
	}
	if ids[0] != ids[1] {
		t.Errorf("ids %v and %v of equal trees", ids[0], ids[1])
	}
}

func TestSealStops(t *testing.T) {
	f := newTestFS()
	for i := range 500 {
		f.write(f.create(RootIno, testName(i), unix.S_IFREG|0o644), 0, testName(i))
	}
	s := f.freeze()
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	var mu sync.Mutex
	store := putHook{f.store, func() error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 50 {
			cancel()
		}
		return nil
	}}
	z := &content.Sealer{Src: f.src.Files, Objects: store, Workers: 2}
	if _, err := Seal(ctx, f.src, z, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want Canceled", err)
	}
	if n > 60 {
		t.Errorf("%d objects written after the cancel", n-50)
	}
	full := errors.New("disk full")
	z.Objects = putHook{f.store, func() error { return full }}
	if _, err := Seal(context.Background(), f.src, z, s); !errors.Is(err, full) {
		t.Fatalf("error %v, want that of the store", err)
	}
	want := flatten(t, f.src, s)
	got := flatten(t, f.src, f.load(t, f.source(), f.seal(t, s)))
	if d := naiveDiff(want, got); len(d) != 0 {
		t.Errorf("after a seal cut short: %v", d)
	}
}

type putHook struct {
	content.ObjectStore
	hook func() error
}

func (p putHook) Put(k cas.Kind, b []byte) (cas.Hash, error) {
	if err := p.hook(); err != nil {
		return cas.Hash{}, err
	}
	return p.ObjectStore.Put(k, b)
}

// TestLongRecord seals an inode that fits no leaf.
func TestLongRecord(t *testing.T) {
	f := newTestFS()
	file := f.create(RootIno, "file", unix.S_IFREG|0o644)
	f.write(file, 0, "data")
	for i := range 20 {
		n := f.own(file)
		n.Xattrs = append(slices.Clip(n.Xattrs), Xattr{fmt.Sprintf("user.%02d", i), []byte(strings.Repeat(fmt.Sprint(i%10), 60000))})
	}
	a := f.freeze()
	ida := f.seal(t, a)
	for h, b := range f.store.objects {
		if len(b) > maxPieceSize+2 {
			t.Errorf("object %v has %d bytes", h, len(b))
		}
	}
	src := f.source()
	cold := f.load(t, src, ida)
	n := must(cold.Get(src, file))
	if len(n.Xattrs) != 20 || string(n.Xattrs[13].Value) != strings.Repeat("3", 60000) || readAll(t, src, n) != "data" {
		t.Error("the inode came back differently")
	}
	// The record is copied unread when its neighbour changes, and marked.
	f.create(RootIno, "neighbour", unix.S_IFREG|0o644)
	b := f.freeze()
	idb := f.seal(t, b)
	marked := make(map[cas.Hash]bool)
	check(f.load(t, src, idb).Mark(context.Background(), src, nil, false, func(h cas.Hash) bool {
		first := !marked[h]
		marked[h] = true
		return first
	}))
	for h := range f.store.objects {
		if !marked[h] {
			delete(f.store.objects, h)
		}
	}
	src = f.source()
	checkDiff(t, src, b, f.load(t, src, idb), nil, flatten(t, src, b), flatten(t, src, b), nil)
	flatten(t, src, f.load(t, src, idb))
}

// TestSealPanics: a panic while contents are stored, by whichever goroutine, is an
// error of that seal, and the next one does the work.
func TestSealPanics(t *testing.T) {
	f := newTestFS()
	for i := range 50 {
		f.write(f.create(RootIno, testName(i), unix.S_IFREG|0o644), 0, testName(i))
	}
	large := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	f.write(f.create(RootIno, "large", unix.S_IFREG|0o644), 0, string(large))
	s := f.freeze()
	z := &content.Sealer{Src: f.src.Files, Objects: putHook{f.store, func() error { panic("a fault in the store") }}, Workers: 2}
	_, err := Seal(context.Background(), f.src, z, s)
	var p *guard.Panic
	if !errors.As(err, &p) || !strings.Contains(p.Stack, "seal_test.go") {
		t.Fatalf("error %v, want the panic with its stack", err)
	}
	want := flatten(t, f.src, s)
	got := flatten(t, f.src, f.load(t, f.source(), f.seal(t, s)))
	if d := naiveDiff(want, got); len(d) != 0 {
		t.Errorf("after a seal that panicked: %v", d)
	}
}
