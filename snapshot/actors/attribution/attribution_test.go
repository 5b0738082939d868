package attribution_test

import (
	"slices"
	"testing"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors/attribution"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A workspace maps names to inode numbers, and attributes its own changes.
type workspace struct {
	attribution.Attribution
	inodes map[tree.Link]uint64
	now    int64
}

func (w *workspace) InoAt(name tree.Link) uint64 { return w.inodes[name] }
func (w *workspace) IsOrphan(ino uint64) bool    { return false }

// change makes a change one second after the previous one, and reports whether the change needed a snapshot.
func (w *workspace) change(actor string, c attribution.Change) (needed bool) {
	w.now += int64(time.Second)
	needed = w.NoteSnapshotIfNeeded(c, actor, w.now, w)
	if needed {
		w.EndInterval()
	}

	earlier := w.BeginChange(c, actor, w)
	if c.Kind != attribution.ChangeInode {
		w.Add(1, actor) // the directory
	}
	switch c.Kind {
	case attribution.AddName:
		w.inodes[c.Name] = c.Ino
		w.Add(c.Ino, actor)
	case attribution.ChangeInode:
		w.Add(c.Ino, actor)
	case attribution.RemoveName:
		delete(w.inodes, c.Name)
	case attribution.Rename:
		w.inodes[c.SecondName] = w.inodes[c.Name]
		delete(w.inodes, c.Name)
	}
	w.EndChange(c, earlier, actor, w)

	return needed
}

func name(s string) tree.Link { return tree.Link{Parent: 1, Name: s} }

func add(s string, ino uint64) attribution.Change {
	return attribution.Change{Kind: attribution.AddName, Name: name(s), Ino: ino}
}
func write(ino uint64) attribution.Change {
	return attribution.Change{Kind: attribution.ChangeInode, Ino: ino}
}
func remove(s string) attribution.Change {
	return attribution.Change{Kind: attribution.RemoveName, Name: name(s)}
}
func rename(from, to string) attribution.Change {
	return attribution.Change{Kind: attribution.Rename, Name: name(from), SecondName: name(to)}
}

// TestNeedsSnapshot: a change needs a snapshot if another actor has changed the inode, or has removed or replaced the
// name, and needs none for a name that is new since the snapshot and was removed again.
func TestNeedsSnapshot(t *testing.T) {
	before := map[tree.Link]uint64{name("old"): 2, name("other"): 3}
	for what, c := range map[string]struct {
		first []attribution.Change // by the actor a
		then  attribution.Change   // by the actor b
		want  bool
	}{
		"the same inode":             {[]attribution.Change{write(2)}, write(2), true},
		"another inode":              {[]attribution.Change{write(2)}, write(3), false},
		"removing a changed file":    {[]attribution.Change{write(2)}, remove("old"), true},
		"a removed name":             {[]attribution.Change{remove("old")}, add("old", 9), true},
		"a temporary name":           {[]attribution.Change{add("tmp", 8), remove("tmp")}, add("tmp", 9), false},
		"renaming over a file":       {[]attribution.Change{write(2)}, rename("other", "old"), true},
		"a file that a renamed over": {[]attribution.Change{add("tmp", 8), rename("tmp", "old")}, write(8), true},
		"a name from which a moved":  {[]attribution.Change{rename("old", "new")}, add("old", 9), true},
		"nothing that counts":        {[]attribution.Change{write(2)}, attribution.Change{Kind: attribution.NoChange, Ino: 2}, false},
	} {
		t.Run(what, func(t *testing.T) {
			w := &workspace{inodes: make(map[tree.Link]uint64)}
			for n, ino := range before {
				w.inodes[n] = ino
			}
			for _, f := range c.first {
				if w.change("a", f) {
					t.Errorf("the change %v of the first actor needs a snapshot", f)
				}
			}
			if got := w.change("b", c.then); got != c.want {
				t.Errorf("needs a snapshot: %v, want %v", got, c.want)
			}
		})
	}
}

// TestInheritActors: a file that is renamed over another one is by the actors of both.
func TestInheritActors(t *testing.T) {
	w := &workspace{inodes: map[tree.Link]uint64{name("file"): 2}}
	w.Add(2, "a")
	w.Add(7, "c") // with one actor alone nothing is inherited
	earlier := w.BeginChange(rename("tmp", "file"), "b", w)
	w.inodes[name("file")] = 8
	w.Add(8, "b")
	w.EndChange(rename("tmp", "file"), earlier, "b", w)
	if by := w.ActorsOf(8); !slices.Contains(by, "a") || !slices.Contains(by, "b") {
		t.Errorf("the new inode is by %v", by)
	}
}

// TestEndInterval: a snapshot forgets which names were removed and created before it.
func TestEndInterval(t *testing.T) {
	w := &workspace{inodes: map[tree.Link]uint64{name("old"): 2}}
	w.change("a", remove("old"))
	w.change("a", add("new", 8))
	w.EndInterval()
	w.change("a", write(3)) // so that b is not the only actor
	if w.change("b", add("old", 9)) {
		t.Error("a name that was removed before the snapshot needs another one")
	}

	w.EndInterval()
	w.change("a", remove("new"))
	if !w.change("b", add("new", 10)) {
		t.Error("a name that the snapshot has was removed, and needs no snapshot")
	}
}
