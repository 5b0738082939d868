package hostdir

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A changedDirs opens the directories in which names change, removes the files that a killed apply left in them, and
// restores their times.
type changedDirs struct {
	*placer
	o    ApplyOptions
	res  *Applied
	dirs map[string]*touchedDir // by path
}

// A touchedDir is a directory in which names are made or removed. Its former time is restored,
// unless the workspace has another one. After an apply that was interrupted, that time is not known: the
// directory gets the workspace's time if it has the same names.
type touchedDir struct {
	path        *tree.Path
	time        *unix.Timespec // nil: it is not known
	swept       bool           // the files that an earlier apply left were removed
	interrupted bool           // an earlier apply began to change it
}

func (w *changedDirs) touchedDir(p *tree.Path) *touchedDir {
	d := w.dirs[p.String()]
	if d == nil {
		d = &touchedDir{path: p}
		w.dirs[p.String()] = d
	}
	return d
}

// restoreTimes is called before the times of the workspace are set.
func (w *changedDirs) restoreTimes() {
	for _, t := range w.dirs {
		dir, err := w.host.open(t.path)
		if err != nil || t.time == nil {
			continue
		}

		time := *t.time
		if n := w.completed(t); n != nil {
			time = filetime.Timespec(n.Mtime)
		}
		if at, err := statAt(dir, "."); err != nil || at.st.Mtim != time {
			_ = unix.UtimesNanoAt(dir, ".", []unix.Timespec{{Nsec: unix.UTIME_OMIT}, time}, 0) // it may be another user's
		}
	}
}

// completed returns the workspace's version of a directory that an earlier apply has changed, or began to
// change, if the two have the same names now. Else it is nil.
func (w *changedDirs) completed(t *touchedDir) *tree.Inode {
	if !t.interrupted && !w.o.Undo {
		return nil
	}
	n, err := w.o.Now.Resolve(w.o.Source, t.path.String())
	if err != nil || !n.IsDir() {
		return nil
	}

	entries, err := w.host.list(t.path)
	if err != nil {
		return nil
	}

	var here, there []string
	for _, e := range entries {
		here = append(here, e.Name())
	}

	err = n.Dir.List(w.o.Source, 0, func(e tree.Dirent, _ uint64) bool {
		there = append(there, e.Name)
		return true
	})
	slices.Sort(here)
	slices.Sort(there)
	if err != nil || !slices.Equal(here, there) {
		return nil
	}

	return n
}
