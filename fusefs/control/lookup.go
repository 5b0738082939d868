package control

import (
	"context"
	"errors"
	"syscall"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// LookupDir returns the attributes of the control directory with a name in the root of a workspace.
func (t *Tree) LookupDir(root live.NodeID, name string) (live.Attr, error) {
	if name == naming.ForksDir {
		return t.dirAttr(forksID(root.View()))
	}
	return t.dirAttr(snapshotsID(root.View()))
}

// dirAttr returns the attributes of a control directory: the owner, the permissions and the sticky bit
// of the workspace's root, and the time of the last command or snapshot.
func (t *Tree) dirAttr(id live.NodeID) (live.Attr, error) {
	ws, forks, err := t.workspace(id)
	if ws == nil {
		return live.Attr{}, err
	}

	root, err := ws.Store().Forest().GetAttr(ws.Root())
	if err != nil {
		return live.Attr{}, err
	}

	t.cache.mu.Lock()
	changedAt := max(t.cache.dirLocked(ws).changedAt, root.Btime)
	t.cache.mu.Unlock()

	if !forks {
		if latest, err := ws.Find(latestName); err == nil {
			changedAt = max(changedAt, latest.Created.UnixNano())
		}
	}

	return live.Attr{
		ID: id, Mode: syscall.S_IFDIR | root.Mode&0o1777, UID: root.UID, GID: root.GID, Nlink: 2, Size: 4096, Blocks: 8,
		Atime: changedAt, Mtime: changedAt, Ctime: changedAt, Btime: root.Btime,
	}, nil
}

// Lookup resolves a name in a control directory. The caller calls Forget for a returned file, when the kernel
// has forgotten the file.
func (t *Tree) Lookup(dir live.NodeID, name string, r Request) (Entry, error) {
	if len(name) > 255 {
		return Entry{}, errs.NameTooLong
	}
	ws, forks, err := t.workspace(dir)
	switch {
	case ws != nil && dir == renderingID(ws.View()):
		r.mayRender = true
		if _, query := parseQuery(name); !query && name != listName {
			return Entry{}, errs.NotExist
		}
		return t.lookupInSnapshots(ws, name, r)
	case err != nil:
		return Entry{}, err
	case forks:
		return t.lookupFork(ws, name)
	case name == renderingDir:
		a, err := t.dirAttr(renderingID(ws.View()))
		return Entry{a, BriefCacheTime}, err
	}

	e, err := t.lookupInSnapshots(ws, name, r)
	if errors.Is(err, naming.ErrBadName) || errors.Is(err, errs.NameTooLong) {
		return e, errs.NotExist
	}

	return e, err
}

// lookupInSnapshots resolves a name in .snapshots.
func (t *Tree) lookupInSnapshots(ws *snapshot.Workspace, name string, r Request) (Entry, error) {
	if f, ok := findFile(name); ok {
		return f.lookup(t, ws, f, r)
	}
	if n := t.privateFile(ws, name); n != nil {
		return t.cache.entry(n), nil
	}
	if isCall(name) {
		return t.lookupStream(ws, name, r.Caller)
	}
	if q, ok := parseQuery(name); ok {
		return t.renderer.lookupQuery(ws, q, name, r)
	}

	return t.lookupSnapshot(ws, name)
}

// lookupLink returns a link to a snapshot, such as latest.
func (t *Tree) lookupLink(ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
	info, err := ws.Find(f.name)
	if err != nil {
		return Entry{}, err
	}
	return t.cache.publishLink(ws, f.name, info.Name)
}

// lookupAnswer returns a file that takes commands. The file is empty before the first command. If the
// previous daemon may have stored an answer in the file, reads fail until the next command.
func (t *Tree) lookupAnswer(ws *snapshot.Workspace, f file, r Request) (Entry, error) {
	s, root := keyOf(ws, f.name, r.Caller), rootAttr(ws)
	t.cache.renderOutcome(ws, s)
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()

	d := t.cache.dirLocked(ws)
	n, ok := d.nodes[s].(*answerFile)
	if ok && n.commands.runningCount == 0 {
		return entryLocked(n, root), nil
	}

	next := &answerFile{inode: inode{mode: f.kind | f.mode}}
	switch {
	case ok:
		// A command runs, and the kernel has locked n until it ends. So the name gets a new node with the same
		// content: a write to n would wait.
		next.mode, next.content = n.mode, n.contentLocked()
	case ws.View() < t.firstNewView.Load():
		next.content = lostAnswer
	}
	t.cache.addLocked(d, s, next)

	return entryLocked(next, root), nil
}

// lookupSnapshot returns the root of a snapshot. Its other names (cp-3, the digits of an id) are symlinks
// to its name, because a directory can have only one name in the kernel.
func (t *Tree) lookupSnapshot(ws *snapshot.Workspace, name string) (Entry, error) {
	info, err := ws.Find(name)
	if err != nil {
		return Entry{}, err
	}
	if info.Name != name && name != baseName {
		return t.cache.publishLink(ws, name, info.Name)
	}

	a, err := waitAttr(ws, live.Node(info.View, live.RootIno))
	return Entry{a, BriefCacheTime}, err // the name is cached only briefly, because a snapshot may be renamed or deleted
}

func (t *Tree) lookupFork(ws *snapshot.Workspace, name string) (Entry, error) {
	fork, err := ws.Forks().Named(name)
	if err != nil {
		return Entry{}, errs.NotExist
	}
	a, err := waitAttr(ws, fork.Root())
	return Entry{a, BriefCacheTime}, err
}

// waitAttr returns the attributes of a root directory. If the attributes are being read from the disk, it
// waits: the journal already has the change of the caller, so the request must not fail and be repeated.
func waitAttr(ws *snapshot.Workspace, root live.NodeID) (a live.Attr, err error) {
	err = cas.Retry(context.Background(), func() (err error) {
		a, err = ws.Store().Forest().GetAttr(root)
		return err
	})
	return a, err
}
