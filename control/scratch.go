package control

import (
	"syscall"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Create makes a scratch file or a call file; nothing else can be made as a file.
func (t *Tree) Create(dir live.NodeID, name string, mode uint32, who live.Caller) (Entry, error) {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return Entry{}, err
	}
	kind := mode & syscall.S_IFMT
	switch _, taken := findFile(name); {
	case taken && !forks:
		return Entry{}, live.ErrExist
	case forks || kind != 0 && kind != syscall.S_IFREG:
		return Entry{}, live.ErrPerm
	case isCall(name):
		return t.createCall(ws, name, who)
	case isScratch(name):
		return t.createScratch(ws, name, mode, who)
	}
	return Entry{}, live.ErrPerm
}

func (t *Tree) createScratch(ws *snapshot.Workspace, name string, mode uint32, who live.Caller) (Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	if d.current[name] != nil {
		return Entry{}, live.ErrExist
	}
	n := t.addLocked(d, name, typeFile|mode&0o777)
	n.scratch, n.owner = true, &who
	if d.scratch = append(d.scratch, n); len(d.scratch) > maxScratchFiles {
		oldest := d.scratch[0]
		t.dropScratchLocked(oldest)
		t.Kernel.DropEntries([]live.Entry{d.entryOf(oldest.name)})
	}
	return n.entryLocked(live.Attr{}), nil
}

// Unlink removes a scratch file or a call file.
func (t *Tree) Unlink(dir live.NodeID, name string) error {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	if forks {
		return live.ErrPerm
	}
	if _, ok := d.owners[name]; ok {
		d.dropCall(name)
		delete(d.current, name)
		return nil
	}
	if n := d.current[name]; n != nil && n.scratch {
		t.dropScratchLocked(n)
		return nil
	}
	return live.ErrPerm
}

// scratch returns a scratch file of .snapshots, nil when there is none of this name.
func (t *Tree) scratch(ws *snapshot.Workspace, name string) *node {
	if n := t.current(ws, name); n != nil && n.scratch {
		return n
	}
	return nil
}

// renameScratch runs what is in a scratch file when it is moved onto a control file,
// as if it had been written there.
func (t *Tree) renameScratch(n *node, to string, r Request) error {
	if isCommand(to) {
		t.mu.Lock()
		line := string(n.content.bytes())
		t.mu.Unlock()
		if err := t.runLine(n.dir.ws, to, line, r); err != nil {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.dropScratchLocked(n)
		return nil
	}
	if !isScratch(to) {
		return live.ErrPerm
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(n.dir.current, n.name)
	n.name = to
	n.dir.current[to] = n
	return nil
}

func (t *Tree) writeScratch(n *node, data []byte, off int64) (int, error) {
	end := off + int64(len(data))
	if off < 0 || end > maxScratch {
		return 0, live.ErrTooBig
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := n.content.bytes()
	if end > int64(len(b)) {
		b = resize(b, int(end))
	}
	copy(b[off:], data)
	n.content = small(b)
	n.mtime = now()
	return len(data), nil
}

// dropScratchLocked takes the name from a scratch file; it goes when the kernel does
// not hold it any more.
func (t *Tree) dropScratchLocked(n *node) {
	n.dir.scratch = without(n.dir.scratch, n)
	if n.dir.current[n.name] == n {
		delete(n.dir.current, n.name)
	}
	if n.held == 0 {
		t.removeLocked(n)
	}
}
