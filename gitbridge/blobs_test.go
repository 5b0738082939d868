package gitbridge

import (
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// TestPrefetchAsksOnce: what files share is asked for once.
func TestPrefetchAsksOnce(t *testing.T) {
	m := newMemory()
	st := m.seal(t, m.state(t, spec{"a": file("alike"), "b": file("alike")}))
	var files []*tree.Inode
	for _, name := range []string{"a", "b"} {
		p, err := st.Resolve(m.src, name)
		must.OK(t, err)
		files = append(files, p)
	}
	var asked []cas.Hash
	_, err := prefetch(func(h []cas.Hash) error { asked = append(asked, h...); return nil }, m.src, 0, 2, func(i int) *tree.Inode { return files[i] })
	must.OK(t, err)
	if len(asked) != 1 {
		t.Errorf("%d objects were asked for", len(asked))
	}
}
