package main

import (
	"errors"
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
	dir       string // to remove at the end; "" if it goes with the history
}

// base is the snapshot of the tree as it was made.
const base = "start"

// trees are those of the present size, by place: only one size is kept.
type trees struct {
	n      int
	by     map[string]*grown
	serial int
}

// tree returns the history of a place with n files, made when it is first
// asked for.
func (w *work) tree(n int) (*grown, error) {
	t := &w.b.trees
	if t.n != n {
		t.close()
		t.n, t.by = n, map[string]*grown{}
	}
	if g, ok := t.by[w.place.name]; ok {
		w.look(g.history)
		return g, nil
	}
	t.serial++
	id := fmt.Sprintf("tree-%d", t.serial)
	dir := filepath.Join(w.place.dir, id)
	if w.place.kind != amber {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	h, err := openHistory(w.b, w.place, filepath.Join(w.b.base, id), dir)
	if err != nil {
		return nil, err
	}
	g := &grown{history: h, n: n}
	if w.place.kind != amber {
		g.dir = dir
	}
	t.by[w.place.name] = g
	w.look(h)
	if a, ok := h.(*amberHistory); ok {
		err = a.load(n, pathOf)
	} else {
		err = populate(w.b, h.root(), n)
	}
	if err != nil {
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

func (t *trees) close() {
	for _, g := range t.by {
		err := g.close()
		if g.dir != "" {
			err = errors.Join(err, os.RemoveAll(g.dir))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "closing a tree: %v\n", err)
		}
	}
	t.n, t.by = 0, nil
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
