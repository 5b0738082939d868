package storedir

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// fromName is a file with the path of the directory that the store was filled from.
const fromName = "from"

// fillingName is a file that is in a store from before it is made until all that it is
// filled from is in. Who was killed meanwhile leaves it: what there is must not be taken
// for an empty workspace.
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

// CheckFilled refuses a store that was not filled to the end.
func (d *Dir) CheckFilled() error {
	if _, err := d.Disk.Stat(filepath.Join(d.Path, fillingName)); err != nil {
		return nil
	}
	return errs.New(errs.Format, "its daemon was killed while the store was being filled, so it is incomplete; "+
		"what it was filled from is as it was: remove the store and begin again")
}

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

// FilledFrom returns the directory that the store in dir was filled from, or is being
// filled from; "" if there is none.
func FilledFrom(dir string) (from string, err error) {
	err = inside(dir, func(disk *vfs.Beneath) error {
		b, err := readSmall(disk, filepath.Join(dir, fromName))
		if errors.Is(err, os.ErrNotExist) {
			b, err = readSmall(disk, filepath.Join(dir, fillingName))
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		from = string(b)
		return err
	})
	return from, err
}
