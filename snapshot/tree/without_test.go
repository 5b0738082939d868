package tree

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// unreadable refuses to read chunks that begin with "away", and large objects.
type unreadable struct {
	*countingStore
	t *testing.T
}

func (u unreadable) Get(h cas.Hash, dst []byte) ([]byte, error) {
	b, err := u.countingStore.Get(h, dst)
	if bytes.HasPrefix(b, []byte("away")) {
		return nil, errors.New("it does not answer")
	}
	return b, err
}

func (u unreadable) Put(k cas.Kind, b []byte) (cas.Hash, error) {
	if len(b) > maxPieceSize+2 {
		u.t.Errorf("an object of %d bytes", len(b))
	}
	return u.countingStore.Put(k, b)
}

// TestSealWithout leaves out any number of files, and files of any number of extents.
func TestSealWithout(t *testing.T) {
	const many, extents = 10_100, 200_000
	f := newTestFS()
	for i := range many {
		f.write(f.create(RootIno, testName(i), unix.S_IFREG|0o644), 0, "away "+testName(i))
	}
	f.load(t, f.src, f.seal(t, f.freeze()))
	for i := range many {
		e, _ := f.lookup(RootIno, testName(i))
		f.write(e.Ino, 6, "changed")
	}
	e, _ := f.lookup(RootIno, testName(0))
	for i := range extents {
		f.write(e.Ino, int64(100+2*i), "x")
	}
	f.write(f.create(RootIno, "good", unix.S_IFREG|0o644), 0, "good")
	s := f.freeze()
	want := flatten(t, f.src, s)

	u := unreadable{f.store, t}
	src := NewSource(u, f.log, 1)
	id, left, err := SealReadable(context.Background(), src, &content.Sealer{Src: src.Files, Objects: u, Workers: 2}, s)
	check(err)
	if len(left) != many {
		t.Errorf("%d files are left out, want %d", len(left), many)
	}
	objects := must(PutContents(u, left))
	cold := f.load(t, f.source(), id)
	check(cold.FillContents(f.source(), 1, objects))
	if d := naiveDiff(want, flatten(t, f.source(), cold)); len(d) != 0 {
		t.Errorf("%d files differ", len(d))
	}
}
