package stream_test

import (
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// TestPrefetchAsksOnce: an object that several files share is fetched once.
func TestPrefetchAsksOnce(t *testing.T) {
	m := trees.NewMemory()
	st := m.Seal(t, m.State(t, trees.Spec{"a": trees.File("alike"), "b": trees.File("alike")}))
	var files []*tree.Inode
	for _, name := range []string{"a", "b"} {
		p, err := st.Resolve(m.Src, name)
		must.OK(t, err)
		files = append(files, p)
	}
	var asked []cas.Hash
	_, err := stream.Prefetch(func(h []cas.Hash) error { asked = append(asked, h...); return nil }, m.Src, 0, 2, func(i int) *tree.Inode { return files[i] })
	must.OK(t, err)
	if len(asked) != 1 {
		t.Errorf("%d objects were asked for", len(asked))
	}
}
