package control

import (
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Offsets in the listing of a control directory. The dots come first, then the files, then each snapshot
// at its sequence number, or each fork at its view. These numbers are not used twice, so a listing
// continues at the right entry although entries were added and removed.
const (
	offDot    = 1
	offDotDot = 2
	offFixed  = 16   // the first file
	offNamed  = 1024 // the snapshot or fork with the number 0
)

// List calls fn for the entries of a control directory after an offset, until fn returns false.
//
// The daemon adds and removes snapshots, so the kernel must not use a cached listing. An answer to OPENDIR
// could forbid caching, but the kernel sends no OPENDIR. Therefore List drops the pages of earlier listings:
// the kernel does not use a listing if one of its pages is missing.
func (t *Tree) List(dir live.NodeID, offset uint64, fn func(name string, id live.NodeID, mode uint32, off uint64) bool) error {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}

	t.kernel.DropTail(dir, 0)
	emit := func(name string, id live.NodeID, mode uint32, off uint64) bool {
		return off <= offset || fn(name, id, mode, off)
	}
	if !emit(".", dir, typeDir, offDot) || !emit("..", ws.Root(), typeDir, offDotDot) {
		return nil
	}

	if forks {
		listNamed(offset, ws.Forks().Page, emit)
	} else if listFiles(ws, emit) {
		listNamed(offset, ws.Snapshots().Page, emit)
	}

	return nil
}

// An emitter passes an entry to the caller of List. It returns false if the listing is to end.
type emitter func(name string, id live.NodeID, mode uint32, off uint64) bool

// listFiles lists the files, without links to snapshots that do not exist.
func listFiles(ws *snapshot.Workspace, emit emitter) (more bool) {
	for i, f := range files {
		if f.kind != typeFile {
			if _, err := ws.Find(f.name); err != nil {
				continue
			}
		}
		if !emit(f.name, live.Node(controlView, kindListed|uint64(i+1)), f.kind, uint64(offFixed+i)) {
			return false
		}
	}
	return true
}

// listBatchSize is the number of names that are read at a time. The kernel reads a long listing in many
// requests, and each request must not read all remaining names.
const listBatchSize = 1024

// listNamed lists snapshots or forks after an offset. readPage returns at most n entries in the order of
// their numbers, beginning with the number from.
func listNamed(offset uint64, readPage func(from uint64, n int) []snapshot.ListEntry, emit emitter) {
	from := max(offset+1, offNamed) - offNamed

	for {
		all := readPage(from, listBatchSize)
		for _, e := range all {
			if !emit(e.Name, e.Root, typeDir, offNamed+e.Position) {
				return
			}
			from = e.Position + 1
		}
		if len(all) < listBatchSize {
			return
		}
	}
}
