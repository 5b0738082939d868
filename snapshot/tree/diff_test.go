package tree

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// flat is a state as a plain map, made by a full walk.
type flat struct {
	files map[string]*Inode
	data  map[string]string // of regular files
	paths map[uint64][]string
}

func flatten(t testing.TB, src *Source, s *State) *flat {
	t.Helper()
	f := &flat{files: make(map[string]*Inode), data: make(map[string]string), paths: make(map[uint64][]string)}
	err := s.Walk(context.Background(), src, WalkOptions{}, func(at *Path, n *Inode) error {
		path := at.String()
		f.files[path] = n
		f.paths[n.Ino] = append(f.paths[n.Ino], path)
		if n.IsRegular() {
			f.data[path] = readAll(t, src, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// naiveDiff is what Diff promises, by looking at everything.
func naiveDiff(a, b *flat) map[string]Differences {
	out := make(map[string]Differences)
	for p, x := range a.files {
		y := b.files[p]
		if y == nil {
			out[p] = PathRemoved
			continue
		}
		var w Differences
		if x.Mode&^unix.S_IFMT != y.Mode&^unix.S_IFMT {
			w |= ModeDiffers
		}
		if x.UID != y.UID || x.GID != y.GID {
			w |= OwnerDiffers
		}
		if x.Mtime != y.Mtime {
			w |= MtimeDiffers
		}
		if fmt.Sprint(x.Xattrs) != fmt.Sprint(y.Xattrs) {
			w |= XattrsDiffer
		}
		if x.Type() != y.Type() {
			w |= TypeDiffers
		} else {
			if x.Target != y.Target {
				w |= TargetDiffers
			}
			if x.Rdev != y.Rdev {
				w |= RdevDiffers
			}
			if a.data[p] != b.data[p] {
				w |= DataDiffers
			}
		}
		if !x.IsDir() && !y.IsDir() && naiveLinks(a, b, x, y) {
			w |= LinksDiffer
		}
		if w != 0 {
			out[p] = w
		}
	}
	for p := range b.files {
		if a.files[p] == nil {
			out[p] = PathAdded
		}
	}
	return out
}

func naiveLinks(a, b *flat, x, y *Inode) bool {
	if x.Nlink != y.Nlink {
		return true
	}
	if x.Ino == y.Ino {
		return false
	}
	for q, u := range a.files {
		v := b.files[q]
		if v != nil && !u.IsDir() && !v.IsDir() && (u.Ino == x.Ino) != (v.Ino == y.Ino) {
			return true
		}
	}
	return false
}

func underAny(path string, only []string) bool {
	for _, o := range only {
		if path == o || strings.HasPrefix(path, o+"/") {
			return true
		}
	}
	return false
}

// checkDiff compares Diff with naiveDiff, with and without SkipData.
func checkDiff(t testing.TB, src *Source, a, b, renumbered *State, fa, fb *flat, only []string) {
	t.Helper()
	want := naiveDiff(fa, fb)
	checkDiffAgainst(t, src, a, b, DiffOptions{Paths: only, Renumbered: renumbered}, fa, fb, want)
	for p, w := range want {
		if w&^(DataDiffers|LinksDiffer) != 0 {
			want[p] = w &^ DataDiffers
		}
	}
	checkDiffAgainst(t, src, a, b, DiffOptions{Paths: only, Renumbered: renumbered, SkipData: true}, fa, fb, want)
}

func checkDiffAgainst(t testing.TB, src *Source, a, b *State, o DiffOptions, fa, fb *flat, want map[string]Differences) {
	t.Helper()
	only := o.Paths
	if len(only) > 0 {
		maps.DeleteFunc(want, func(p string, _ Differences) bool { return !underAny(p, only) })
	}
	var order []string
	err := Diff(context.Background(), src, a, b, o, func(c Change) error {
		path := c.Path.String()
		order = append(order, path)
		if w, ok := want[path]; !ok || w != c.Differences {
			t.Errorf("%q: Diff says %b, a full walk %b", path, c.Differences, w)
		}
		if (c.Before == nil) != (fa.files[path] == nil) || (c.After == nil) != (fb.files[path] == nil) {
			t.Errorf("%q: inodes %v, %v", path, c.Before, c.After)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(order, comparePaths) {
		t.Errorf("paths not in order: %q", order)
	}
	for p, w := range want {
		if !slices.Contains(order, p) {
			t.Errorf("%q: Diff says nothing, a full walk %b", p, w)
		}
	}
	if len(slices.Compact(order)) != len(want) {
		t.Errorf("%d changes, want %d", len(order), len(want))
	}
}

// randomOp changes the tree in one random way.
func randomOp(f *testFS, r *rand.Rand) {
	type place struct {
		dir  uint64
		name string
		n    *Inode
	}
	var all []place
	dirs := []uint64{RootIno}
	check(f.s.Walk(context.Background(), f.src, WalkOptions{}, func(at *Path, n *Inode) error {
		if n.IsDir() && n.Ino != RootIno {
			dirs = append(dirs, n.Ino)
		}
		for _, e := range must(n.Dir.sorted(f.src)) {
			all = append(all, place{n.Ino, e.Name, must(f.s.Get(f.src, e.Ino))})
		}
		return nil
	}))
	dir := dirs[r.IntN(len(dirs))]
	name := string(rune('a' + r.IntN(6)))
	_, taken := f.lookup(dir, name)
	var p place
	if len(all) > 0 {
		p = all[r.IntN(len(all))]
	}
	switch op := r.IntN(20); {
	case op < 3 && !taken:
		f.create(dir, name, unix.S_IFDIR|0o755)
	case op < 6 && !taken:
		ino := f.create(dir, name, unix.S_IFREG|0o644)
		if r.IntN(3) > 0 {
			f.write(ino, 0, fmt.Sprint("data ", r.IntN(3)))
		}
	case op == 6 && !taken:
		f.create(dir, name, unix.S_IFLNK|0o777)
	case op == 7 && !taken:
		ino := f.create(dir, name, unix.S_IFCHR|0o600)
		f.own(ino).Rdev = uint32(r.IntN(3))
	case p.n == nil:
	case op == 8 && !taken && !p.n.IsDir():
		f.link(p.n.Ino, dir, name)
	case op <= 10 && !taken && (!p.n.IsDir() || !f.inside(dir, p.n.Ino)):
		f.rename(p.dir, p.name, dir, name)
	case op == 11 && (!p.n.IsDir() || r.IntN(3) == 0):
		f.remove(p.dir, p.name)
	case op == 12 && p.n.IsRegular():
		f.write(p.n.Ino, int64(r.IntN(3)), fmt.Sprint(r.IntN(3)))
	case op == 13 && !p.n.IsDir():
		f.replace(p.dir, p.name)
	case op == 14:
		n := f.own(p.n.Ino)
		switch r.IntN(4) {
		case 0:
			n.Mode ^= 0o111
		case 1:
			n.UID ^= 1
		case 2:
			n.Xattrs = []Xattr{{"user.x", []byte{byte(r.IntN(3))}}}
		case 3:
			n.Atime++
		}
	case op >= 18 && p.n.IsDir(): // another directory with the same entries
		f.rename(p.dir, p.name, p.dir, "old")
		d := f.create(p.dir, p.name, p.n.Mode)
		f.own(d).Mtime = p.n.Mtime
		for _, e := range must(p.n.Dir.sorted(f.src)) {
			f.rename(p.n.Ino, e.Name, d, e.Name)
		}
		f.remove(p.dir, "old")
	case op >= 16:
		q := all[r.IntN(len(all))]
		if p.n.IsDir() && f.inside(q.dir, p.n.Ino) || q.n.IsDir() && f.inside(p.dir, q.n.Ino) || p.n.Ino == q.n.Ino {
			return
		}
		f.rename(p.dir, p.name, p.dir, "swap")
		f.rename(q.dir, q.name, p.dir, p.name)
		f.rename(p.dir, "swap", q.dir, q.name)
	case op == 15 && r.IntN(3) == 0: // exchange the type: a file for a directory or back
		f.remove(p.dir, p.name)
		if p.n.IsDir() {
			f.create(p.dir, p.name, unix.S_IFREG|0o644)
		} else {
			d := f.create(p.dir, p.name, unix.S_IFDIR|0o755)
			f.write(f.create(d, "kid", unix.S_IFREG|0o644), 0, "kid")
		}
	}
}

// TestDiffAgainstFullWalk compares all pairs of the states of a random history,
// each in memory, sealed or loaded cold.
func TestDiffAgainstFullWalk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		versions := rapid.IntRange(2, 4).Draw(rt, "versions")
		forms := rapid.SliceOfN(rapid.SampledFrom([]string{"memory", "sealed", "cold"}), versions, versions).Draw(rt, "forms")
		limited := rapid.Bool().Draw(rt, "limited")
		for round := range uint64(8) {
			r := rand.New(rand.NewPCG(seed, round))
			diffHistory(t, r, forms, limited)
			if t.Failed() {
				rt.Fatalf("round %d", round)
			}
		}
	})
}

func diffHistory(t *testing.T, r *rand.Rand, forms []string, limited bool) {
	f := newTestFS()
	type version struct {
		s          *State
		f          *flat
		renumbered *State // what the next version began as
	}
	var vs []version
	for _, form := range forms {
		for range 1 + r.IntN(60) {
			randomOp(f, r)
		}
		s := f.freeze()
		v := version{s: s, f: flatten(t, f.src, s)}
		switch form {
		case "sealed":
			f.seal(t, s)
		case "cold":
			v.s = f.load(t, f.src, f.seal(t, s))
		}
		if r.IntN(2) == 0 {
			renumber(f, r)
			v.renumbered = f.freeze()
			if form == "cold" {
				v.renumbered = f.load(t, f.src, f.seal(t, v.renumbered))
			}
		}
		vs = append(vs, v)
	}
	var only []string
	if paths := slices.Sorted(maps.Keys(vs[0].f.files)); limited && len(paths) > 1 {
		for range 1 + r.IntN(3) {
			only = append(only, paths[1+r.IntN(len(paths)-1)])
		}
	}
	src := f.source()
	for _, a := range vs {
		for _, b := range vs {
			checkDiff(t, src, a.s, b.s, nil, a.f, b.f, only)
			if b.renumbered != nil {
				checkDiff(t, src, a.s, b.s, b.renumbered, a.f, b.f, only)
			}
		}
	}
}

// renumber gives some files other inodes, as a restore does: the tree stays
// equal to what it was.
func renumber(f *testFS, r *rand.Rand) {
	type place struct {
		dir  uint64
		name string
	}
	var files []place
	check(f.s.Walk(context.Background(), f.src, WalkOptions{}, func(_ *Path, n *Inode) error {
		if !n.IsDir() && n.Nlink == 1 && r.IntN(2) == 0 {
			files = append(files, place{n.Links[0].Parent, n.Links[0].Name})
		}
		return nil
	}))
	for _, p := range files {
		mtime := must(f.s.Get(f.src, p.dir)).Mtime
		f.replace(p.dir, p.name)
		f.own(p.dir).Mtime = mtime
	}
}

// TestDiffTwinCost shows that what a restore put in place is not looked at
// again at the next.
func TestDiffTwinCost(t *testing.T) {
	f := newTestFS()
	for i := range 64 {
		d := f.create(RootIno, fmt.Sprint("dir", i), unix.S_IFDIR|0o755)
		for j := range 100 {
			f.create(d, fmt.Sprint("file", j), unix.S_IFREG|0o644)
		}
	}
	b := f.freeze()
	f.seal(t, b)
	renumber(f, rand.New(rand.NewPCG(1, 1)))
	renumbered := f.freeze()
	e, _ := f.lookup(RootIno, "dir7")
	e, _ = f.lookup(e.Ino, "file7")
	f.write(e.Ino, 0, "changed")
	a := f.freeze()
	compare := func(renumbered *State) (allocs float64) {
		return testing.AllocsPerRun(1, func() {
			n := 0
			check(Diff(context.Background(), f.src, a, b, DiffOptions{Renumbered: renumbered}, func(Change) error { n++; return nil }))
			if n != 1 {
				t.Errorf("%d changes, want 1", n)
			}
		})
	}
	if with, without := compare(renumbered), compare(nil); with > without/50 {
		t.Errorf("Diff allocates %.0f times with a renumbered, %.0f without", with, without)
	}
}

func TestDiffCost(t *testing.T) {
	f := newTestFS()
	var dirs []uint64
	for i := range 100 {
		d := f.create(RootIno, fmt.Sprint("dir", i), unix.S_IFDIR|0o755)
		dirs = append(dirs, d)
		for j := range 100 {
			f.create(d, fmt.Sprint("file", j), unix.S_IFREG|0o644)
		}
	}
	big := f.create(RootIno, "big", unix.S_IFDIR|0o755)
	for j := range 10000 {
		f.create(big, fmt.Sprint("file", j), unix.S_IFREG|0o644)
	}
	ida := f.seal(t, f.freeze())

	e, _ := f.lookup(big, "file77")
	f.write(e.Ino, 0, "changed")
	f.unlink(big, "file78")
	f.create(big, "new", unix.S_IFREG|0o644)
	f.rename(RootIno, "dir5", dirs[6], "moved")
	// The rename alone is 2×101 paths.
	const want = 202 + 3 + 3
	b := f.freeze()
	for _, form := range []string{"in memory", "sealed", "cold"} {
		src := f.source()
		switch form {
		case "sealed":
			f.seal(t, b)
		case "cold":
			id, _ := b.ID()
			b = f.load(t, src, id)
		}
		a := f.load(t, src, ida)
		gets, n := f.store.gets, 0
		if err := Diff(context.Background(), src, a, b, DiffOptions{}, func(c Change) error {
			n++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if n != want {
			t.Errorf("%s: %d changes, want %d", form, n, want)
		}
		if cost := f.store.gets - gets; cost > 80 {
			t.Errorf("%s: Diff loaded %d of %d objects", form, cost, len(f.store.objects))
		}
	}
}

// TestDiffSkipsData: with SkipData a file that was written again is reported, and no
// content is read for it.
func TestDiffSkipsData(t *testing.T) {
	f := newTestFS()
	ino := f.create(RootIno, "file", unix.S_IFREG|0o644)
	f.write(ino, 0, strings.Repeat("x", 100_000))
	id := f.seal(t, f.freeze())
	f.write(ino, 0, strings.Repeat("x", 99_999))
	b := f.freeze()
	reads := make(map[bool]int)
	for _, skip := range []bool{false, true} {
		src := f.source()
		a := f.load(t, src, id)
		var what Differences
		note := func(c Change) error {
			what |= c.Differences
			return nil
		}
		gets := f.store.gets
		if err := Diff(context.Background(), src, a, b, DiffOptions{SkipData: skip}, note); err != nil || what != MtimeDiffers {
			t.Errorf("skip %v: %b, %v", skip, what, err)
		}
		reads[skip] = f.store.gets - gets
	}
	if reads[true] >= reads[false] {
		t.Errorf("%d objects were read, %d without SkipData", reads[true], reads[false])
	}
}

func TestDiffStops(t *testing.T) {
	f := newTestFS()
	a := f.freeze()
	for i := range 10 {
		f.create(RootIno, fmt.Sprint(i), unix.S_IFREG|0o644)
	}
	b := f.freeze()
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	err := Diff(ctx, f.src, a, b, DiffOptions{}, func(Change) error {
		n++
		cancel()
		return nil
	})
	if err != context.Canceled || n != 1 {
		t.Errorf("after cancel: %d changes, error %v", n, err)
	}
	stop := fmt.Errorf("enough")
	if err := Diff(context.Background(), f.src, a, b, DiffOptions{}, func(Change) error { return stop }); err != stop {
		t.Errorf("error %v, want the function's own", err)
	}
}
