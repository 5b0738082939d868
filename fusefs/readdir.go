package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The first offsets of a listing are for the names that the forest does not list. The offsets of names that the
// forest lists begin at 16.
const (
	offDot = iota + 1
	offDotDot
	offSnapshots
	offForks
	offTree
)

// A lister fills the buffer of a READDIR or READDIRPLUS request.
type lister struct {
	forest         *live.Forest
	control        *control.Tree
	replies        *replies
	snapdirVisible bool // Flags.SnapdirVisible

	out  *fuse.DirEntryList
	plus bool
}

func newLister(fs *filesystem, out *fuse.DirEntryList, plus bool) *lister {
	return &lister{fs.forest, fs.control, fs.replies, fs.opts.SnapdirVisible, out, plus}
}

// addName adds an entry without attributes, and reports whether the buffer had room. In READDIRPLUS
// the node id of such an entry is zero, and the kernel looks the name up when it is used.
func (l *lister) addName(name string, id live.NodeID, mode uint32, off uint64) bool {
	e := fuse.DirEntry{Name: name, Ino: uint64(id), Mode: mode, Off: off}
	if l.plus {
		return l.out.AddDirLookupEntry(e) != nil
	}
	return l.out.AddDirEntry(e)
}

func (fs *filesystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return newLister(fs, out, false).list(in)
}

// ReadDirPlus lists entries with attributes, which saves a LOOKUP for each entry that the program stats next.
// The kernel sends READDIRPLUS when it has seen a program list a directory and stat the entries.
func (fs *filesystem) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return newLister(fs, out, true).list(in)
}

func (l *lister) list(in *fuse.ReadIn) fuse.Status {
	id, off := live.NodeID(in.NodeId), in.Offset
	if control.IsNode(id) {
		return l.replies.status("readdir", id, l.control.List(id, off, l.addName))
	}

	if off < offTree {
		more, err := l.listDots(id, off)
		if err != nil {
			return l.replies.status("readdir", id, err)
		}
		if !more {
			return fuse.OK
		}
		off = 0
	}

	var err error
	view := id.View()

	if l.plus {
		err = l.forest.ReadDirPlus(id, off, func(e tree.Dirent, a *live.Attr, cookie uint64) bool {
			if a == nil {
				return l.addName(e.Name, live.Node(view, e.Ino), e.Type, cookie)
			}
			out := l.out.AddDirLookupEntry(fuse.DirEntry{Name: e.Name, Ino: uint64(a.ID), Mode: a.Mode, Off: cookie})
			if out == nil {
				return false
			}

			l.replies.fillEntry(out, id, a)

			return true
		})
	} else {
		err = l.forest.ReadDir(id, off, func(e tree.Dirent, cookie uint64) bool {
			return l.addName(e.Name, live.Node(view, e.Ino), e.Type, cookie)
		})
	}

	return l.replies.status("readdir", id, err)
}

var dotNames = [offTree]string{offDot: ".", offDotDot: "..", offSnapshots: naming.SnapshotsDir, offForks: naming.ForksDir}

// listDots lists the names of dotNames, which come before the entries of the tree, and reports
// whether the buffer has room for more.
func (l *lister) listDots(id live.NodeID, off uint64) (more bool, err error) {
	ids, last := [offTree]live.NodeID{offDot: id}, uint64(offDotDot)
	if off < offDotDot {
		if ids[offDotDot], err = l.parent(id); err != nil {
			return false, err
		}
	}

	if id.Ino() == live.RootIno && l.snapdirVisible {
		if snapshots, forks, ok := l.control.Dirs(id.View()); ok {
			ids[offSnapshots], ids[offForks], last = snapshots, forks, offForks
		}
	}

	for next := off + 1; next <= last; next++ {
		if !l.addName(dotNames[next], ids[next], syscall.S_IFDIR, next) {
			return false, nil
		}
	}

	return true, nil
}

// parent returns the directory of `..`. The parent of the root of a fork or snapshot is the
// control directory in which it is listed.
func (l *lister) parent(id live.NodeID) (live.NodeID, error) {
	if id.Ino() != live.RootIno || id.View() == live.MainView {
		return l.forest.Parent(id)
	}
	if dir, ok := l.control.Parent(id.View()); ok {
		return dir, nil
	}

	return id, nil
}
