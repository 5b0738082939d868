package control

import (
	"slices"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Offsets in the listing of a control directory: the dots, the fixed names, then one
// for each snapshot by its sequence number, or fork by its view, neither of which
// is used twice. So a listing goes on where it stopped, whatever came and went.
const (
	offDot    = 1
	offDotDot = 2
	offFixed  = 16
	offNamed  = 1024
)

// List calls fn for the entries of a control directory after an offset, until it
// returns false.
//
// Snapshots come and go by themselves, so the kernel must not keep the listing; as
// OPENDIR is not answered it cannot be told. But what it keeps is useless to it when
// a page is missing, hence the pages that the answers before this one filled are
// dropped.
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
		listForks(ws, emit)
	} else if listFiles(ws, emit) {
		listSnapshots(ws, emit)
	}
	return nil
}

type emitter func(name string, id live.NodeID, mode uint32, off uint64) bool

func listFiles(ws *snapshot.Workspace, emit emitter) (more bool) {
	for i, f := range files {
		if present(ws, f.name) && !emit(f.name, live.Node(ownView, kindListed|uint64(i+1)), f.kind, uint64(offFixed+i)) {
			return false
		}
	}
	return true
}

// present reports whether a control name leads somewhere just now.
func present(ws *snapshot.Workspace, name string) bool {
	switch name {
	case latestName, undoName, originName:
		_, err := ws.Find(name)
		return err == nil
	}
	return true
}

func listSnapshots(ws *snapshot.Workspace, emit emitter) {
	for _, info := range slices.Backward(ws.List()) {
		if !emit(info.Name, info.Node(), typeDir, offNamed+info.Seq) {
			return
		}
	}
}

func listForks(ws *snapshot.Workspace, emit emitter) {
	forks := ws.Forks()
	slices.SortFunc(forks, func(a, b snapshot.ForkInfo) int { return int(a.View) - int(b.View) })
	for _, f := range forks {
		if !emit(f.Name, f.Node(), typeDir, offNamed+uint64(f.View)) {
			return
		}
	}
}
