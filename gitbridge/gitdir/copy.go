package gitdir

import (
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Copy is a directory of this machine with a copy of a git directory of a state. It has a plain
// configuration, see configOfCopy.
type Copy struct {
	Repo         *Repo
	copiedHashes map[string][sha256.Size]byte // hashes of the copied files by path, except objects
}

// notCopied reports whether copyFiles skips a path: objects, which copyObjects copies, reftables, locks, and ordinary
// files (IsOrdinaryFile) except for the configuration.
func notCopied(name string) bool {
	return name != "config" && IsOrdinaryFile(name) || below(name, "objects", "reftable") || strings.HasSuffix(name, ".lock")
}

// NewCopy copies f to the directory dest. alternates are directories of objects that git also reads in the
// copy.
func NewCopy(f Files, dest string, alternates []string) (*Copy, error) {
	c := &Copy{&Repo{Dir: dest, Common: dest}, make(map[string][sha256.Size]byte)}

	if err := makeRepo(dest, map[string]string{alternatesFile: alternatesText(alternates)}); err != nil {
		return nil, err
	}

	if err := c.copyFiles(f); err != nil {
		return nil, err
	}

	return c, copyObjects(f, filepath.Join(dest, "objects"), "")
}

// copyFiles copies the files of a git directory, except objects.
func (c *Copy) copyFiles(f Files) error {
	names, err := f.List(".")
	for _, n := range names {
		if err == nil && (!notCopied(n.Name) || n.Name == "info") {
			err = eachFile(f, n.Name, 0, func(name string) error { return c.copyFile(f, name) })
		}
	}
	return err
}

func (c *Copy) copyFile(f Files, name string) error {
	if notCopied(name) {
		return nil
	}
	b, err := f.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a link, or an empty directory
	}
	if err != nil {
		return err
	}
	if name == "config" {
		b = []byte(configOfCopy(string(b)))
	}

	at := filepath.Join(c.Repo.Dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(at, b, 0o600); err != nil {
		return err
	}
	c.copiedHashes[name] = sha256.Sum256(b)

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
	seen := make(map[string]bool)
	err = filepath.WalkDir(c.Repo.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(c.Repo.Dir, p)
		if err != nil {
			return err
		}
		if seen[name] = true; name == "config" || strings.HasSuffix(name, ".lock") || name == alternatesFile || path.Base(name) == "commit-graph" {
			return nil
		}

		if below(name, "objects") {
			names, err := original.List(path.Dir(name))
			if err == nil && !slices.ContainsFunc(names, func(n DirEntry) bool { return n.Name == path.Base(name) }) {
				changed = append(changed, name)
			}

			return err
		}

		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if oldHash, ok := c.copiedHashes[name]; !ok || oldHash != sha256.Sum256(b) {
			changed = append(changed, name)
		}

		return nil
	})

	for name := range c.copiedHashes {
		if !seen[name] {
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
	dirs, err := f.List("objects")
	if err != nil {
		return err
	}

	total := int64(0)

	for _, dir := range dirs {
		if !dir.IsDir || dir.Name != "pack" && len(dir.Name) != 2 {
			continue
		}
		names, err := f.List("objects/" + dir.Name)
		if err != nil {
			return err
		}

		for _, n := range names {
			if n.IsDir || !isObject(dir.Name, n.Name) {
				continue
			}
			rel := dir.Name + "/" + n.Name
			if existingDir != "" {
				if _, err := os.Lstat(filepath.Join(existingDir, rel)); err == nil {
					continue
				}
			}

			if _, err := os.Lstat(filepath.Join(dest, rel)); err == nil {
				continue
			}

			w := &limitedWriter{limitBytes: maxObjectBytes - total}
			if err := saveTo(f, "objects/"+rel, filepath.Join(dest, rel), w); err != nil {
				return err
			}

			total += w.writtenBytes
		}
	}

	return nil
}

// isObject reports whether a file below objects is an object, or a pack with its index.
func isObject(dir, name string) bool {
	if dir != "pack" {
		return len(name) > 36 && strings.Trim(name, "0123456789abcdef") == ""
	}
	ext := path.Ext(name)
	return !strings.HasPrefix(name, ".") && (ext == ".pack" || ext == ".idx" || ext == ".promisor")
}

// A limitedWriter writes at most limitBytes to a file. Then it fails with errTooManyObjects.
type limitedWriter struct {
	file                     *os.File
	limitBytes, writtenBytes int64
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if l.writtenBytes += int64(len(b)); l.writtenBytes > l.limitBytes {
		return 0, errTooManyObjects
	}
	return l.file.Write(b)
}

// saveTo copies a file of a git directory to the new file dest. w limits the size of the file.
func saveTo(f Files, name, dest string, w *limitedWriter) error {
	if err := os.MkdirAll(filepath.Dir(dest), 0o700); err != nil {
		return err
	}

	out, err := os.OpenFile(dest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	w.file = out
	return errors.Join(f.Save(name, w), out.Close())
}
