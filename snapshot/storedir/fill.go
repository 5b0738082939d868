package storedir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/internal/vfs"
)

// The names of the file with the path of the directory from which a store is filled. A zero byte and the
// kernel's boot id follow the path in the file. While the file has one of the first two names, a power cut
// may leave the store incomplete: if such a store is opened after another boot, it is emptied and filled
// again.
const (
	fillingName = "filling" // the store is not filled yet. The file is written before the file `format`
	filledName  = "filled"  // the store is filled, but its files may not be on disk yet
	fromName    = "from"    // the store is filled, and its files are on disk
)

// markFilling writes the file fillingName of a store, or removes it if from is "".
func markFilling(disk *vfs.Root, dir, from string) error {
	name := filepath.Join(dir, fillingName)
	if from != "" {
		return vfs.WriteFile(disk, name, []byte(from+"\x00"+process.BootID()))
	}

	err := disk.Remove(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	return err
}

// FillingSource returns the directory from which a store is being filled, also if the filling was interrupted.
// It returns "" if the store is filled completely, or was never filled from a directory.
func FillingSource(dir string) (from string, err error) {
	err = withDisk(dir, func(disk *vfs.Root) error {
		from, _, err = readFillFile(disk, dir, fillingName)
		return err
	})
	return from, err
}

// FilledSource returns the directory from which a store was filled, or "".
func FilledSource(dir string) (from string, err error) {
	err = withDisk(dir, func(disk *vfs.Root) error {
		if from, _, err = readFillFile(disk, dir, fromName); from == "" && err == nil {
			from, _, err = readFillFile(disk, dir, filledName)
		}
		return err
	})
	return from, err
}

// readFillFile reads the file with the name fillingName, filledName or fromName. from is the path in the file, and
// boot the boot id. If the file does not exist, both are "".
func readFillFile(disk *vfs.Root, dir, name string) (from, boot string, err error) {
	b, err := readSmallFile(disk, filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "", "", nil
	}

	from, boot, _ = strings.Cut(string(b), "\x00")
	return from, boot, err
}

// ResumeFill is called when a store is opened. If a power cut may have left the store incomplete (see fillingName),
// ResumeFill empties it. If alone is set, only the goroutine that fills the store writes to the store: then writes do
// not wait for the disk until SyncFill.
func (d *Dir) ResumeFill(alone bool) error {
	for _, name := range []string{fillingName, filledName} {
		from, boot, err := readFillFile(d.Disk, d.Path, name)
		if err != nil {
			return err
		}

		if from == "" {
			continue
		}

		now := process.BootID()
		torn := boot != "" && boot != now
		if (torn || name == fillingName) && !d.wroteFormat {
			if err := checkOwner(d.Path); err != nil {
				return err
			}
		}

		if torn {
			if err := d.emptyTornStore(name, from); err != nil {
				return err
			}
			boot, name = now, fillingName
		}

		d.unsynced = name == filledName
		d.Disk.SkipSyncs.Store(alone && boot != "" && name == fillingName)

		return nil
	}
	return nil
}

// checkOwner returns an error if a user who is not the store's owner opens a store that is not filled
// yet. The owner of the store can change the path of the directory from which it is filled. So the owner
// could make the other user read a directory that the owner may not read.
func checkOwner(dir string) error {
	uid, _, err := Owner(dir)
	if err != nil {
		return err
	}
	if int(uid) != os.Geteuid() {
		return errs.New(errs.Protected, "the store is not filled yet, and only its owner may read what it is filled from")
	}

	return nil
}

// emptyTornStore removes the files of a store that a power cut may have left incomplete, and marks the store as
// not filled. name is the present name of the file that contains from.
func (d *Dir) emptyTornStore(name, from string) error {
	if err := errors.Join(d.Disk.Rename(d.entryPath(name), d.entryPath(fillingName)), d.Disk.SyncDir(d.Path)); err != nil {
		return err
	}

	for _, name := range storeEntries {
		if slices.Contains([]string{"format", fillingName, "amberfs.log", "amberfs.log.1", "lock"}, name) {
			continue
		}
		if err := os.RemoveAll(d.Disk.Path(d.entryPath(name))); err != nil {
			return err
		}
	}

	return errors.Join(d.Disk.SyncDir(d.Path), markFilling(d.Disk, d.Path, from))
}

func (d *Dir) entryPath(name string) string { return filepath.Join(d.Path, name) }

// MarkFilled records that the store is filled. It does nothing if the store is not being filled. Unless ResumeFill
// was called with alone, the caller has made all files of the store durable.
func (d *Dir) MarkFilled() error {
	name := fromName
	if d.Disk.SkipSyncs.Load() {
		name = filledName
	}

	err := d.Disk.Rename(d.entryPath(fillingName), d.entryPath(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	return errors.Join(err, d.Disk.SyncDir(d.Path))
}

// SyncFill makes a store durable that was filled without waiting for the disk. A power cut before SyncFill has
// returned may destroy all data of the store.
func (d *Dir) SyncFill() error {
	d.syncMu.Lock()
	defer d.syncMu.Unlock()

	if !d.unsynced {
		return nil
	}

	// The index need not be synced: Badger syncs its tables, and it can be rebuilt from the packs.
	files := []string{d.entryPath("manifest"), d.entryPath("manifest.copy")}
	for _, dir := range []string{"packs", "journal"} {
		infos, err := d.Disk.ReadDir(d.entryPath(dir))
		if err != nil {
			return err
		}
		for _, i := range infos {
			files = append(files, filepath.Join(d.entryPath(dir), i.Name))
		}
	}

	for _, name := range files {
		if err := syncFile(d.Disk, name); err != nil {
			return err
		}
	}

	for _, dir := range []string{"packs", "journal", "."} {
		if err := d.Disk.SyncDir(d.entryPath(dir)); err != nil {
			return err
		}
	}
	if err := d.Disk.Rename(d.entryPath(filledName), d.entryPath(fromName)); err != nil {
		return err
	}

	err := d.Disk.SyncDir(d.Path)
	d.unsynced = err != nil

	return err
}

// syncFile syncs a file. It ignores a file that was removed: the file that replaced it was synced before the
// removal.
func syncFile(disk *vfs.Root, name string) error {
	f, err := vfs.Open(disk, name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	return errors.Join(f.Sync(), f.Close())
}
