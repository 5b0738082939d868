package live_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/must"
)

// stepsEach is how many steps a history has on average. Each history begins with
// an empty store.
const stepsEach = 200

// TestForestAgainstModel makes random histories of a forest and of a simple model
// of it, and compares both after every step: 10,000 steps, or a million in the long
// form. STEPS chooses another number.
//
// There is no mount: what the kernel has open is said by system.hold. Package
// snapshot makes captures, restores, forks and merges; system is all of it that
// this test knows.
func TestForestAgainstModel(t *testing.T) {
	steps := 6_000
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		steps = 1_000_000
	}
	if s := os.Getenv("STEPS"); s != "" {
		_, err := fmt.Sscan(s, &steps)
		must.OK(t, err)
	}
	for name, value := range map[string]int{"rapid.checks": max(1, steps/stepsEach), "rapid.steps": stepsEach} {
		was := flag.Lookup(name).Value.String()
		must.OK(t, flag.Set(name, fmt.Sprint(value)))
		defer flag.Set(name, was)
	}
	total := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		y, err := newSystem(t)
		must.OK(t, err)
		w := &world{y: y, tb: t, t: rt, trees: map[string]*node{"": newDir(0o755)}, snaps: map[string]map[string]*captured{"": {}}, sent: map[uint64]outcome{}}
		defer func() {
			if err := w.y.close(); err != nil {
				t.Error(err)
			}
		}()
		w.adopt("")
		actions := w.actions()
		rt.Repeat(map[string]func(*rapid.T){"": func(*rapid.T) {}, "step": func(rt *rapid.T) {
			w.t = rt
			for done := false; !done; {
				a := pick(w, actions)
				rt.Log(a.name)
				if done = w.try(a.do); done {
					rt.Logf("was done in %q", w.touched)
					total[a.name]++
				}
			}
			w.check()
		}})
	})
	t.Logf("%v", total)
}

// A world is a store and what must be in it.
type world struct {
	y       *system
	tb      testing.TB
	t       *rapid.T
	trees   map[string]*node                // of main, "", and of the forks
	snaps   map[string]map[string]*captured // by workspace and name
	handles []*handle
	names   int // given so far
	version int
	touched string
	only    string // the workspace of all steps, if it is set

	request uint64             // number of the last request
	sent    map[uint64]outcome // requests that are not answered
}

// captured is a state that was captured: the model's, and what the forest showed.
type captured struct {
	tree  *node
	exact listing
}

// A handle is a file that a program has open.
type handle struct {
	workspace string
	node      *node
	id        live.NodeID
}

type action struct {
	name string
	do   func()
}

// actions are what a step may be. An action that is listed twice is done more often.
func (w *world) actions() []action {
	return []action{
		{"create", func() { w.create(unix.S_IFREG) }},
		{"mkdir", func() { w.create(unix.S_IFDIR) }},
		{"symlink", func() { w.create(unix.S_IFLNK) }},
		{"mkfifo", func() { w.create(unix.S_IFIFO) }},
		{"link", w.link},
		{"rename", func() { w.rename(0) }},
		{"noreplace", func() { w.rename(unix.RENAME_NOREPLACE) }},
		{"exchange", func() { w.rename(unix.RENAME_EXCHANGE) }},
		{"whiteout", func() { w.rename(unix.RENAME_WHITEOUT) }},
		{"unlink", w.unlink},
		{"rmdir", w.rmdir},
		{"open", w.open},
		{"close", w.closeHandle},
		{"tmpfile", w.tmpfile},
		{"write", w.write},
		{"truncate", w.truncate},
		{"fallocate", w.fallocate},
		{"clone", w.clone},
		{"chmod", w.chmod},
		{"setxattr", w.setXattr},
		{"rmxattr", w.removeXattr},
		{"capture", w.capture},
		{"drop", w.drop},
		{"look", w.lookAtSnapshot},
		{"restore", w.restore},
		{"restore of", w.restorePath},
		{"graft", w.graft},
		{"fork", w.fork},
		{"merge", w.merge},
		{"discard", w.discard},
		{"seal", w.seal},
		{"checkpoint", func() { w.rarely(8); w.must(w.y.checkpoint()) }},
		{"gc", func() { w.rarely(8); w.must(w.y.gc()) }},
		{"replay", w.replay},
	}
}

// try does a step, and reports false if it was skipped.
func (w *world) try(do func()) (done bool) {
	defer func() {
		if r := recover(); r == skipped {
			done = false
		} else if r != nil {
			panic(r)
		}
	}()
	do()
	return true
}

