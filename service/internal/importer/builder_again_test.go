package importer

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
)

// TestReadAgain: if a file is read again with its names, it keeps its inode number. Another file that has one of
// these names now gets another number.
func TestReadAgain(t *testing.T) {
	s := store(t)
	file := func(p, data string, birth int64) stream.Entry {
		m := meta(unix.S_IFREG | 0o644)
		m.Btime = birth
		return stream.Entry{Path: p, Meta: m, Size: int64(len(data)), Data: strings.NewReader(data)}
	}
	link := func(p, old string) stream.Entry { return stream.Entry{Path: p, Hardlink: old} }
	base := made(t, s, builder(t, s), file("a", "1", 5), link("b", "a"), link("c", "a"), file("d", "2", 6))
	for name, again := range map[string][]stream.Entry{
		"all names":   {file("a", "1", 5), link("b", "a"), link("c", "a")},
		"one is new":  {file("a", "x", 7), file("b", "1", 5), link("c", "b")},
		"two of them": {file("a", "1", 5), file("b", "1", 5), link("c", "a")},
		"one name":    {file("d", "3", 8)},
	} {
		id, _ := base.ID()
		b, err := NewFrom(context.Background(), s.Source(), s.CAS(), Destination{IsWorkspaceRoot: true}, id)
		must.OK(t, err)
		now := made(t, s, b, again...)
		number := func(st *tree.State, p string) uint64 {
			n, err := st.Resolve(s.Source(), p)
			must.OK(t, err)
			return n.Ino
		}
		for _, p := range []string{"a", "b", "c", "d"} {
			other := name == "one is new" && p == "a" || name == "two of them" && p == "b"
			if same := number(base, p) == number(now, p); same == other {
				t.Errorf("%s: %s has the number %d, and had %d", name, p, number(now, p), number(base, p))
			}
		}
		if n, err := now.Resolve(s.Source(), "c"); err != nil || int(n.Nlink) != len(n.Links) {
			t.Errorf("%s: c has %d links of %v, %v", name, n.Nlink, n.Links, err)
		}
	}
}

func made(t *testing.T, s *snapshot.Store, b *Builder, entries ...stream.Entry) *tree.State {
	t.Helper()
	for _, e := range entries {
		must.OK(t, b.Add(e))
	}
	return finish(t, s, b)
}
