package control

import (
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Offsets in the listing of a control directory: the dots, the fixed names, then one
// for each snapshot by its sequence number, or fork by its view, neither of which
// is used twice. So a listing continues where it stopped, whatever was added and removed.
const (
	offDot    = 1
	offDotDot = 2
	offFixed  = 16
	offNamed  = 1024
)

// List calls fn for the entries of a control directory after an offset, until it
// returns false.
//
// The daemon adds and removes snapshots, so the kernel must not cache the listing. OPENDIR
// could forbid it, but is never answered. A cached listing with a page missing is not
// used, so the pages of earlier answers are dropped.
func (t *Tree) List(dir live.NodeID, after uint64, fn func(name string, id live.NodeID, mode uint32, off uint64) bool) error {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}
	t.Kernel.DropTail(dir, 0)
	emit := func(name string, id live.NodeID, mode uint32, off uint64) bool {
		return off <= after || fn(name, id, mode, off)
	}
	if !emit(".", dir, typeDir, offDot) || !emit("..", ws.Root(), typeDir, offDotDot) {
		return nil
	}
	if forks {
		listNamed(after, ws.Forks().From, emit)
	} else if listFiles(ws, emit) {
		listNamed(after, ws.Snapshots().From, emit)
	}
	return nil
}

type emitter func(name string, id live.NodeID, mode uint32, off uint64) bool

func listFiles(ws *snapshot.Workspace, emit emitter) (more bool) {
	for i, f := range files {
		if f.kind != typeFile {
			if _, err := ws.Find(f.name); err != nil {
				continue
			}
		}
		if !emit(f.name, live.Node(ownView, kindListed|uint64(i+1)), f.kind, uint64(offFixed+i)) {
			return false
		}
	}
	return true
}

// listAtOnce is how many names are asked for at a time: fewer than what is left of a
// listing of very many, which the kernel asks for again and again.
const listAtOnce = 1024

// listNamed lists snapshots or forks behind an offset.
func listNamed(after uint64, next func(from uint64, n int) []snapshot.ListEntry, emit emitter) {
	from := max(after+1, offNamed) - offNamed
	for {
		all := next(from, listAtOnce)
		for _, e := range all {
			if !emit(e.Name, e.Root, typeDir, offNamed+e.At) {
				return
			}
			from = e.At + 1
		}
		if len(all) < listAtOnce {
			return
		}
	}
}
