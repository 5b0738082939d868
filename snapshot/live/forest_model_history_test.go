package live_test

import (
	"bytes"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/fsmodel"
)

func (w *world) capture() {
	ws, root := w.tree()
	if len(w.snaps[ws]) > 6 {
		w.skip()
	}
	name := w.newName("s")
	w.asking()
	w.must(w.y.capture(ws, name, w.request))
	w.carriedOut(0)
	id, err := w.y.root(ws)
	w.must(err)
	s, err := w.y.look(id)
	w.must(err)
	w.snaps[ws][name] = &captured{root.clone(), s.exact}
}

func (w *world) drop() {
	ws, name, _ := w.snapshot()
	w.must(w.y.drop(ws, name))
	delete(w.snaps[ws], name)
}

func (w *world) lookAtSnapshot() {
	ws, name, c := w.snapshot()
	w.compareSnapshot(w.y, ws, name, c)
}

func (w *world) compareSnapshot(y *system, ws, name string, c *captured) {
	id, err := y.snapshotRoot(ws, name)
	w.must(err)
	s, err := y.look(id)
	w.must(err)
	if d := fsmodel.Compare(c.exact, s.exact); d != "" {
		w.t.Fatalf("snapshot %s of %q:\n%s", name, ws, d)
	}
}

// snapshotFile is a regular file of a snapshot, and its id there.
func (w *world) snapshotFile() (*node, live.NodeID) {
	ws, name, c := w.snapshot()
	n := c.tree.at(pick(w, c.tree.paths(func(n *node) bool { return n.is(unix.S_IFREG) })))
	root, err := w.y.snapshotRoot(ws, name)
	w.must(err)
	return n, live.Node(root.View(), n.id.Ino())
}

func (w *world) restore() {
	ws, name, c := w.snapshot()
	w.must(w.y.restore(ws, name))
	w.become(ws, c.tree.clone())
}

// restorePath restores one entry of the root. Which names of a hard link it brings
// along is not what this test is about.
func (w *world) restorePath() {
	ws, name, c := w.snapshot()
	root := w.trees[ws]
	if root.hasHardLinks() || c.tree.hasHardLinks() {
		w.skip()
	}
	path := pick(w, slices.Sorted(maps.Keys(c.tree.entries)))
	w.must(w.y.restore(ws, name, path))
	after := root.clone()
	after.entries[path] = c.tree.entries[path].clone()
	w.become(ws, after)
}

// graft merges the tree of a snapshot into a directory.
func (w *world) graft() {
	w.rarely(2)
	ws, name, c := w.snapshot()
	root := w.trees[ws]
	if root.count() > 40 {
		w.skip()
	}
	dir := pick(w, append(root.paths((*node).isDir), ""))
	after, brought := root.clone(), c.tree.clone()
	brought.walk("", func(_ string, n *node) { w.changed(n) }) // also what is the same gets a new inode
	err := w.y.graft(ws, name, dir)
	if !overlay(after.at(dir), brought) {
		if err == nil {
			w.t.Fatalf("a directory of %s replaced a file below %q, or was replaced by one", name, dir)
		}
		return
	}
	w.must(err)
	w.become(ws, after)
}

// overlay merges the entries of a tree into a directory, directories with their
// attributes. It reports false if one has a directory where the other has none.
func overlay(dir, from *node) bool {
	for name, n := range from.entries {
		there := dir.entries[name]
		if there != nil && there.isDir() != n.isDir() {
			return false
		}
		if there == nil || !n.isDir() {
			dir.entries[name] = n
			continue
		}
		there.mode, there.xattrs = n.mode, n.xattrs
		if !overlay(there, n) {
			return false
		}
	}
	return true
}

func (w *world) fork() {
	if len(w.trees) > 3 {
		w.skip()
	}
	name, from, base := w.newName("f"), "", w.trees[""]
	if snaps := slices.Sorted(maps.Keys(w.snaps[""])); len(snaps) > 0 && w.intn(2) == 0 {
		from = pick(w, snaps)
		base = w.snaps[""][from].tree
	}
	w.forkOf(name, from, base)
}