var skipped = new(int)

// skip ends a step that is not possible now.
func (w *world) skip() { panic(skipped) }

func (w *world) must(err error) {
	must.OK(w.t, err)
}

// agree ends the test unless the forest's error is of the expected kind. It
// reports whether the operation was done.
func (w *world) agree(got, want error, format string, args ...any) bool {
	if !errors.Is(got, want) {
		w.t.Fatalf("%s: got %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
	return want == nil
}

// intn draws a number below n, each as often: rapid prefers small ones.
func (w *world) intn(n int) int { return rapid.IntRange(0, 1<<30).Draw(w.t, "n") % n }

// rarely skips all but one of n: what is slow and changes nothing.
func (w *world) rarely(n int) {
	if w.intn(n) != 0 {
		w.skip()
	}
}

func pick[T any](w *world, from []T) T {
	if len(from) == 0 {
		w.skip()
	}
	return from[w.intn(len(from))]
}

// tree picks a workspace.
func (w *world) tree() (string, *node) {
	name := w.only
	if name == "" {
		name = pick(w, slices.Sorted(maps.Keys(w.trees)))
	}
	w.touched = name
	return name, w.trees[name]
}

func (w *world) snapshot() (workspace, name string, c *captured) {
	workspace, _ = w.tree()
	name = pick(w, slices.Sorted(maps.Keys(w.snaps[workspace])))
	return workspace, name, w.snaps[workspace][name]
}

func (w *world) newName(prefix string) string {
	w.names++
	return fmt.Sprint(prefix, w.names)
}

// place is a name in a directory: mostly one that exists.
func (w *world) place(root *node, existing bool) (dir *node, name string) {
	if paths := root.paths(func(*node) bool { return true }); existing && len(paths) > 0 && w.intn(8) > 0 {
		path := pick(w, paths)
		at, name := "", path
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			at, name = path[:i], path[i+1:]
		}
		return root.at(at), name
	}
	dirs := root.paths(func(n *node) bool { return n.isDir() && len(n.entries) < 12 })
	dirs = slices.DeleteFunc(append(dirs, ""), func(path string) bool { return strings.Count(path, "/") > 3 })
	return root.at(pick(w, dirs)), fmt.Sprintf("n%d", w.intn(10))
}

// file picks a regular file of a tree, or one that is open.
func (w *world) file() *node {
	ws, root := w.tree()
	var nodes []*node
	for _, path := range root.paths(func(n *node) bool { return n.is(unix.S_IFREG) }) {
		nodes = append(nodes, root.at(path))
	}
	for _, h := range w.handles {
		if h.workspace == ws {
			nodes = append(nodes, h.node)
		}
	}
	return pick(w, nodes)
}

func (w *world) create(kind uint32) {
	_, root := w.tree()
	if root.count() > 40 {
		w.skip()
	}
	dir, name := w.place(root, w.intn(8) == 0)
	n := &node{mode: kind | []uint32{0o644, 0o600, 0o755}[w.intn(3)]}
	c := live.NewNode{Mode: n.mode}
	switch kind {
	case unix.S_IFDIR:
		n = newDir(n.mode)
	case unix.S_IFLNK:
		n.mode, n.target = kind|0o777, fmt.Sprint("to/", w.intn(10))
		c.Mode, c.Target = n.mode, n.target
	}
	var want error
	if dir.entries[name] != nil {
		want = errs.Exist
	}
	a, err := w.asking().Create(dir.id, name, c)
	if w.agree(err, want, "create %s", name) {
		n.id = a.ID
		w.carriedOut(a.ID)
		w.changed(n)
		dir.entries[name] = n
	}
}

func (w *world) link() {
	ws, root := w.tree()
	from, name := w.place(root, true)
	n := from.entries[name]
	// A file without a name gets one only if it never had one.
	if open := w.handlesOf(ws); len(open) > 0 && w.intn(2) == 0 {
		if h := pick(w, open); root.links()[h.node] > 0 || h.node.nameless {
			n = h.node
		}
	}
	if n == nil {
		w.skip()
	}
	dir, to := w.place(root, w.intn(6) == 0)
	var want error
	switch {
	case dir.entries[to] != nil:
		want = errs.Exist
	case n.isDir():
		want = errs.Perm
	}
	_, err := w.asking().Link(n.id, dir.id, to)
	if w.agree(err, want, "link %s", to) {
		w.carriedOut(n.id)
		w.changed(n)
		n.nameless = false
		dir.entries[to] = n
	}
}

func (w *world) rename(flags uint32) {
	_, root := w.tree()
	from, name := w.place(root, true)
	to, newName := w.place(root, w.intn(2) == 0 || flags == unix.RENAME_EXCHANGE)
	n, there := from.entries[name], to.entries[newName]
	exchange := flags == unix.RENAME_EXCHANGE
	var want error
	switch {
	case n == nil:
		want = errs.NotExist
	case there == nil && exchange:
		want = errs.NotExist
	case there != nil && flags == unix.RENAME_NOREPLACE:
		want = errs.Exist
	case n == there:
	case there != nil && !exchange && n.isDir() && !there.isDir():
		want = errs.NotDir
	case there != nil && !exchange && !n.isDir() && there.isDir():
		want = errs.IsDir
	case there != nil && !exchange && there.isDir() && len(there.entries) > 0:
		want = errs.NotEmpty
	case n.isDir() && to.below(n), exchange && there.isDir() && from.below(there):
		want = errs.Invalid
	}
	_, err := w.asking().Rename(from.id, name, to.id, newName, flags, actors.Caller{})
	if !w.agree(err, want, "rename %s to %s, %d", name, newName, flags) || n == there {
		return
	}
	w.carriedOut(0)
	w.changed(n)
	if there != nil {
		w.changed(there)
	}
	delete(from.entries, name)
	to.entries[newName] = n
	switch flags {
	case unix.RENAME_EXCHANGE:
		from.entries[name] = there
	case unix.RENAME_WHITEOUT:
		a, err := w.y.f.Lookup(from.id, name)
		w.must(err)
		from.entries[name] = &node{mode: unix.S_IFCHR, id: a.ID}
		w.changed(from.entries[name])
	}
}

func (w *world) unlink() {
	_, root := w.tree()
	dir, name := w.place(root, true)
	n := dir.entries[name]
	var want error
	switch {
	case n == nil:
		want = errs.NotExist
	case n.isDir():
		want = errs.IsDir
	}
	_, err := w.asking().Unlink(dir.id, name)
	if w.agree(err, want, "unlink %s", name) {
		w.carriedOut(0)
		w.changed(n)
		delete(dir.entries, name)
	}
}

func (w *world) rmdir() {
	_, root := w.tree()
	dir, name := w.place(root, true)
	n := dir.entries[name]
	var want error
	switch {
	case n == nil:
		want = errs.NotExist
	case !n.isDir():
		want = errs.NotDir
	case len(n.entries) > 0:
		want = errs.NotEmpty
	}
	_, err := w.asking().Rmdir(dir.id, name)
	if w.agree(err, want, "rmdir %s", name) {
		w.carriedOut(0)
		delete(dir.entries, name)
	}
}

func (w *world) handlesOf(workspace string) []*handle {
	return slices.DeleteFunc(slices.Clone(w.handles), func(h *handle) bool { return h.workspace != workspace })
}

func (w *world) open() {
	ws, root := w.tree()
	n := root.at(pick(w, root.paths(func(n *node) bool { return n.is(unix.S_IFREG) })))
	w.y.hold(n.id)
	w.handles = append(w.handles, &handle{ws, n, n.id})
}

func (w *world) tmpfile() {
	ws, root := w.tree()
	dir := root.at(pick(w, append(root.paths((*node).isDir), "")))
	n := &node{mode: unix.S_IFREG | 0o600, nameless: true}
	a, err := w.asking().Tmpfile(dir.id, live.NewNode{Mode: n.mode})
	w.must(err)
	n.id = a.ID
	w.carriedOut(a.ID)
	w.y.hold(n.id)
	w.handles = append(w.handles, &handle{ws, n, n.id})
}

func (w *world) closeHandle() {
	h := pick(w, w.handles)
	w.touched = h.workspace
	w.handles = slices.DeleteFunc(w.handles, func(o *handle) bool { return o == h })
	if slices.ContainsFunc(w.handles, func(o *handle) bool { return o.id == h.id }) {
		return
	}
	w.y.release(h.id)
	if root := w.trees[h.workspace]; root == nil || root.links()[h.node] == 0 {
		if a, err := w.y.f.GetAttr(h.id); err == nil {
			w.t.Fatalf("a file without a name is there after it was closed: %+v", a)
		}
	}
}

// extent is where something is done in a file: mostly in small ones.
func (w *world) extent() (off, n int64) {
	limit := 20_000
	if w.intn(12) == 0 {
		limit = 300_000
	}
	off, n = int64(w.intn(limit)), int64(w.intn(limit)+1)
	switch w.intn(4) {
	case 0:
		off &^= 4095
	case 1:
		off = 0
	}
	return off, n
}

func (w *world) write() {
	n := w.file()
	off, size := w.extent()
	p, fill := make([]byte, size), byte(w.intn(256))
	for i := range p {
		p[i] = fill + byte(i) + byte(i>>8)
	}
	_, err := w.y.f.Write(n.id, p, off, false)
	w.must(err)
	w.change(n, fsmodel.Splice(n.data, off, p))
}

func (w *world) change(n *node, data []byte) {
	n.data = data
	w.changed(n)
}

func (w *world) changed(n *node) {
	w.version++
	n.version = w.version
}

func (w *world) truncate() {
	n := w.file()
	size, _ := w.extent()
	_, err := w.y.f.SetAttr(n.id, live.SetAttr{Size: &size})
	w.must(err)
	w.change(n, fsmodel.Resize(n.data, size))
}

func (w *world) fallocate() {
	n := w.file()
	off, size := w.extent()
	const keep, punch, zero = unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_PUNCH_HOLE, unix.FALLOC_FL_ZERO_RANGE
	mode := []uint32{0, keep, punch | keep, punch | keep, zero, zero | keep}[w.intn(6)]
	w.must(w.y.f.Fallocate(n.id, off, size, mode))
	data := n.data
	if mode&keep == 0 {
		data = fsmodel.Resize(data, max(int64(len(data)), off+size))
	}
	if end := min(off+size, int64(len(data))); mode&^keep != 0 && end > off {
		data = fsmodel.Splice(data, off, make([]byte, end-off))
	}
	w.change(n, data)
}

// clone shares bytes between two files, which may be of two workspaces or of a
// snapshot.
func (w *world) clone() {
	from := w.file()
	src := from.id
	if w.intn(4) == 0 {
		from, src = w.snapshotFile()
	}
	to := w.file()
	soff, n := w.extent()
	doff, _ := w.extent()
	if w.intn(2) == 0 {
		soff, doff, n = 0, 0, int64(len(from.data))
	}
	length := max(0, min(n, int64(len(from.data))-soff))
	var want error
	if from == to && length > 0 && soff < doff+length && doff < soff+length {
		want = errs.Invalid
	}
	done, err := w.y.f.CopyRange(src, soff, to.id, doff, n)
	if !w.agree(err, want, "clone %d bytes", n) {
		return
	}
	if done != length {
		w.t.Fatalf("%d bytes were cloned, want %d", done, length)
	}
	if length > 0 {
		w.change(to, fsmodel.Splice(to.data, doff, from.data[soff:soff+length]))
	}
}

func (w *world) chmod() {
	_, root := w.tree()
	n := root.at(pick(w, append(root.paths(func(n *node) bool { return !n.is(unix.S_IFLNK) }), "")))
	mode := uint32(w.intn(0o1000))
	_, err := w.y.f.SetAttr(n.id, live.SetAttr{Mode: &mode})
	w.must(err)
	n.mode = n.mode&unix.S_IFMT | mode
	w.changed(n)
}

func (w *world) setXattr() {
	_, root := w.tree()
	n := root.at(pick(w, append(root.paths(func(*node) bool { return true }), "")))
	name, value := fmt.Sprint("user.x", w.intn(3)), fmt.Sprint("value ", w.intn(100))
	flags := []int{0, 0, unix.XATTR_CREATE, unix.XATTR_REPLACE}[w.intn(4)]
	_, there := n.xattrs[name]
	var want error
	switch {
	case flags == unix.XATTR_CREATE && there:
		want = errs.Exist
	case flags == unix.XATTR_REPLACE && !there:
		want = errs.NoAttr
	}
	if w.agree(w.asking().SetXattr(n.id, name, []byte(value), flags, false), want, "setxattr %s", name) {
		w.carriedOut(0)
		if n.xattrs == nil {
			n.xattrs = map[string]string{}
		}
		n.xattrs[name] = value
		w.changed(n)
	}
}

func (w *world) removeXattr() {
	_, root := w.tree()
	n := root.at(pick(w, append(root.paths(func(n *node) bool { return len(n.xattrs) > 0 }), "")))
	name := fmt.Sprint("user.x", w.intn(3))
	var want error
	if _, there := n.xattrs[name]; !there {
		want = errs.NoAttr
	}
	if w.agree(w.asking().RemoveXattr(n.id, name), want, "removexattr %s", name) {
		w.carriedOut(0)
		delete(n.xattrs, name)
		w.changed(n)
	}
}
