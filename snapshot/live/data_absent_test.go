package live

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// objects is an object store in memory, of which nothing may be near.
type objects struct {
	all  map[cas.Hash][]byte
	away *bool
}

func (o objects) Put(_ cas.Kind, b []byte) (cas.Hash, error) {
	h := cas.Sum(b)
	o.all[h] = append([]byte(nil), b...)
	return h, nil
}

func (o objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if o.away != nil && *o.away {
		return nil, &cas.AbsentError{Hash: h}
	}
	return append(dst[:0], o.all[h]...), nil
}

// TestCloneOfWhatWentAway: what a clone is made from may leave the cache after the
// clone was journaled; then it is waited for.
func TestCloneOfWhatWentAway(t *testing.T) {
	f := testForest(t, vfstest.NewMem())
	store := objects{all: make(map[cas.Hash][]byte)}
	f.trees.waitingSrc = tree.NewSource(store, f.trees.log, 0)
	f.trees.residentSrc = f.trees.waitingSrc
	root := Node(MainView, RootIno)
	a, err := f.Create(root, "from", NewNode{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(a.ID, make([]byte, 10_000), 0, false); err != nil {
		t.Fatal(err)
	}
	var st *tree.State
	if err := f.Update(true, func(tx *Tx) (err error) {
		st, err = tx.Capture(MainView)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	z := &content.Sealer{Src: f.trees.waitingSrc.Files, Objects: store, Workers: 1}
	id, err := tree.Seal(context.Background(), f.trees.waitingSrc, z, st)
	if err != nil {
		t.Fatal(err)
	}
	to, err := f.Create(root, "to", NewNode{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	away := false
	f.Recovery.SetSource(tree.NewSource(objects{store.all, &away}, f.trees.log, 0))
	f.trees.readView = func(*tree.Source, uint32) (*tree.State, error) {
		away = f.trees.mu.inApply
		return tree.Load(f.trees.waitingSrc, id)
	}
	if n, err := f.CopyRange(Node(MainView+7, a.ID.Ino()), 0, to.ID, 0, 10_000); n != 10_000 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := f.Failure(); err != nil {
		t.Error(err)
	}
}
