package storedir

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/internal/vfs"
)

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
