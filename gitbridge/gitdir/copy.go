package gitdir

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
)

// A Copy is a directory of this machine with a copy of a git directory of a state. It has a plain
// configuration, see configOfCopy.
type Copy struct {
	Repo   *Repo
	copied []string // the paths of the copied files, except objects
}

// NewCopy copies f to the directory dest. alternates are directories of objects that git also reads in the
// copy.
func NewCopy(f Files, dest string, alternates []string) (*Copy, error) {
	c := &Copy{Repo: &Repo{Dir: dest, Common: dest}}

	text, err := f.Read("config")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := makeRepo(dest, map[string]string{"config": configOfCopy(string(text)), alternatesFile: alternatesText(alternates)}); err != nil {
		return nil, err
	}
	if err := eachFile(f, ".", 0, func(name string) error { return c.copyFile(f, name) }); err != nil {
		return nil, err
	}

	return c, copyObjects(f, filepath.Join(dest, "objects"), "")
}

// copyFile copies a file of a git directory. It skips ordinary files (IsOrdinaryFile), objects, which copyObjects copies,
// reftables, and locks.
func (c *Copy) copyFile(f Files, name string) error {
	if IsOrdinaryFile(name) || below(name, "objects", "reftable") || strings.HasSuffix(name, ".lock") {
		return nil
	}

	b, err := f.Read(name)
	if err != nil {
		return errs.Ignore(err, fs.ErrNotExist) // there is a link, or an empty directory
	}
	at := filepath.Join(c.Repo.Dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(at, b, 0o600); err != nil {
		return err
	}
	c.copied = append(c.copied, name)

	_, mtime, err := f.Stat(name)
	if err != nil {
		return err
	}
	return os.Chtimes(at, time.Time{}, time.Unix(0, mtime)) // keep the time: git compares the time of the index with the times of files
}

// configOfCopy returns the configuration of a copy. It has the object format and core.bare of the
// configuration text, turns on reflogs, and sets amberfs as the user.
func configOfCopy(text string) string {
	original := parseConfig(text)
	return objectFormatConfig(idLen(original)) + "[core]\n\tbare = " + strconv.FormatBool(original.lastValue("core.bare") == "true") + "\n\tlogAllRefUpdates = true\n[user]\n\tname = amberfs\n\temail = amberfs@localhost\n"
}

// objectFormatConfig returns the part of a configuration that sets the length of object ids. idLen is in
// bytes.
func objectFormatConfig(idLen int) string {
	if idLen > sha1.Size {
		return "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
	}
	return "[core]\n\trepositoryformatversion = 0\n"
}

// ChangedFiles returns the paths of the files that git changed or added in the copy, including new objects, and of the
// files that git removed (gone). original is the git directory that was copied.
func (c *Copy) ChangedFiles(original Files) (changed, gone []string, err error) {
	err = filepath.WalkDir(c.Repo.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(p, c.Repo.Dir+"/")
		if name == "config" || strings.HasSuffix(name, ".lock") || name == alternatesFile || path.Base(name) == "commit-graph" {
			return nil
		}

		if below(name, "objects") {
			kind, _, err := original.Stat(name)
			if kind == 0 {
				changed = append(changed, name)
			}
			return err
		}

		now, err := os.ReadFile(p)
		if was, wasErr := original.Read(name); wasErr != nil || !bytes.Equal(was, now) {
			changed = append(changed, name)
		}
		return err
	})

	for _, name := range c.copied {
		if info, err := os.Lstat(filepath.Join(c.Repo.Dir, name)); err != nil || info.IsDir() {
			gone = append(gone, name)
		}
	}

	return changed, gone, err
}

// maxObjectBytes limits the bytes of objects that copyObjects copies.
const maxObjectBytes = 4 << 30

// errTooManyObjects means that a git directory has more than maxObjectBytes bytes of objects.
var errTooManyObjects = fmt.Errorf("%w: it has more than %d GiB of objects", ErrUnsupported, maxObjectBytes>>30)

// copyObjects copies the objects and packs of f to the directory dest. existingDir is another directory with
// objects, or "". Its objects and packs are not copied again; files with equal names are equal, because the
// name of an object or a pack is its hash. Other files below objects, such as a commit graph, are not copied
// either: git can make them again. Errors: errTooManyObjects.
func copyObjects(f Files, dest, existingDir string) error {
	remainingBytes := int64(maxObjectBytes)
	return eachFile(f, "objects", 0, func(name string) error {
		rel := strings.TrimPrefix(name, "objects/")
		if !isObject(rel) {
			return nil
		}
		for _, dir := range []string{existingDir, dest} {
			if _, err := os.Lstat(filepath.Join(dir, rel)); dir != "" && err == nil {
				return nil
			}
		}
		return errs.Ignore(saveTo(f, name, filepath.Join(dest, rel), &remainingBytes), fs.ErrNotExist) // there is a link, or an empty directory
	})
}

// isObject reports whether a file below objects is an object, or a pack with its index.
func isObject(rel string) bool {
	dir, name, _ := strings.Cut(rel, "/")
	if dir != "pack" {
		return len(dir) == 2 && len(name) > 36 && strings.Trim(name, "0123456789abcdef") == ""
	}
	return !strings.ContainsRune(name, '/') && !strings.HasPrefix(name, ".") && slices.Contains([]string{".pack", ".idx", ".promisor"}, path.Ext(name))
}

// saveTo copies a file of a git directory to the new file dest. remainingBytes limits the size of the file, and is reduced
// by the size. Errors: errTooManyObjects.
func saveTo(f Files, name, dest string, remainingBytes *int64) error {
	in, err := f.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()

	if err := os.MkdirAll(filepath.Dir(dest), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(dest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	n, err := io.Copy(out, io.LimitReader(in, *remainingBytes+1))
	if *remainingBytes -= n; *remainingBytes < 0 {
		err = errTooManyObjects
	}
	return errors.Join(err, out.Close())
}
