package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// A grown is a history with a tree of n files that rows of that size share.
type grown struct {
	history
	n         int
	changes   int
	snapshots int
}

// base is the snapshot of the tree as it was made.
const base = "start"

// tree returns the history of a place with a tree, made when it is first asked for.
func (w *work) tree() (*grown, error) {
	if g, ok := w.b.trees[w.place.name]; ok {
		w.look(g.history)
		return g, nil
	}
	dir := filepath.Join(w.place.dir, "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	h, err := openHistory(w.b, w.place, filepath.Join(w.b.base, "tree"), dir)
	if err != nil {
		return nil, err
	}
	g := &grown{history: h, n: w.n(shared)}
	w.b.trees[w.place.name] = g
	w.look(h)
	if err := populate(w.b, h.root(), g.n); err != nil {
		return nil, err
	}
	// Where taking the tree in costs something, it does so now.
	return g, g.capture(base)
}

// look makes the figures of a history's own daemon those of the row.
func (w *work) look(h history) {
	if a, ok := h.(*amberHistory); ok {
		w.place.metrics = a.place.metrics
	}
}

// change writes ten files again.
func (g *grown) change() error {
	g.changes++
	for j := range 10 {
		at := (g.changes*7919 + j*g.n/10) % g.n
		if err := os.WriteFile(filepath.Join(g.root(), pathOf(at)), fmt.Appendf(nil, "change %d\n", g.changes), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// next names the next snapshot.
func (g *grown) next() string {
	g.snapshots++
	return fmt.Sprintf("s%d", g.snapshots)
}
