package graft_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// histories is how many random ones each test has.
func histories(t *testing.T, fn func(w *world)) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	for seed := range n {
		if fn(newWorld(t, rand.NewPCG(uint64(seed), 1))); t.Failed() {
			t.Fatalf("history %d", seed)
		}
	}
}

// grow makes a tree with some changes.
func (w *world) grow(changes int) *edited {
	d := w.newTree()
	for range changes {
		d.change(false)
	}
	return d
}

// target is the tree as what a graft changes.
func (d *edited) target() *graft.Target {
	base, _ := d.freeze()
	return &graft.Target{
		Editor: tree.Editor{State: d.e.State.Clone(), Source: d.src, Epoch: d.Epoch()},
		Base:   base, ReserveInos: d.ReserveInos,
	}
}

// graft makes steps, and makes their changes again in an equal tree, as recovery does.
func (d *edited) graft(o graft.Options, make func(*graft.Target, graft.Options) error) {
	d.t.Helper()
	t := d.target()
	again := d.target()
	before := d.read().text(true)
	var changes []graft.Op
	t.RecordOp = func(c *graft.Op) error {
		if c.Node != nil {
			n := *c.Node
			changes = append(changes, graft.Op{Kind: c.Kind, Parent: c.Parent, Name: c.Name, Ino: c.Ino, Node: &n})
		} else {
			changes = append(changes, *c)
		}
		return nil
	}
	d.time++
	o.Now = d.time
	d.check(make(t, o))
	d.e = &tree.Editor{State: again.Base, Source: d.src}
	if d.read().text(true) != before {
		d.t.Fatal("the state before has changed")
	}
	again.Time = d.time
	for _, c := range changes {
		d.check(c.Make(&again.Editor, func(uint64, string, *tree.Inode, bool) {}))
	}
	again.State.Depth = t.State.Depth
	d.same("the changes made again", again.State, t.State)
	d.e = &tree.Editor{State: t.State, Source: d.src, Epoch: d.Epoch()}
}

// same finds no difference between two states but for ctime.
func (d *edited) same(what string, a, b *tree.State) {
	d.t.Helper()
	d.check(tree.Diff(context.Background(), d.src, a, b, tree.DiffOptions{}, func(c tree.Change) error {
		d.t.Errorf("%s: %q differs in %v", what, c.Path.String(), c.Differences)
		return nil
	}))
}

func (d *edited) restore(to *tree.State, paths ...string) {
	d.t.Helper()
	r := graft.Restore{Snapshot: "s", State: to, Paths: paths}
	all, err := r.Steps(d.t.Context(), d.src, d.e.State, nil)
	d.check(err)
	d.graft(graft.Options{Source: to, Exact: len(paths) == 0, Touch: len(paths) > 0}, func(t *graft.Target, o graft.Options) error {
		_, err := t.Graft(d.t.Context(), all, o)
		return err
	})
}

// TestRestores: after a restore a tree is as it was, with all names of one file those of one
// file, and after one of some paths it is as it was there and as it is elsewhere.
func TestRestores(t *testing.T) {
	histories(t, func(w *world) {
		d := w.grow(12)
		then, was := d.freeze()
		for range 8 {
			d.change(false)
		}
		if at := pick(w.r, was.has(func(*entry) bool { return true })); at != "" && w.r.IntN(2) == 0 {
			for _, p := range d.m.below(at) {
				delete(d.m, p)
			}
			for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
				if d.m[dir] == nil || !d.m[dir].dir {
					d.m[dir] = was[dir]
				}
			}
			for _, p := range was.below(at) {
				d.m[p] = was[p]
			}
			d.restore(then, at)
			d.verify("the restore of "+at, false)
			return
		}
		d.m = was
		d.restore(then)
		d.verify("a restore", true)
		d.same("a restore", d.e.State, then)
	})
}

// TestImports: what is brought in comes over what is there, and a directory comes over nothing
// else.
func TestImports(t *testing.T) {
	histories(t, func(w *world) {
		d, from := w.grow(10), w.grow(10)
		source, in := from.freeze()
		refused := false
		for p, e := range in {
			refused = refused || d.m[p] != nil && d.m[p].dir != e.dir
		}
		over := &graft.Overlay{Base: d.e.State, Source: source}
		if refused {
			var conflict *graft.OverlayError
			if _, err := d.target().Overlay(t.Context(), over, graft.Options{}); !errors.As(err, &conflict) {
				t.Errorf("a directory on one side only: %v", err)
			}
			return
		}
		for p, e := range in {
			d.m[p] = e
		}
		d.graft(graft.Options{}, func(t *graft.Target, o graft.Options) error {
			_, err := t.Overlay(d.t.Context(), over, o)
			return err
		})
		d.verify("an import", true)
	})
}

