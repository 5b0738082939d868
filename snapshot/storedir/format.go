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

// maxSmallFileSize is the largest number of bytes that readSmallFile reads.
const maxSmallFileSize = 4 << 10

// Check returns an errs.Format error if a directory is not a store of the present format.
func Check(dir string) error {
	return withDisk(dir, func(disk *vfs.Root) error {
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

// withDisk calls fn with the disk beneath a directory.
func withDisk(dir string, fn func(disk *vfs.Root) error) error {
	disk, err := vfs.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(fn(disk), disk.Close())
}

// checkFormat reports whether a directory is a store of the present format. It returns false for a directory that
// can become a store, see checkEmpty. For any other directory, such as a store of another format, the error is
// errs.Format.
func checkFormat(disk *vfs.Root, dir string) (isStore bool, err error) {
	b, err := readSmallFile(disk, filepath.Join(dir, "format"))
	if errors.Is(err, os.ErrNotExist) {
		return false, checkEmpty(disk, dir)
	}
	if err != nil {
		return false, err
	}
	if string(b) == FormatLine {
		return true, nil
	}

	line, _, _ := strings.Cut(string(b), "\n")
	return false, errs.New(errs.Format, "unknown store format: %s says %.40q, this version reads %q; %s",
		filepath.Join(dir, "format"), line, strings.TrimSpace(FormatLine), migrationHint(line))
}

// migrationHint returns what the user can do with a store whose file `format` has the given line.
// Before format 3 there were no remotes, so such a store cannot be pushed.
func migrationHint(line string) string {
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

// MakeStore makes the directory a store, unless it is one. filling is the directory from which a new store will be
// filled, or "". MakeStore writes filling to disk before the file `format`, so that FillingSource returns filling
// after a crash.
func (d *Dir) MakeStore(filling string) error {
	isStore, err := checkFormat(d.Disk, d.Path)
	if err != nil || isStore {
		return err
	}
	if d.entriesBefore == nil { // the lock was inherited, so the directory was a store
		return errs.New(errs.Format, "unknown store format: %s has lost its file `format`", d.Path)
	}

	d.wroteFormat = true
	if err := markFilling(d.Disk, d.Path, filling); err != nil {
		return err
	}
	if err := vfs.WriteFile(d.Disk, filepath.Join(d.Path, "format"), []byte(FormatLine)); err != nil {
		return err
	}

	// Make the name of the directory durable, too.
	return vfs.OS.SyncDir(filepath.Dir(d.Path))
}

// checkEmpty returns an error if dir contains entries with which it cannot become a store.
func checkEmpty(disk *vfs.Root, dir string) error {
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

// readSmallFile returns the first maxSmallFileSize bytes of a file.
func readSmallFile(disk *vfs.Root, name string) ([]byte, error) {
	f, err := vfs.Open(disk, name)
	if err != nil {
		return nil, err
	}

	b := make([]byte, maxSmallFileSize)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}

	return b[:n], errors.Join(err, f.Close())
}
