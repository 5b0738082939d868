package storedir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// FormatLine is the content of the file `format` of a store.
const FormatLine = "amberfs store 4\n"

// smallFile is how many bytes are read at most of the files `format` and `lock`.
const smallFile = 4 << 10

// Check refuses a directory that is no store of a known format.
func Check(dir string) error {
	return inside(dir, func(disk *vfs.Beneath) error {
		_, err := disk.Stat(filepath.Join(dir, "format"))
		if errors.Is(err, os.ErrNotExist) {
			return errs.New(errs.Format, "unknown store format: %s is not an amberfs store", dir)
		}
		if err != nil {
			return err
		}
		_, err = checkFormat(disk, dir)
		return err
	})
}

// inside calls fn with the disk beneath a directory.
func inside(dir string, fn func(disk *vfs.Beneath) error) error {
	disk, err := vfs.OpenBeneath(dir)
	if err != nil {
		return err
	}
	return errors.Join(fn(disk), disk.Close())
}

// checkFormat reports whether dir is a store. It refuses one of another format, and a
// directory that can be no new store because other things are in it.
func checkFormat(disk *vfs.Beneath, dir string) (isStore bool, err error) {
	b, err := readSmall(disk, filepath.Join(dir, "format"))
	switch {
	case err == nil && string(b) == FormatLine:
		return true, nil
	case err == nil:
		line, _, _ := strings.Cut(string(b), "\n")
		return false, errs.New(errs.Format, "unknown store format: %s says %.40q, this version reads %q; %s",
			filepath.Join(dir, "format"), line, strings.TrimSpace(FormatLine), wayOver(line))
	case !errors.Is(err, os.ErrNotExist):
		return false, err
	}
	return false, checkEmpty(disk, dir)
}

// wayOver says what to do with a store whose file `format` has another line. Before format 3
// there were no remotes.
func wayOver(line string) string {
	var theirs, ours int
	_, err := fmt.Sscanf(line, "amberfs store %d", &theirs)
	_, _ = fmt.Sscanf(FormatLine, "amberfs store %d", &ours)
	switch {
	case err != nil || theirs > ours:
		return "use the version of amberfs that created it"
	case theirs < 3:
		return "mount it with the version of amberfs that created it, and copy what you need"
	}
	return "with the version of amberfs that created it, take a snapshot of the present state and of each fork, `amberfs remote add NAME URL` " +
		"and `amberfs push NAME SNAPSHOT...`; then pull them with this version"
}

// Format makes the directory a store, unless it is one. What a new store is about to be
// filled from is written down before.
func (d *Dir) Format(filling string) error {
	isStore, err := checkFormat(d.Disk, d.Path)
	if err != nil || isStore {
		return err
	}
	if d.before == nil { // it was taken over
		return errs.New(errs.Format, "unknown store format: %s has lost its file `format`", d.Path)
	}
	d.formatted = true
	if err := markFilling(d.Disk, d.Path, filling); err != nil {
		return err
	}
	if err := vfs.WriteFile(d.Disk, filepath.Join(d.Path, "format"), []byte(FormatLine)); err != nil {
		return err
	}
	// The directory's own name has to last too.
	return vfs.OS.SyncDir(filepath.Dir(d.Path))
}

func checkEmpty(disk *vfs.Beneath, dir string) error {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name {
		case "lock", "amberfs.log", "lost+found", "format.tmp", fillingName, fillingName + ".tmp":
		default:
			return errs.New(errs.Format, "unknown store format: %s contains %s but no file `format`, so it is not a store; name an empty or new directory", dir, e.Name)
		}
	}
	return nil
}

// readSmall returns the beginning of a file.
func readSmall(disk *vfs.Beneath, name string) ([]byte, error) {
	f, err := vfs.Open(disk, name)
	if err != nil {
		return nil, err
	}
	b := make([]byte, smallFile)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], errors.Join(err, f.Close())
}

// fromName is a file with the path of the directory that the store was filled from.
const fromName = "from"

// fillingName is a file that is in a store from before it is made until it is filled. A
// process that is killed meanwhile leaves it, and the next one fills the store again.
const fillingName = "filling"

// markFilling writes down, before there is a store, what it is to be filled from; "" is
// nothing.
func markFilling(disk *vfs.Beneath, dir, from string) error {
	name := filepath.Join(dir, fillingName)
	if from != "" {
		return vfs.WriteFile(disk, name, []byte(from))
	}
	err := disk.Remove(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Unfilled returns what a store is being filled from, or was when that was interrupted; ""
// if it is filled, or never was to be.
func Unfilled(dir string) (from string, err error) { return contentOf(dir, fillingName) }

// FilledFrom returns what a store was filled from; "" if there is none.
func FilledFrom(dir string) (from string, err error) { return contentOf(dir, fromName) }

// Filled says that all of what it was to be filled from is in the store and on disk. It may be called
// of any store, also of one that is closed.
func Filled(dir string) error {
	return inside(dir, func(disk *vfs.Beneath) error {
		err := disk.Rename(filepath.Join(dir, fillingName), filepath.Join(dir, fromName))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return errors.Join(err, disk.SyncDir(dir))
	})
}

// contentOf returns what a file of a store has, "" if there is none.
func contentOf(dir, name string) (text string, err error) {
	err = inside(dir, func(disk *vfs.Beneath) error {
		b, err := readSmall(disk, filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		text = string(b)
		return err
	})
	return text, err
}
