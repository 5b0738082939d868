package hostdir

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A changedDirs opens the directories in which names change. It removes the files that a killed apply left in
// them, and restores the directories' times.
type changedDirs struct {
	*placer
	o    ApplyOptions
	dirs map[string]*touchedDir // by path
}

// A touchedDir is a directory in which names are made or removed. Its former time is restored, unless the
// workspace changed the time. If an earlier apply was interrupted, the time from before that apply is not
// known. Then the directory gets the workspace's time if it has the workspace's names.
type touchedDir struct {
	path        *tree.Path
	formerTime  *unix.Timespec // the former time; nil if it is not known
	swept       bool           // the files that an earlier apply left were removed from it
	interrupted bool           // an earlier apply was interrupted while it changed the directory
}

func (w *changedDirs) touchedDir(p *tree.Path) *touchedDir {
	d := w.dirs[p.String()]
	if d == nil {
		d = &touchedDir{path: p}
		w.dirs[p.String()] = d
	}
	return d
}

// restoreTimes gives each directory in w.dirs its former time. A directory that an interrupted apply has
// completed gets its time in the workspace. After this call, the writer sets the times of the directories that
// the workspace changed.
func (w *changedDirs) restoreTimes() {
	for _, t := range w.dirs {
		dir, err := w.host.dirFD(t.path)
		if err != nil || t.formerTime == nil {
			continue
		}

		time := *t.formerTime
		if n := w.completedVersion(t); n != nil {
			time = filetime.Timespec(n.Mtime)
		}
		if entry, err := statAt(dir, "."); err != nil || entry.st.Mtim != time {
			_ = unix.UtimesNanoAt(dir, ".", []unix.Timespec{{Nsec: unix.UTIME_OMIT}, time}, 0) // an error is ignored: the user may not set the time of another user's directory
		}
	}
}

// completedVersion returns the workspace's version of a directory that an interrupted apply has changed, or
// may have changed. It returns nil if the names in this version and in the directory differ.
func (w *changedDirs) completedVersion(t *touchedDir) *tree.Inode {
	if !t.interrupted && !w.o.Undo {
		return nil
	}
	n, err := w.o.Now.Resolve(w.o.Source, t.path.String())
	if err != nil || !n.IsDir() {
		return nil
	}

	entries, err := w.host.readDir(t.path)
	if err != nil {
		return nil
	}

	var here, there []string // sorted
	for _, e := range entries {
		here = append(here, e.Name())
	}

	err = n.Dir.List(w.o.Source, 0, func(e tree.Dirent, _ uint64) bool {
		there = append(there, e.Name)
		return true
	})
	slices.Sort(there)
	if err != nil || !slices.Equal(here, there) {
		return nil
	}

	return n
}
