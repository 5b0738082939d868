package tree

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// seedObjects returns the tree objects of a small state, one of each kind.
func seedObjects(t testing.TB) [][]byte {
	f := newTestFS()
	d := f.create(RootIno, "d", unix.S_IFDIR|0o755)
	for i := range 200 {
		f.create(d, testName(i), unix.S_IFREG|0o644)
	}
	f.create(RootIno, "link", unix.S_IFLNK|0o777)
	f.own(f.create(RootIno, "dev", unix.S_IFCHR|0o600)).Rdev = 5
	file := f.create(RootIno, "file", unix.S_IFREG|0o600)
	f.write(file, 0, "data")
	f.link(file, d, "second")
	f.own(file).Xattrs = []Xattr{{"user.a", []byte("1")}, {"user.b", nil}}
	f.seal(t, f.freeze())
	var out [][]byte
	for _, b := range f.store.objects {
		out = append(out, b)
	}
	return out
}

// FuzzBody checks that a page which decodes encodes to the same bytes.
func FuzzBody(f *testing.F) {
	for _, b := range seedObjects(f) {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := decodeBody(raw)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		var e wire.Encoder
		if b.leaf == nil {
			encodeBody(&e, b)
		} else {
			check(encodeTableLeaf(&e, b.leaf, nil))
		}
		if !bytes.Equal(e.Bytes(), raw) {
			t.Fatalf("% x\nencodes to\n% x", raw, e.Bytes())
		}
		if b.leaf != nil {
			src := NewSource(newCountingStore(), &sliceLog{}, 0)
			for i := range tableFanout {
				if _, err := b.leaf.get(src, i, uint64(i)); err != nil && !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, cas.ErrNotFound) {
					t.Fatalf("error %v", err)
				}
			}
		}
	})
}

// FuzzInode checks that an inode which decodes encodes to the same bytes.
func FuzzInode(f *testing.F) {
	for _, raw := range seedObjects(f) {
		if b, err := decodeBody(raw); err == nil && b.leaf != nil {
			for i := range tableFanout {
				f.Add(b.leaf.record(i))
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, err := decodeInode(77, raw)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		var e wire.Encoder
		encodeInode(&e, n)
		if !bytes.Equal(e.Bytes(), raw) {
			t.Fatalf("% x\nencodes to\n% x", raw, e.Bytes())
		}
	})
}

func FuzzState(f *testing.F) {
	for _, raw := range seedObjects(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := decodeState(raw)
		if err != nil {
			return
		}
		var root cas.Hash
		if s.root != nil {
			root, _ = s.root.id()
		}
		var e wire.Encoder
		encodeState(&e, s, root)
		if !bytes.Equal(e.Bytes(), raw) {
			t.Fatalf("% x\nencodes to\n% x", raw, e.Bytes())
		}
	})
}

// TestCutShort checks that no object decodes when its end is missing.
func TestCutShort(t *testing.T) {
	for _, raw := range seedObjects(t) {
		for i := range raw {
			if _, err := decodeBody(raw[:i]); err == nil {
				t.Fatalf("%d of %d bytes decode", i, len(raw))
			}
			if _, err := decodeState(raw[:i]); err == nil {
				t.Fatalf("%d of %d bytes decode", i, len(raw))
			}
		}
	}
}

// TestWrongKind checks that a page in another's place is an error.
func TestWrongKind(t *testing.T) {
	f := newTestFS()
	d := f.create(RootIno, "d", unix.S_IFDIR|0o755)
	for i := range maxDirLeaf {
		f.create(d, fmt.Sprint("x", i), unix.S_IFREG|0o644)
	}
	s := f.freeze()
	id := f.seal(t, s)
	dir := must(s.Get(f.src, d)).Dir.root
	s = f.load(t, f.src, id)
	s.root = sealedPage(*dir.hash.Load(), 0)
	if _, err := s.Get(f.src, d); !errors.Is(err, ErrMalformed) {
		t.Errorf("directory page as a table: %v", err)
	}
	if _, err := Load(f.src, *dir.hash.Load()); !errors.Is(err, ErrMalformed) {
		t.Errorf("directory page as a state: %v", err)
	}
	wrong := Dir{root: sealedPage(id, 1)}
	if _, _, err := wrong.Lookup(f.src, "x"); !errors.Is(err, ErrMalformed) {
		t.Errorf("state as a directory page: %v", err)
	}
}
