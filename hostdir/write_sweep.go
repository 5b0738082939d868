package hostdir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// tempPrefix begins all temporary names, see host.ownTempPrefix.
const tempPrefix = ".amberfs-apply-"

var tempPattern = pattern.New(`^\.amberfs-apply-[0-9a-f]+-`)

// ErrInterrupted is the reason why the temporary files of an apply that was killed are not read.
var ErrInterrupted = errors.New("an apply was interrupted")

// tempName returns a new temporary name for a file that this apply makes.
func (h *host) tempName() string { return h.ownTempPrefix + strings.ToLower(rand.Text()) }

// replacedName returns a temporary name for a file that a staged file replaces. The name contains the keys of the
// staged file and of the file for which the step was planned, so that sweepFile can check whether the file is one of
// the two.
func (h *host) replacedName(stagedKey, plannedKey string) string {
	return h.ownTempPrefix + stagedKey + "." + plannedKey + "." + strings.ToLower(rand.Text())
}

// key returns a text that identifies a file in its present version.
func (p hostEntry) key() string {
	if !p.exists || p.isDir() {
		return fmt.Sprintf("%x", p.st.Ino)
	}
	return fmt.Sprintf("%x_%x_%x", p.st.Ino, p.st.Size, p.st.Mtim.Nano())
}

// originalKey returns the key of a file that is about to get a temporary name. On overlayfs the key has no inode
// number, because the rename may change it (see wasCopiedUp).
func (h *host) originalKey(p hostEntry) string {
	if h.onOverlay && p.exists && !p.isDir() && p.st.Nlink > 1 {
		p.st.Ino = 0
	}
	return p.key()
}

// sweepDir removes the temporary files of a killed apply from a directory. It does so only if this apply has the
// lock of lockDir: else the files may belong to an apply that is running.
func (w *changedDirs) sweepDir(p *tree.Path) error {
	t := w.touchedDir(p)
	if t.swept {
		return nil
	}

	dir, err := w.host.dirFD(p)
	if err != nil {
		return err
	}

	t.swept = true
	if entry, err := statAt(dir, "."); err == nil {
		t.formerTime = &entry.st.Mtim
	}
	if w.host.lockFile == nil {
		return nil
	}

	entries, err := w.host.readDir(p)
	if errors.Is(err, unix.EACCES) {
		return nil // the directory can be written, but not listed
	}

	for _, e := range entries {
		keys, ok := strings.CutPrefix(e.Name(), w.host.ownTempPrefix)
		if !ok {
			continue
		}

		t.interrupted = true
		if err := w.sweepFile(p, dir, e.Name(), keys); err != nil {
			return err
		}
	}

	return err
}

// sweepFile removes a file with a temporary name, if it is a file that an apply staged or replaced. Otherwise
// the file belongs to another program, and has this name because an apply that renamed it was killed: such a
// file is kept. keys is the part of the name after the prefix.
//
// The removal of one of several names of a file changes the file's ctime. So sweepFile calls touch for the
// inode.
func (w *changedDirs) sweepFile(p *tree.Path, dir int, name, keys string) error {
	entry, err := statAt(dir, name)
	if err != nil {
		return err
	}

	if !strings.Contains(keys, ".") || strings.HasPrefix(keys, entry.key()+".") {
		if err := w.touchBelow(dir, name, entry); err != nil {
			return err
		}
		return removeBelow(dir, name)
	}

	withoutIno := entry
	withoutIno.st.Ino = 0 // on overlayfs, originalKey leaves the inode number out
	if strings.Contains(keys, "."+entry.key()+".") || w.host.onOverlay && strings.Contains(keys, "."+withoutIno.key()+".") {
		w.touch(entry.st.Ino)
		if err := unlink(dir, name, entry); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}

	kept, err := setAside(dir, name)
	w.res.addSkipped(p.ChildUnchecked(kept), "an apply that was interrupted took it from its place: it is another program's")

	return err
}

// touchBelow calls touch for the files of which removeBelow will remove a name.
func (w *changedDirs) touchBelow(dir int, name string, entry hostEntry) error {
	w.touch(entry.st.Ino)
	if !entry.isDir() {
		return nil
	}
	return filepath.WalkDir(procPath(dir)+"/"+name, func(p string, e fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && !e.IsDir() && unix.Lstat(p, &st) == nil {
			w.touch(st.Ino)
		}

		return err
	})
}

// sweepParent cleans up the directory of a path whose file is kept: a killed apply may have renamed the file, without
// removing the replaced file or restoring the directory's mode. If the path itself is a directory with the mode openMode,
// sweepParent opens that directory, too, so that its mode is restored.
func (w *writer) sweepParent(s *step) error {
	if s.original.hasOpenMode {
		if _, err := w.dirs.openDir(s.change.Path); err != nil {
			return err
		}
	}
	if s.action != keep || s.original.parentErr != nil || s.change.Path == nil {
		return nil
	}

	c := s.change
	if c.Before == nil || c.After == nil || c.Before.Ino != c.After.Ino || c.Differences&contentsDiffer != 0 {
		w.dirs.touchedDir(c.Path.Dir).interrupted = true // an earlier apply, which was interrupted, has already placed the file
	}

	_, err := w.dirs.enterDir(c.Path.Dir)
	return ignoreReplaced(err)
}

// enterDir returns a descriptor of a directory in which names change. It opens the directory and sweeps it.
func (w *changedDirs) enterDir(p *tree.Path) (dir int, err error) {
	if dir, err = w.openDir(p); err == nil {
		err = w.sweepDir(p)
	}
	return dir, err
}

// setAside renames a file to a name that no apply removes.
func setAside(dir int, temp string) (string, error) {
	kept := ".amberfs-kept-" + strings.ToLower(rand.Text())
	if err := unix.Renameat(dir, temp, dir, kept); err != nil {
		return temp, err
	}
	return kept, nil
}

// openDir returns a descriptor of a directory. If the directory's mode denies its owner some access, openDir
// adds openMode to the mode; host.restoreModes restores it.
func (w *changedDirs) openDir(p *tree.Path) (dir int, err error) {
	if dir, err = w.host.dirFD(p); err == nil {
		_, err = w.host.addOpenMode(dir, p)
	}
	return dir, err
}
