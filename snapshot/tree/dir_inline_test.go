package tree

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// TestSmallDirectoryHasNoPage: the entries of a small directory are in its inode's
// record; one name more makes a page of them, and one less takes it back.
func TestSmallDirectoryHasNoPage(t *testing.T) {
	f := newTestFS()
	d := f.create(RootIno, "d", unix.S_IFDIR|0o755)
	text := func() *string { return must(f.s.Get(f.src, d)).Dir.root.inline.Load() }
	f.seal(t, f.freeze())
	n := 0
	for ; n < 1000; n++ {
		f.create(d, fmt.Sprintf("name%04d", n), unix.S_IFREG|0o644)
		f.seal(t, f.freeze())
		if text() == nil {
			break
		}
	}
	if size := (n + 1) * len("name0000"); size < maxInlineSize/2 || size > maxInlineSize {
		t.Errorf("the first page is of %d names", n+1)
	}
	large := f.freeze()
	f.unlink(d, fmt.Sprintf("name%04d", n))
	id := f.seal(t, f.freeze())
	if text() == nil {
		t.Error("the entries do not go back into the record")
	}
	for id, want := range map[cas.Hash]int{id: n, f.seal(t, large): n + 1} {
		src := f.source()
		dir := must(f.load(t, src, id).Get(src, d)).Dir
		if got := len(must(dir.sorted(src))); got != want {
			t.Errorf("%d entries, want %d", got, want)
		}
		if _, ok, err := dir.Lookup(src, "name0000"); !ok || err != nil {
			t.Errorf("lookup among %d: %v %v", want, ok, err)
		}
	}
}

// TestDirectoryHasOneEncoding: a page where the record has room, and more in a record
// than there is room for, are refused.
func TestDirectoryHasOneEncoding(t *testing.T) {
	f := newTestFS()
	leaf := &body{kind: wire.KindDirLeaf, ents: entries{{Dirent{"x", 2, unix.S_IFREG}, hashName("x") << slotBits}}}
	var e wire.Encoder
	encodeBody(&e, leaf)
	small := Dir{root: sealedPage(must(f.store.Put(0, e.Bytes())), 1)}
	if _, _, err := small.Lookup(f.src, "x"); !errors.Is(err, ErrMalformed) {
		t.Errorf("a page of one entry: %v", err)
	}
	n := &Inode{Ino: RootIno, Mode: unix.S_IFDIR | 0o755, Nlink: 2}
	for size, fits := range map[int]bool{maxInlineSize: true, maxInlineSize + 1: false} {
		n.Dir.root = &page{n: 1}
		n.Dir.root.sealInline(strings.Repeat("x", size))
		e.Reset()
		encodeInode(&e, n)
		got, err := decodeInode(RootIno, e.Bytes())
		if fits != (err == nil) {
			t.Errorf("%d bytes in a record: %v", size, err)
		}
		if err != nil {
			continue
		}
		if _, _, err := got.Dir.Lookup(f.src, "x"); !errors.Is(err, ErrMalformed) {
			t.Errorf("entries that are none: %v", err)
		}
	}
}
