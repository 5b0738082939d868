package control

import (
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// The nodes of this tree have a view that the forest does not use. Of the 36 bits of their inode numbers,
// the upper four are the kind of the node.
const (
	controlView = live.MaxView + 1

	kindShift     = 32
	kindSnapshots = 1 << kindShift // + view of the workspace
	kindForks     = 2 << kindShift // + view of the workspace
	kindRendering = 3 << kindShift // + view of the workspace
	kindListed    = 4 << kindShift // + index of the file; used in listings only
	kindFile      = 8 << kindShift // + numberBits bits of a counter, and privateBit
	numberBits    = 34
	privateBit    = 1 << numberBits // set for a file that a program created in .snapshots, see private.go
)

// firstFileNumber returns the number of a daemon's first file. It must differ from the numbers of the previous
// daemon, because the kernel may have cached pages of that daemon's files. The number is the time in
// milliseconds, of which numberBits bits repeat after half a year. Then the kernel does not take a new file for
// an old one with the same number, because each daemon answers with another generation number
// (replies.generation).
func firstFileNumber() uint64 { return uint64(time.Now().UnixMilli()) }

// IsNode reports whether a node belongs to the control tree.
func IsNode(id live.NodeID) bool { return id.View() == controlView }

// IsDir reports whether a node of the control tree is a directory.
func IsDir(id live.NodeID) bool { return id.Ino() < kindListed }

// IsReserved reports whether a name in a directory is the name of a control directory. Only the roots of
// workspaces have control directories, and the roots of snapshots do not.
func (t *Tree) IsReserved(dir live.NodeID, name string) bool {
	return dir.Ino() == live.RootIno && naming.IsControlDir(name) && isWorkspace(t.store, dir.View())
}

func isWorkspace(s *snapshot.Store, view uint32) bool {
	_, ok := s.Workspace(view)
	return ok
}

// Dirs returns the control directories of the workspace with a view. ok is false for the view of a
// snapshot.
func (t *Tree) Dirs(view uint32) (snapshots, forks live.NodeID, ok bool) {
	return snapshotsID(view), forksID(view), isWorkspace(t.store, view)
}

func fileID(number uint64, isPrivate bool) live.NodeID {
	number &= 1<<numberBits - 1
	if isPrivate {
		number |= privateBit
	}
	return live.Node(controlView, kindFile|number)
}

func isPrivate(id live.NodeID) bool { return id.Ino()&privateBit != 0 }

func snapshotsID(workspace uint32) live.NodeID {
	return live.Node(controlView, kindSnapshots|uint64(workspace))
}

func forksID(workspace uint32) live.NodeID {
	return live.Node(controlView, kindForks|uint64(workspace))
}

func renderingID(workspace uint32) live.NodeID {
	return live.Node(controlView, kindRendering|uint64(workspace))
}

// WorkspaceOf returns the workspace of a node: of a file in it, in one of its snapshots or in its
// control directories. It returns nil if the workspace has ended.
func (t *Tree) WorkspaceOf(id live.NodeID) *snapshot.Workspace {
	if !IsNode(id) {
		return t.store.WorkspaceOf(id.View())
	}

	if IsDir(id) {
		ws, _, _ := t.workspace(id)
		return ws
	}

	if n, err := t.cache.get(id); err == nil {
		return n.core().dir.ws
	}

	return nil
}

// workspace returns the workspace of a control directory, and whether the directory is .forks. The error is
// errs.Perm for renderingDir, in which names can only be looked up.
func (t *Tree) workspace(dir live.NodeID) (ws *snapshot.Workspace, forks bool, err error) {
	ws, ok := t.store.Workspace(uint32(dir.Ino()))
	switch kind := dir.Ino() >> kindShift << kindShift; {
	case ok && kind == kindSnapshots:
		return ws, false, nil
	case ok && kind == kindForks:
		return ws, true, nil
	case ok && kind == kindRendering:
		return ws, false, errs.Perm
	}

	return nil, false, errs.Stale
}