// TestMerges: each path becomes what the one side made of it that changed it. If both did, it
// is a conflict. An undo is the merge of what was before with the present tree.
func TestMerges(t *testing.T) {
	histories(t, (*world).merge)
}

// FuzzMerge is TestMerges with choices from bytes.
func FuzzMerge(f *testing.F) {
	f.Add([]byte("a merge of two sides"))
	f.Add([]byte{0, 255, 1, 254, 7, 7, 7, 128, 64, 32, 3, 5, 200, 100})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		newWorld(t, &choices{bytes: bytes, rest: rand.NewPCG(1, 1)}).merge()
	})
}

// choices yield one byte a number, and random numbers afterwards.
type choices struct {
	bytes []byte
	rest  rand.Source
}

func (c *choices) Uint64() uint64 {
	n := c.rest.Uint64()
	if len(c.bytes) == 0 {
		return n
	}
	n = uint64(c.bytes[0])<<56 | n>>8
	c.bytes = c.bytes[1:]
	return n
}

// merge merges two random sides of a random tree.
func (w *world) merge() {
	w.all = false
	d := w.grow(10)
	base, before := d.freeze()
	other := d
	undo := w.r.IntN(2) == 0
	if !undo {
		other = d.fork()
	}
	for range 3 {
		other.change(true)
	}
	theirs, after := other.freeze()
	for range 3 {
		d.change(true)
	}
	if undo {
		base, before, theirs, after = theirs, after, base, before
	}
	rule := []threeway.Rule{threeway.KeepOurs, threeway.TakeTheirs}[w.r.IntN(2)]
	want, conflicts := merged(before, after, d.m, rule)
	p := &threeway.Plan{Source: w.src, Ours: d.e.State, Now: w.time, ByPath: !undo, Rule: func(string) threeway.Rule { return rule }}
	all, exact, err := p.TakeAll(w.t.Context(), threeway.Interval{Base: base, Theirs: theirs})
	w.check(err)
	if !slices.Equal(p.Conflicts, conflicts) {
		w.t.Errorf("in conflict are %q, not %q\nbefore\n%safter\n%snow\n%s", p.Conflicts, conflicts, before.text(true), after.text(true), d.m.text(true))
		return
	}
	d.m = want
	d.graft(graft.Options{Source: theirs, Exact: exact}, func(t *graft.Target, o graft.Options) error {
		_, err := t.Graft(d.t.Context(), all, o)
		return err
	})
	d.verify("a merge", false)
}

// merged is what a merge makes of each path.
func merged(base, theirs, ours model, rule threeway.Rule) (out model, conflicts []string) {
	same := func(a, b *entry) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
	out = make(model)
	all := make(map[string]bool)
	for _, m := range []model{base, theirs, ours} {
		for p := range m {
			all[p] = true
		}
	}
	for p := range all {
		e := ours[p]
		switch {
		case same(base[p], theirs[p]) || same(ours[p], theirs[p]):
		case same(base[p], ours[p]):
			e = theirs[p]
		default:
			if conflicts = append(conflicts, p); rule == threeway.TakeTheirs {
				e = theirs[p]
			}
		}
		if e != nil {
			out[p] = e
		}
	}
	slices.Sort(conflicts)
	return out, conflicts
}

// TestUnions: of each path a union has what the first state has that has anything there.
func TestUnions(t *testing.T) {
	histories(t, func(w *world) {
		d := w.grow(10)
		first, out := d.freeze()
		states := []*tree.State{first}
		for range 2 {
			for range 5 {
				d.change(false)
			}
			st, m := d.freeze()
			states = append(states, st)
			for _, p := range m.has(func(*entry) bool { return true }) {
				dir := path.Dir(p)
				if out[p] == nil && (dir == "." || out[dir] != nil && out[dir].dir) && !under(p, out) {
					out[p] = m[p]
				}
			}
		}
		st, err := graft.Union(t.Context(), w.src, w, states)
		w.check(err)
		u := &edited{w, &tree.Editor{State: st, Source: w.src}, out}
		u.verify("a union", false)
	})
}

// under reports whether a path lies below one that is no directory.
func under(p string, m model) bool {
	for i := range p {
		if e := m[p[:i]]; p[i] == '/' && e != nil && !e.dir {
			return true
		}
	}
	return strings.HasPrefix(p, "/")
}
