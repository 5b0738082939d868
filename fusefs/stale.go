package fusefs

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// dropAllNames calls drop for each directory of a workspace, in its present state and in the state
// before the last edit, with the names and nodes in the directory.
func (fs *filesystem) dropAllNames(view uint32, drop func(live.Invalidation)) {
	views := []uint32{view}
	if ws, ok := fs.opts.Store.Workspace(view); ok {
		if before, err := ws.Find("undo"); err == nil {
			views = append(views, before.View)
		}
	}

	for _, of := range views {
		for dirs := []uint64{live.RootIno}; len(dirs) > 0; {
			dir := live.Node(view, dirs[0])
			inv := live.Invalidation{Inodes: []live.NodeID{dir}}
			err := fs.forest.ReadDir(live.Node(of, dirs[0]), 0, func(e tree.Dirent, _ uint64) bool {
				inv.Entries = append(inv.Entries, live.Entry{Parent: dir, Name: e.Name})
				if e.Type == unix.S_IFDIR {
					dirs = append(dirs, e.Ino)
				} else {
					inv.Inodes = append(inv.Inodes, live.Node(view, e.Ino))
				}

				return true
			})
			if err != nil {
				fs.opts.Logger.Warn("a directory that the kernel may know as it was", "view", view, "node", dirs[0], "err", err)
			}

			drop(inv)
			dirs = dirs[1:]
		}
	}
}

// mountPointNames returns the names of a view that lie on the way to its mount points. paths are the mount
// points, from the root of the view.
func (fs *filesystem) mountPointNames(view uint32, paths []string) map[live.Entry]bool {
	names := make(map[live.Entry]bool)

	for _, path := range paths {
		dir := live.Node(view, live.RootIno)
		for name := range strings.SplitSeq(path, "/") {
			names[live.Entry{Parent: dir, Name: name}] = true
			a, err := fs.forest.Lookup(dir, name)
			if err != nil {
				break // the name was removed, and the file system is still mounted on it
			}
			dir = a.ID
		}
	}

	return names
}