func (w *world) forkOf(name, from string, base *node) {
	w.must(w.y.fork(name, from))
	w.trees[name], w.snaps[name] = base.clone(), map[string]*captured{}
	root, err := w.y.root(name)
	w.must(err)
	move := func(n *node) { n.id = live.Node(root.View(), n.id.Ino()) }
	move(w.trees[name])
	moved := map[*node]bool{}
	w.trees[name].walk("", func(_ string, n *node) {
		if !moved[n] {
			move(n)
			moved[n] = true
		}
	})
	w.touched = name
}

func (w *world) pickFork() string {
	return pick(w, slices.DeleteFunc(slices.Sorted(maps.Keys(w.trees)), func(name string) bool { return name == "" }))
}

// merge brings a new fork into main after some changes: main becomes what the fork
// is. Merging changes of both is tested elsewhere.
func (w *world) merge() {
	w.rarely(2)
	if len(w.trees) > 3 {
		w.skip()
	}
	name := w.newName("f")
	w.forkOf(name, "", w.trees[""])
	w.only = name
	for range 1 + w.intn(8) {
		w.try(pick(w, []func(){func() { w.create(unix.S_IFREG) }, w.write, w.link, w.unlink, w.chmod, w.clone,
			func() { w.rename(0) }, func() { w.rename(unix.RENAME_EXCHANGE) }, func() { w.rename(unix.RENAME_WHITEOUT) },
			func() { w.create(unix.S_IFDIR) }, w.rmdir}))
	}
	w.only = ""
	w.must(w.y.merge(name))
	w.touched = ""
	w.become("", w.trees[name].clone())
	w.end(name)
}

func (w *world) discard() {
	w.rarely(4)
	w.end(w.pickFork())
}

func (w *world) end(fork string) {
	w.must(w.y.discard(fork))
	delete(w.trees, fork)
	delete(w.snaps, fork)
	w.handles = slices.DeleteFunc(w.handles, func(h *handle) bool {
		if h.workspace == fork {
			w.y.release(h.id)
		}
		return h.workspace == fork
	})
	w.touched = ""
}

func (w *world) seal() {
	ws, name, _ := w.snapshot()
	w.must(w.y.seal(ws, name))
}

// become makes a tree, whose nodes have the ids that they had where they come
// from, what a workspace is now. A directory keeps its id, and so does a file that
// is what it was before; every other one gets a new id.
func (w *world) become(ws string, after *node) {
	before, links := w.trees[ws], after.links()
	var settle func(was, n *node)
	settle = func(was, n *node) {
		keeps := was != nil && (n.isDir() && was.isDir() || was.id.Ino() == n.id.Ino() && was.version == n.version && links[n] == 1)
		n.id = 0
		if keeps {
			n.id = was.id
		}
		for name, child := range n.entries {
			var there *node
			if was != nil {
				there = was.entries[name]
			}
			settle(there, child)
		}
	}
	settle(before, after)
	w.trees[ws] = after
	w.adopt(ws)
	byID := map[live.NodeID]*node{}
	after.walk("", func(_ string, n *node) { byID[n.id] = n })
	for _, h := range w.handlesOf(ws) {
		n := byID[h.id]
		if n == nil {
			continue // it lives on without a name
		}
		if n.mode != h.node.mode || !bytes.Equal(n.data, h.node.data) || !maps.Equal(n.xattrs, h.node.xattrs) {
			w.t.Fatalf("a file that is open has become another one: %d bytes, it had %d", len(n.data), len(h.node.data))
		}
		h.node = n
	}
}

// adopt compares a workspace with its model and gives the model's nodes the ids
// that it does not know yet.
func (w *world) adopt(ws string) {
	id, err := w.y.root(ws)
	w.must(err)
	s, err := w.y.look(id)
	w.must(err)
	root := w.trees[ws]
	if d := fsmodel.Compare(root.list(), s.list); d != "" {
		w.t.Fatalf("workspace %q:\n%s", ws, d)
	}
	of := map[live.NodeID]*node{}
	settle := func(path string, n *node) {
		if n.id == 0 {
			n.id = s.ids[path]
		}
		if n.id != s.ids[path] {
			w.t.Fatalf("%q of workspace %q has the id %x, want %x", path, ws, s.ids[path], n.id)
		}
		if other := of[n.id]; other != nil && other != n {
			w.t.Fatalf("%q of workspace %q has the id of another file", path, ws)
		}
		of[n.id] = n
	}
	settle("", root)
	root.walk("", settle)
}

