package attribution_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// An actor changes files through the forest.
type actor struct {
	t    *testing.T
	f    live.Writer
	root live.NodeID
}

func as(t *testing.T, w *snapshot.Workspace, name string) actor {
	return actor{t, w.Store().Forest().WithActor(name), w.Root()}
}

func (a actor) at(path string) (dir live.NodeID, name string) {
	a.t.Helper()
	dir = a.root
	parts := strings.Split(path, "/")
	for _, p := range parts[:len(parts)-1] {
		n, err := a.f.Lookup(dir, p)
		must.OK(a.t, err)
		dir = n.ID
	}
	return dir, parts[len(parts)-1]
}

func (a actor) must(err error) {
	a.t.Helper()
	must.OK(a.t, err)
}

func (a actor) write(path, content string) live.NodeID {
	a.t.Helper()
	dir, name := a.at(path)
	n, err := a.f.Lookup(dir, name)
	if errors.Is(err, errs.NotExist) {
		n, err = a.f.Create(dir, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
	}
	a.must(err)
	_, err = a.f.Write(n.ID, []byte(content), 0, false)
	a.must(err)
	return n.ID
}

func (a actor) mkdir(path string) {
	a.t.Helper()
	dir, name := a.at(path)
	_, err := a.f.Create(dir, name, live.NewNode{Mode: unix.S_IFDIR | 0o755})
	a.must(err)
}

func (a actor) rename(from, to string) {
	a.t.Helper()
	d1, n1 := a.at(from)
	d2, n2 := a.at(to)
	_, err := a.f.Rename(d1, n1, d2, n2, 0, actors.Caller{})
	a.must(err)
}

func (a actor) remove(path string) {
	a.t.Helper()
	dir, name := a.at(path)
	_, err := a.f.Unlink(dir, name)
	a.must(err)
}

func (a actor) chmod(path string, mode uint32) {
	a.t.Helper()
	dir, name := a.at(path)
	n, err := a.f.Lookup(dir, name)
	a.must(err)
	_, err = a.f.SetAttr(n.ID, live.SetAttr{Mode: &mode})
	a.must(err)
}

// lasts checks what is known of the actors now, after a kill, and after a checkpoint and a kill.
func lasts(t *testing.T, s *snapshot.Store, dir, expected string) {
	t.Helper()
	stores.Want(t, "now", stores.Whose(t, s.Main()), expected)
	stores.Want(t, "after a kill", stores.Whose(t, stores.AfterKill(t, s, dir).Main()), expected)
	must.OK(t, s.Checkpoint(context.Background()))
	stores.Want(t, "after a checkpoint", stores.Whose(t, s.Main()), expected)
	stores.Want(t, "after a checkpoint and a kill", stores.Whose(t, stores.AfterKill(t, s, dir).Main()), expected)
	_, err := s.GC(context.Background(), nil)
	must.OK(t, err)
	stores.Want(t, "after a gc", stores.Whose(t, s.Main()), expected)
}

func TestActors(t *testing.T) {
	s, dir := stores.Quiet(t)
	w := s.Main()
	a, b, c := as(t, w, "a"), as(t, w, "b/1"), as(t, w, "c")
	a.mkdir("d")
	a.mkdir("d/e")
	a.write("d/e/x", "1")
	a.write("f", "1")
	b.write("g", "1")
	b.write("d/y", "1")
	stores.Capture(t, w, "v1")
	a.write("f", "2")
	b.rename("d", "moved")
	c.write("moved/e/x", "2")
	c.chmod("g", 0o600)
	stores.Capture(t, w, "v2")
	b.write("tmp", "3")
	b.rename("tmp", "f") // as an editor saves
	a.remove("moved/y")
	c.write("h", "1")
	c.remove("h")
	v1 := "v1 [a b/1]: d=a d/e=a d/e/x=a d/y=b/1 f=a g=b/1\n"
	v2 := "v2 [a b/1 c]: d=b/1 d/e=b/1 d/e/x=b/1+c d/y=b/1 f=a g=c moved=b/1 moved/e=b/1 moved/e/x=b/1+c moved/y=b/1\n"
	lasts(t, s, dir, " [a b/1 c]: f=b/1 moved/y=a\n"+v2+v1)
	a.write("k", "1") // after the checkpoint, in the same interval
	lasts(t, s, dir, " [a b/1 c]: f=b/1 k=a moved/y=a\n"+v2+v1)
	stores.Capture(t, w, "v3")
	lasts(t, s, dir, " []:\nv3 [a b/1 c]: f=b/1 k=a moved/y=a\n"+v2+v1)
}

// TestActorsOfMappings: what the kernel writes back without a known process is by the process that wrote
// the file last.
func TestActorsOfMappings(t *testing.T) {
	s, dir := stores.Quiet(t)
	w := s.Main()
	as(t, w, "a").write("f", "1")
	stores.Capture(t, w, "v1")
	as(t, w, "").write("f", "2")
	as(t, w, "").write("g", "2")
	lasts(t, s, dir, " [a unknown]: f=a g=unknown\nv1 [a]: f=a\n")
}

// TestActorsOfRestores: a restore is by the actor that asked for it, and what it did not
// touch stays with those that changed it.
func TestActorsOfRestores(t *testing.T) {
	s, dir := stores.Quiet(t)
	w := s.Main()
	a, b := as(t, w, "a"), as(t, w, "b")
	a.mkdir("d")
	a.write("d/x", "1")
	a.write("f", "1")
	stores.Capture(t, w, "v1")
	b.write("f", "2")
	b.remove("d/x")
	b.write("g", "1")
	res, err := w.Restore(context.Background(), snapshot.RestoreOptions{Name: "v1", Caller: actors.Caller{Actor: "r"}})
	must.OK(t, err)
	a.write("n", "1")
	pre := res.Undo + " [b]: d/x=b f=b g=b\nv1 [a]: d=a d/x=a f=a\n"
	lasts(t, s, dir, " [a r]: d/x=r f=r g=r n=a\n"+pre)
	// A file that was restored has another inode; changes are by those who make them.
	b.write("f", "3")
	lasts(t, s, dir, " [a b r]: d/x=r f=b+r g=r n=a\n"+pre)
}

// TestActorsOfForks: a merge brings the actors along, and the last state of a fork keeps them.
func TestActorsOfForks(t *testing.T) {
	s, dir := stores.Quiet(t)
	w := s.Main()
	as(t, w, "a").mkdir("d")
	as(t, w, "a").write("d/x", "1")
	as(t, w, "a").write("f", "1")
	as(t, w, "a").write("z", "1")
	stores.Capture(t, w, "v1")
	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f"})
	must.OK(t, err)
	stores.Want(t, "a new fork", stores.Whose(t, f), " []:\n")
	as(t, f, "b").write("f", "2")
	as(t, f, "c").write("n", "2")
	stores.Capture(t, f, "in")
	as(t, f, "c").rename("d", "e")
	as(t, f, "b").remove("z")
	as(t, w, "a").write("own", "1")
	stores.Want(t, "the fork", stores.Whose(t, f), " [b c]: d=c d/x=c e=c e/x=c z=b\nin [b c]: f=b n=c\n")
	res, err := w.Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: "f", Caller: actors.Caller{Actor: "m"}})
	must.OK(t, err)
	expected := " [b c]: d=c d/x=c e=c e/x=c f=b n=c z=b\n" + res.Undo + " [a]: own=a\nv1 [a]: d=a d/x=a f=a z=a\n"
	lasts(t, s, dir, expected)
	last, err := w.Forks().End("f", actors.Caller{})
	must.OK(t, err)
	if !slices.Equal(last.Actors, []string{"b", "c"}) {
		t.Errorf("what the fork left is by %v", last.Actors)
	}
	lasts(t, s, dir, expected)
}

