package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/control"
	"github.com/amberfs/amberfs/snapshot/live"
)

// attrTimeout is how long the kernel may trust the attributes of a control node. Those
// of a file it asks for each time, so every open sees the present.
func attrTimeout(id live.NodeID) time.Duration {
	if control.IsDir(id) {
		return control.Brief
	}
	return 0
}

// controlEntry answers with what was found or made in the control tree.
func (fs *filesystem) controlEntry(op string, dir live.NodeID, e control.Entry, err error, out *fuse.EntryOut) fuse.Status {
	if err != nil {
		return fs.status(op, dir, err)
	}
	if control.IsNode(e.Attr.ID) {
		out.NodeId = uint64(e.Attr.ID)
		fillAttr(&out.Attr, &e.Attr)
		out.SetAttrTimeout(attrTimeout(e.Attr.ID))
	} else {
		fs.entry(out, &e.Attr)
	}
	out.SetEntryTimeout(e.Timeout)
	return fuse.OK
}

// lookupControl finds a control directory in the root of a workspace.
func (fs *filesystem) lookupControl(root live.NodeID, name string, out *fuse.EntryOut) fuse.Status {
	a, err := fs.control.Root(root, name)
	return fs.controlEntry("lookup", root, control.Entry{Attr: a, Timeout: cached}, err, out)
}

// attr returns the attributes of any node, and how long they may be trusted.
func (fs *filesystem) attr(id live.NodeID) (live.Attr, time.Duration, error) {
	if control.IsNode(id) {
		a, err := fs.control.GetAttr(id)
		return a, attrTimeout(id), err
	}
	a, err := fs.forest.GetAttr(id)
	if t, ok := fs.capturedAt(id); ok {
		a.Mtime = t
	}
	return a, cached, err
}

// capturedAt returns when (ns) a snapshot was made whose root this is, so that
// `ls -lt .snapshots` shows the order in which they were made.
func (fs *filesystem) capturedAt(id live.NodeID) (int64, bool) {
	if id.Ino() != live.RootIno || id.View() == live.MainView {
		return 0, false
	}
	return fs.control.Captured(id.View())
}

// A kernel is the side of the kernel that control.Tree sees.
type kernel struct {
	*notifier
	*readers
}

func request(cancel <-chan struct{}, h *fuse.InHeader) control.Request {
	return control.Request{Caller: caller(h), Cancel: cancel}
}