// check compares the workspace of the last step, and what is open in it.
func (w *world) check() {
	if w.trees[w.touched] == nil {
		return
	}
	w.adopt(w.touched)
	w.checkHandles(w.y, w.touched)
}

func (w *world) checkHandles(y *system, ws string) {
	links := w.trees[ws].links()
	for _, h := range w.handlesOf(ws) {
		data, err := y.read(h.id)
		w.must(err)
		if !bytes.Equal(data, h.node.data) {
			w.t.Fatalf("an open file has %d bytes that are not its own", len(data))
		}
		if a, err := y.f.GetAttr(h.id); err != nil || int(a.Nlink) != links[h.node] || a.Mode != h.node.mode {
			w.t.Fatalf("an open file has %+v, %v; want mode %o and %d names", a, err, h.node.mode, links[h.node])
		}
	}
}

// replay kills the store: recovery must come to the same trees, with the same
// times and inode numbers. Half of the time the history goes on from there. If the
// connection to the kernel is taken over, what is open stays so.
func (w *world) replay() {
	w.rarely(3)
	takeover := w.intn(2) == 0
	k, err := w.y.killed(w.tb, takeover)
	w.must(err)
	if takeover {
		w.checkTakeover(k)
	}
	for _, ws := range slices.Sorted(maps.Keys(w.trees)) {
		var exact [2]listing
		for i, y := range []*system{w.y, k} {
			id, err := y.root(ws)
			w.must(err)
			s, err := y.look(id)
			w.must(err)
			exact[i] = s.exact
		}
		if d := fsmodel.Compare(exact[0], exact[1]); d != "" {
			w.t.Fatalf("workspace %q after recovery:\n%s", ws, d)
		}
		for _, name := range slices.Sorted(maps.Keys(w.snaps[ws])) {
			w.compareSnapshot(k, ws, name, w.snaps[ws][name])
		}
	}
	if w.intn(2) == 0 {
		w.must(k.close())
		return
	}
	w.must(w.y.close())
	if w.y = k; takeover {
		return
	}
	w.must(w.y.f.Takeover.Connect())
	w.handles, w.request, w.sent = nil, 0, map[uint64]outcome{}
}

// outcome is what became of a request.
type outcome struct {
	done   bool
	answer live.NodeID
}

// asking returns the forest for a request. Some of those before are answered.
func (w *world) asking() live.Writer {
	for _, sent := range slices.Sorted(maps.Keys(w.sent)) {
		if w.intn(2) == 0 {
			w.y.f.Takeover.MarkAnswered(sent)
			delete(w.sent, sent)
		}
	}
	w.request++
	w.sent[w.request] = outcome{}
	return w.y.f.ForRequest("", w.request)
}

// carriedOut notes that the last request was carried out.
func (w *world) carriedOut(answer live.NodeID) { w.sent[w.request] = outcome{true, answer} }

// checkTakeover compares what a new daemon knows of the kernel with what the old one did.
func (w *world) checkTakeover(k *system) {
	in, err := k.f.Takeover.Inherit()
	w.must(err)
	for _, id := range in.Orphans {
		k.f.Takeover.Forget(id) // those that are held stay
	}
	in, err = k.f.Takeover.Inherit()
	w.must(err)
	for _, id := range in.Orphans {
		if !k.held[id] {
			w.t.Fatalf("node %x is kept, though nobody has it open", id)
		}
	}
	for ws := range w.trees {
		w.checkHandles(k, ws)
	}
	for request, want := range w.sent {
		if answer, done := k.f.Takeover.WasCarriedOut(request); done != want.done || answer != want.answer {
			w.t.Fatalf("request %d: done %v with %x, want %v with %x", request, done, answer, want.done, want.answer)
		}
	}
	k.f.Takeover.SettleRequests()
	for request, want := range w.sent {
		if _, done := k.f.Takeover.WasCarriedOut(request); done != want.done {
			w.t.Fatalf("request %d is forgotten before it was answered", request)
		}
	}
}