// TestActorsOfPathsThatWereFiles: a merge changes a file in a directory, at whose path the base
// has a file with two names.
func TestActorsOfPathsThatWereFiles(t *testing.T) {
	s, dir := stores.Quiet(t)
	w := s.Main()
	id := as(t, w, "a").write("d", "1")
	_, err := s.Forest().Link(id, w.Root(), "other")
	must.OK(t, err)
	f, err := w.Forks().New(snapshot.ForkOptions{Name: "f"})
	must.OK(t, err)
	for ws, who := range map[*snapshot.Workspace]string{w: "a", f: "b"} {
		as(t, ws, who).remove("d")
		as(t, ws, who).mkdir("d")
		as(t, ws, who).write("d/x", who)
	}
	res, err := w.Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: "f", MergeRules: snapshot.MergeRules{Theirs: true}, Caller: actors.Caller{Actor: "m"}})
	must.OK(t, err)
	lasts(t, s, dir, " [b]: d/x=b\n"+res.Undo+" [a]: d=a d/x=a other=a\n")
}

// TestActorsHandedOn: what a removed snapshot knew passes to the next newer one.
func TestActorsHandedOn(t *testing.T) {
	s, dir := stores.Quiet(t)
	w := s.Main()
	for i := range 40 {
		who := fmt.Sprintf("a/%d", i%3)
		as(t, w, who).write(fmt.Sprintf("f%02d", i), "1")
		stores.Capture(t, w, fmt.Sprintf("v%d", i))
		if i%5 == 0 {
			must.OK(t, s.Checkpoint(context.Background()))
		}
	}
	var gone []string
	for i := range 39 {
		gone = append(gone, fmt.Sprintf("v%d", i))
	}
	for _, names := range [][]string{gone[3:4], gone[:3], gone[4:20], gone[20:30], gone[30:]} {
		_, err := w.Snapshots().DeleteAll(names, actors.Caller{})
		must.OK(t, err)
	}
	all := ""
	for i := range 40 {
		all += fmt.Sprintf(" f%02d=a/%d", i, i%3)
	}
	lasts(t, s, dir, " []:\nv39 [a/0 a/1 a/2]:"+all+"\n")
	_, err := w.Snapshots().DeleteAll([]string{"v39"}, actors.Caller{})
	must.OK(t, err)
	lasts(t, s, dir, " [a/0 a/1 a/2]:"+all+"\n")
	as(t, w, "b").write("f00", "2")
	stores.Capture(t, w, "fresh") // not stored yet
	_, err = w.Snapshots().DeleteAll([]string{"fresh"}, actors.Caller{})
	must.OK(t, err)
	lasts(t, s, dir, " [a/0 a/1 a/2 b]:"+strings.Replace(all, "f00=a/0", "f00=a/0+b", 1)+"\n")
	stores.Capture(t, w, "last")
	lasts(t, s, dir, " []:\nlast [a/0 a/1 a/2 b]:"+strings.Replace(all, "f00=a/0", "f00=a/0+b", 1)+"\n")
}

