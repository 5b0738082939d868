package fusefs

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// minUncoverInterval is the shortest time between two calls of dropUncovered, which reads the mount tables.
const minUncoverInterval = time.Second

// anyView is the view that a caller passes to pathsInView for the mount points in all views.
const anyView = math.MaxUint32

// mountedNames are outdated names that are mount points of other file systems. If the kernel dropped
// such a name, it would also unmount the other file system, in every namespace (d_invalidate in
// fs/dcache.c). So these names are dropped only when the view has no mount points any more.
type mountedNames struct {
	mu    sync.Mutex
	names map[uint32]map[live.Entry]bool // by view
}

// deferMounted adds the names that are mount points to n.mountedNames. It returns the other names, which may be
// dropped now.
func (n *notifier) deferMounted(all []live.Entry) (droppable []live.Entry) {
	b := &n.mountedNames
	b.mu.Lock()
	defer b.mu.Unlock()

	for _, e := range all {
		key, view := live.Entry{Parent: e.Parent, Name: e.Name}, e.Parent.View()
		switch {
		case b.names[view][key]:
		case !e.MountPoint:
			droppable = append(droppable, e)
		default:
			if len(b.names) == 0 {
				b.names = make(map[uint32]map[live.Entry]bool)
				time.AfterFunc(minUncoverInterval, n.dropUncovered)
			}

			if b.names[view] == nil {
				b.names[view] = make(map[live.Entry]bool)
			}

			b.names[view][key] = true
		}
	}

	return droppable
}

// dropUncovered drops the names in n.mountedNames whose views have no mount points any more.
func (n *notifier) dropUncovered() {
	b := &n.mountedNames
	b.mu.Lock()
	defer b.mu.Unlock()

	began, mounted := time.Now(), n.mountPoints()

	for view, names := range b.names {
		if len(mounted(view)) > 0 {
			continue
		}
		delete(b.names, view)
		n.enqueue(&n.treeQueue, func() {
			for e := range names {
				n.send(wire.InvalEntry(e.Parent, e.Name))
			}
		})
	}

	if len(b.names) > 0 {
		time.AfterFunc(max(minUncoverInterval, 50*time.Since(began)), n.dropUncovered)
	}
}

// mountPoints reads the mount points on the file system that is mounted at mountpoint. The returned function
// returns the mount points in a view, as paths from the root of the view.
func mountPoints(s *snapshot.Store, mountpoint string) func(view uint32) []string {
	var all []string
	if m, err := mounts.TopmostAt(mountpoint); err == nil && m != nil {
		all = mounts.PointsOn(m.Major, m.Minor)
	}
	return func(view uint32) []string { return pathsBelowRoot(s, view, all) }
}

// coveredPaths returns the paths, from the root of a view, at which the process pid sees another file system
// than the view. The process may be in another mount namespace than the daemon.
func coveredPaths(s *snapshot.Store, mountpoint string, view, pid uint32) []string {
	m, err := mounts.TopmostAt(mountpoint)
	if err != nil || m == nil {
		return nil
	}
	return pathsBelowRoot(s, view, mounts.CoveringPoints(int(pid), m.Major, m.Minor))
}

// pathsBelowRoot returns the paths of pathsInView except for the root of the view.
func pathsBelowRoot(s *snapshot.Store, view uint32, all []string) []string {
	return slices.DeleteFunc(pathsInView(s, view, all), func(path string) bool { return path == "" })
}

// mayHaveOverlay reports whether an overlay may have a layer on the file system that is mounted at a path.
func mayHaveOverlay(mountpoint string) bool {
	m, err := mounts.TopmostAt(mountpoint)
	return err != nil || m == nil || mounts.HasOverlayOn(m.Major, m.Minor)
}

// pathsInView selects the paths, from the root of main, that lead into a view, and returns them as
// paths from the root of the view.
func pathsInView(s *snapshot.Store, view uint32, all []string) (paths []string) {
	for _, path := range all {
		ws, path := s.Main(), strings.TrimPrefix(path, "/")
		for ws != nil && strings.HasPrefix(path, naming.ForksDir+"/") {
			name, rest, _ := strings.Cut(strings.TrimPrefix(path, naming.ForksDir+"/"), "/")
			var err error
			if ws, err = ws.Forks().Named(name); err == nil {
				path = rest
			}
		}

		if ws != nil && (ws.View() == view || view == anyView) {
			paths = append(paths, path)
		}
	}
	return paths
}
