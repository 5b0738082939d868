package takeover

import (
	"log/slog"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Notices repeats the notices that the earlier daemon may not have sent.
type Notices struct {
	Store *snapshot.Store
	// MountPoints reads the mount points inside the mount. The returned function returns the mount points in
	// a view, as paths from its root.
	MountPoints func() func(view uint32) []string
	// Drop makes the kernel drop names and pages. It returns after the kernel has done so.
	Drop func(live.Invalidation)
	Log  *slog.Logger
}

// Repeat makes the kernel drop the names and pages that it may have cached before an edit of the earlier daemon.
// It sends a notice for each of them. It does not use INC_EPOCH, with which the kernel drops all names at once:
// INC_EPOCH drops no pages, and would unmount other file systems that are mounted on a name.
func (n *Notices) Repeat(in live.Inheritance) {
	mountPoints, names := n.MountPoints(), make(map[uint32]map[live.Entry]bool)
	drop := func(inv live.Invalidation) {
		for i, e := range inv.Entries {
			view := e.Parent.View()
			if names[view] == nil {
				names[view] = n.mountPointNames(view, mountPoints(view))
			}

			inv.Entries[i].MountPoint = names[view][live.Entry{Parent: e.Parent, Name: e.Name}]
		}

		n.Drop(inv)
	}
	for _, inv := range in.Notices {
		drop(inv)
	}

	for view, names := range in.Stale {
		n.Log.Info("the kernel may have outdated names of a workspace, and drops all", "view", view)

		// First drop the given names in the root. dropAllNames may miss them, because the root may have had
		// them in a state that no longer exists.
		var root live.Invalidation
		for _, name := range names {
			root.Entries = append(root.Entries, live.Entry{Parent: live.Node(view, live.RootIno), Name: name})
		}

		drop(root)
		n.dropAllNames(view, drop)
	}

	n.Store.Forest().Takeover.MarkInheritedNoticed()
}

// dropAllNames calls drop for each directory of a workspace, in its present state and in the state
// before the last edit, with the names and nodes in the directory.
func (n *Notices) dropAllNames(view uint32, drop func(live.Invalidation)) {
	views := []uint32{view}
	if ws, ok := n.Store.Workspace(view); ok {
		if before, err := ws.Find("undo"); err == nil {
			views = append(views, before.View)
		}
	}

	for _, listed := range views {
		for dirs := []uint64{live.RootIno}; len(dirs) > 0; {
			dir := live.Node(view, dirs[0])
			inv := live.Invalidation{Inodes: []live.NodeID{dir}}
			err := n.Store.Forest().ReadDir(live.Node(listed, dirs[0]), 0, func(e tree.Dirent, _ uint64) bool {
				inv.Entries = append(inv.Entries, live.Entry{Parent: dir, Name: e.Name})
				if e.Type == unix.S_IFDIR {
					dirs = append(dirs, e.Ino)
				} else {
					inv.Inodes = append(inv.Inodes, live.Node(view, e.Ino))
				}

				return true
			})
			if err != nil {
				n.Log.Warn("a directory that the kernel may know as it was", "view", view, "node", dirs[0], "err", err)
			}

			drop(inv)
			dirs = dirs[1:]
		}
	}
}

// mountPointNames returns the names of a view that lie on the way to its mount points. paths are the mount
// points, from the root of the view.
func (n *Notices) mountPointNames(view uint32, paths []string) map[live.Entry]bool {
	names := make(map[live.Entry]bool)

	for _, path := range paths {
		dir := live.Node(view, live.RootIno)
		for name := range strings.SplitSeq(path, "/") {
			names[live.Entry{Parent: dir, Name: name}] = true
			a, err := n.Store.Forest().Lookup(dir, name)
			if err != nil {
				break // the name was removed, although a file system is mounted on it; no names below it can be found
			}
			dir = a.ID
		}
	}

	return names
}