// TestActorsOfCompaction: one snapshot that was made of several has the actors of all, and
// is no interval of its own.
func TestActorsOfCompaction(t *testing.T) {
	s, dir := stores.Quiet(t)
	w := s.Main()
	for _, who := range []string{"a", "b", "c"} {
		as(t, w, who).write(who, "1")
		stores.Capture(t, w, "of-"+who)
	}
	made, err := w.Snapshots().Compact(context.Background(), snapshot.CompactOptions{Names: []string{"of-a", "of-b"}, Name: "one"})
	must.OK(t, err)
	if !slices.Equal(made.Actors, []string{"a", "b"}) {
		t.Errorf("made of what %v did", made.Actors)
	}
	lasts(t, s, dir, " []:\nof-c [a b c]: a=a b=b c=c\n")
	if i := stores.Find(t, stores.AfterKill(t, s, dir).Main(), "one"); !slices.Equal(i.Actors, []string{"a", "b"}) {
		t.Errorf("after a kill by %v", i.Actors)
	}
}

// TestBetweenActorsAfterRemount: also of what another actor changed before the store was
// opened.
func TestBetweenActorsAfterRemount(t *testing.T) {
	dir := t.TempDir()
	s := stores.Open(t, dir)
	as(t, s.Main(), "a").write("f", "1")
	as(t, s.Main(), "a").write("g", "1")
	must.OK(t, s.Close())
	s = stores.Open(t, dir)
	as(t, s.Main(), "b").write("f", "2")
	if list := s.Main().List(); len(list) != 1 || list[0].Kind != info.KindActor {
		t.Errorf("snapshots: %v", list)
	}
	as(t, s.Main(), "b").write("h", "1")
	lasts(t, s, dir, " [b]: f=b h=b\ncp-1 [a]: f=a g=a\n")
}

// TestBetweenActors: a change of what another actor changed is preceded by a snapshot, at
// most once a second.
func TestBetweenActors(t *testing.T) {
	s := stores.Open(t, t.TempDir())
	w := s.Main()
	a, b := as(t, w, "a"), as(t, w, "b")
	taken := func(what string, n int) {
		t.Helper()
		got := 0
		for _, i := range w.List() {
			if i.Kind == info.KindActor {
				got++
			}
		}
		if got != n {
			t.Errorf("%s: %d snapshots, want %d", what, got, n)
		}
	}
	for _, f := range []string{"f", "g", "h", "i"} {
		a.write(f, "1")
	}
	a.write("f", "2")
	b.write("own", "1")
	b.mkdir("d")
	a.write("d/in", "1") // an entry of another actor's directory
	taken("each changed its own", 0)
	b.write("f", "3")
	taken("another one's file", 1)
	a.write("f", "4")
	b.chmod("f", 0o600)
	taken("within a second", 1)
	stores.Want(t, "both changed it", strings.SplitN(stores.Whose(t, w), "\n", 2)[0], " [a b]: f=a+b")
	stores.Capture(t, w, "all")
	for name, change := range map[string]func(a, b actor){
		"removed":  func(a, b actor) { a.remove("g"); b.write("g", "1") },
		"renamed":  func(a, b actor) { a.rename("h", "moved"); b.remove("moved") },
		"replaced": func(a, b actor) { a.write("tmp", "1"); b.write("i", "2"); a.rename("tmp", "i") },
		"vacated":  func(a, b actor) { a.rename("own", "other"); b.write("new", "1"); b.rename("new", "own") },
	} {
		f, err := w.Forks().New(snapshot.ForkOptions{Name: name, Snapshot: "all"}) // which has its own second
		must.OK(t, err)
		before := len(f.List())
		change(as(t, f, "a"), as(t, f, "b"))
		if got := len(f.List()) - before; got != 1 {
			t.Errorf("%s: %d snapshots", name, got)
		}
	}
}

// TestUnknownActors: of what a store has from before there were actors nothing is known.
func TestUnknownActors(t *testing.T) {
	s, dir := stores.Quiet(t)
	stores.Write(t, s, s.Main().Root(), "f", "1")
	stores.Capture(t, s.Main(), "v1")
	lasts(t, s, dir, " []:\nv1 ["+actors.Unknown+"]: f="+actors.Unknown+"\n")
}
