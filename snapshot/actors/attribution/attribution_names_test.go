package attribution_test

import (
	"context"
	"errors"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// replace writes a file as editors do: a new one, which is renamed.
func (a actor) replace(path, content string) {
	a.t.Helper()
	a.write(path+".tmp", content)
	a.rename(path+".tmp", path)
}

// TestActorsOfNames: two actors changed a path between the same two snapshots, though the file that
// one of them wrote is gone. The undo of one does not take what the other one did.
func TestActorsOfNames(t *testing.T) {
	s, dir := stores.Quiet(t)
	w := s.Main()
	a, b := as(t, w, "a"), as(t, w, "b")
	for _, name := range []string{"q", "r", "x", "y", "own"} {
		a.write(name, "1\n2\n3\n")
	}
	stores.Capture(t, w, "v1")
	a.replace("q", "a\n2\n3\n")
	b.replace("q", "a\nb\n3\n")
	a.replace("q", "a\nb\na\n")
	a.remove("r")
	b.write("r", "b")
	a.remove("r")
	a.write("r", "a")
	b.replace("x", "b")
	d1, x := a.at("x")
	d2, y := a.at("y")
	_, err := a.f.Rename(d1, x, d2, y, 2, actors.Caller{}) // RENAME_EXCHANGE
	must.OK(t, err)
	a.replace("x", "a")
	a.replace("own", "a")
	v1 := "v1 [a]: own=a q=a r=a x=a y=a\n"
	lasts(t, s, dir, " [a b]: own=a q=a+b r=a+b x=a+b y=a+b\n"+v1)
	res, err := w.Snapshots().UndoBy(context.Background(), snapshot.UndoByOptions{Actor: "a", Merge: stores.MergeLines, Caller: actors.Caller{Actor: "o"}})
	if errs.KindOf(err) != errs.Conflict || len(res.Shared) != 4 || len(res.Conflicts) == 0 {
		t.Errorf("the undo of one of two actors: %+v, %v", res, err)
	}
	lasts(t, s, dir, " [a b]: own=a q=a+b r=a+b x=a+b y=a+b\n"+v1)
}

// TestActorsOfMergedNames: what a merge brought is by the actors in the fork, however the
// workspace's file and the fork's were replaced.
func TestActorsOfMergedNames(t *testing.T) {
	type edit func(a actor, content string)
	put := func(a actor, content string) { a.write("f", content) }
	rep := func(a actor, content string) { a.replace("f", content) }
	for name, of := range map[string][2]edit{"put put": {put, put}, "put rep": {put, rep}, "rep put": {rep, put}, "rep rep": {rep, rep}} {
		t.Run(name, func(t *testing.T) {
			s, dir := stores.Quiet(t)
			w := s.Main()
			as(t, w, "a").write("f", "1\n2\n3\n")
			stores.Capture(t, w, "v1")
			f, err := w.Forks().New(snapshot.ForkOptions{Name: "f"})
			must.OK(t, err)
			of[0](as(t, w, "bob"), "b\n2\n3\n")
			of[1](as(t, f, "carol"), "1\n2\nc\n")
			res, err := w.Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: "f", Merge: stores.MergeLines, Caller: actors.Caller{Actor: "op"}})
			must.OK(t, err)
			lasts(t, s, dir, " [carol]: f=carol\n"+res.Undo+" [bob]: f=bob\nv1 [a]: f=a\n")
			_, err = w.Snapshots().UndoBy(context.Background(), snapshot.UndoByOptions{Actor: "carol", Merge: stores.MergeLines, Caller: actors.Caller{Actor: "op"}})
			must.OK(t, err)
			if n, err := w.State(); errors.Join(err) == nil {
				in, err := n.InodeAt(s.Source(), "f")
				must.OK(t, err)
				text := make([]byte, in.Size())
				_, err = in.Content.ReadAt(s.Source().Files, text, 0)
				must.OK(t, err)
				stores.Want(t, "the file", string(text), "b\n2\n3\n")
			}
		})
	}
}

// TestUndoOfNoFile: a decision is only about a regular file that the workspace has.
func TestUndoOfNoFile(t *testing.T) {
	s, _ := stores.Quiet(t)
	w := s.Main()
	as(t, w, "a").write("f", "1\n")
	for _, path := range []string{"none", "."} {
		o := snapshot.UndoByOptions{Actor: "a", Contents: map[string]threeway.Decision{path: {Text: "2\n"}}}
		if _, err := w.Snapshots().UndoBy(context.Background(), o); !errors.Is(err, threeway.ErrStaleDecision) {
			t.Errorf("a decision about %q: %v", path, err)
		}
	}
}
