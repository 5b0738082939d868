package stores

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors/blame"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// Dump tells everything about a tree that a program could see.
func Dump(t *testing.T, s *snapshot.Store, st *tree.State) string {
	t.Helper()
	var b strings.Builder
	var inodes, bytes int64
	seen := map[uint64]bool{}
	err := st.Walk(context.Background(), s.Source(), tree.WalkOptions{}, func(at *tree.Path, n *tree.Inode) error {
		p := at.String()
		var content []byte
		if n.IsRegular() {
			content = make([]byte, n.Size())
			if got, err := n.Content.ReadAt(s.Source().Files, content, 0); err != nil || got != len(content) {
				return fmt.Errorf("%s: read %d of %d: %w", p, got, len(content), err)
			}
		}
		if !seen[n.Ino] {
			seen[n.Ino] = true
			inodes++
			if n.IsRegular() {
				bytes += n.Size()
			}
		}
		fmt.Fprintf(&b, "%s ino=%d mode=%o uid=%d nlink=%d links=%d size=%d blocks=%d mtime=%d ctime=%d xattrs=%v target=%s %x\n",
			p, n.Ino, n.Mode, n.UID, n.Nlink, len(n.Links), n.Size(), n.Blocks(), n.Mtime, n.Ctime, n.Xattrs, n.Target, content)
		return nil
	})
	must.OK(t, err)
	if inodes != st.Inodes || bytes != st.Bytes {
		t.Errorf("the tree has %d inodes and %d bytes, and counts %d and %d", inodes, bytes, st.Inodes, st.Bytes)
	}
	return b.String()
}

var passing = regexp.MustCompile(`(?m) (ino|ctime)=[0-9]+`)

// Lasting is a dump without what a restore creates again.
func Lasting(dump string) string { return passing.ReplaceAllString(dump, "") }

// Portrait is all workspaces and snapshots of a store.
func Portrait(t *testing.T, s *snapshot.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, w := range Workspaces(s) {
		st, err := w.State()
		must.OK(t, err)
		out[w.Name()] = Dump(t, s, st)
		out["changes of "+w.Name()] = Whose(t, w)
		for _, i := range append(w.List(), Find(t, w, "base")) {
			st, _, err := w.HoldState(i.Name)
			must.OK(t, err)
			out[fmt.Sprintf("%s@%s#%d", w.Name(), i.Name, i.Seq)] = Dump(t, s, st)
			if i.Files != st.Inodes-1 || i.Bytes != st.Bytes {
				t.Errorf("%s has %d files and %d bytes, and is listed with %d and %d", i.Name, st.Inodes-1, st.Bytes, i.Files, i.Bytes)
			}
		}
	}
	return out
}

// Workspaces returns main and all forks.
func Workspaces(s *snapshot.Store) []*snapshot.Workspace {
	all := []*snapshot.Workspace{s.Main()}
	for i := 0; i < len(all); i++ {
		for _, f := range all[i].Forks().List() {
			if w, ok := s.Workspace(f.View); ok {
				all = append(all, w)
			}
		}
	}
	return all
}

// Whose returns for each interval, newest first, which paths changed and by which actors.
func Whose(t *testing.T, w *snapshot.Workspace) string {
	t.Helper()
	var b strings.Builder
	for _, i := range w.Snapshots().Intervals() {
		fmt.Fprintf(&b, "%s %v:", i.To.Name, i.Actors)
		o, err := w.Snapshots().OpenInterval(i)
		must.OK(t, err)
		must.OK(t, o.EachChange(context.Background(), tree.DiffOptions{}, func(c blame.ActorsChange) error {
			fmt.Fprintf(&b, " %s=%s", c.Path, strings.Join(c.Actors, "+"))
			return nil
		}))
		o.Close()
		b.WriteString("\n")
	}
	return b.String()
}

// Find returns a snapshot that is there.
func Find(t *testing.T, w *snapshot.Workspace, name string) info.Info {
	t.Helper()
	i, err := w.Find(name)
	must.OK(t, err)
	return i
}

// Compare compares two portraits.
func Compare(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			a, b := strings.Split(got[name], "\n"), strings.Split(want[name], "\n")
			for i := range max(len(a), len(b)) {
				x, y := "", ""
				if i < len(a) {
					x = a[i]
				}
				if i < len(b) {
					y = b[i]
				}
				if x != y {
					t.Fatalf("%s: %s differs in line %d:\n got %.300s\nwant %.300s", what, name, i, x, y)
				}
			}
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d states instead of %d", what, len(got), len(want))
	}
}
