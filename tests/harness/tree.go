package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A Tree describes a directory tree as programs see it. It has a line of text for each path, relative to the root ("."
// is the root itself).
type Tree map[string]string

// ReadTree reads the tree at dir: the type, mode, owner, size, holes, contents, link target, mtime in nanoseconds,
// extended attributes and device number of each file, and which names are hard links of one file.
func ReadTree(t testing.TB, dir string) Tree {
	t.Helper()
	tree, err := WalkTree(dir)
	if err != nil {
		t.Fatalf("walking %s: %v", dir, err)
	}
	return tree
}

// WalkTree is ReadTree, but returns an error instead of failing a test.
func WalkTree(dir string) (Tree, error) {
	tree := Tree{}
	first := map[uint64]string{} // inode number to the first of its names
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		line, st, err := describeFile(path)
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
			if same, ok := first[st.Ino]; ok {
				line += " same=" + same
			} else {
				first[st.Ino] = rel
			}
		}
		if rel == "." {
			// The root of a snapshot shows the time of the snapshot.
			line, _, _ = strings.Cut(line, " mtime=")
		}
		tree[rel] = line
		return nil
	})
	return tree, err
}

// describeFile returns the line of a Tree for a file, and the file's attributes.
func describeFile(path string) (string, *unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", nil, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mode=%o owner=%d:%d", st.Mode, st.Uid, st.Gid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		sum, err := hashContents(path)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&b, " nlink=%d size=%d sha256=%s", st.Nlink, st.Size, sum)
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(&b, " -> %q", target)
	case unix.S_IFBLK, unix.S_IFCHR:
		fmt.Fprintf(&b, " rdev=%d", st.Rdev)
	}
	if err := writeXattrs(&b, path); err != nil {
		return "", nil, err
	}
	fmt.Fprintf(&b, " mtime=%d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
	return b.String(), &st, nil
}

// hashContents returns a hash of the data of a file and of the offsets of its holes.
func hashContents(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 256<<10)
	var off int64
	for {
		start, err := f.Seek(off, unix.SEEK_DATA)
		if errors.Is(err, syscall.ENXIO) {
			break
		}
		if err != nil {
			return "", err
		}
		end, err := f.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "data %d\n", start)
		for off = start; off < end; {
			n, err := f.ReadAt(buf[:min(int64(len(buf)), end-off)], off)
			if err != nil && n == 0 {
				return "", err
			}
			h.Write(buf[:n])
			off += int64(n)
		}
		fmt.Fprintf(h, "hole %d\n", end)
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

func writeXattrs(b *strings.Builder, path string) error {
	names := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "llistxattr", Path: path, Err: err}
	}
	list := strings.Split(strings.Trim(string(names[:n]), "\x00"), "\x00")
	slices.Sort(list)
	for _, name := range list {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return &fs.PathError{Op: "lgetxattr " + name, Path: path, Err: err}
		}
		fmt.Fprintf(b, " %s=%q", name, value[:n])
	}
	return nil
}

// CheckSameTree fails the test if two trees differ, and lists the differences.
func CheckSameTree(t testing.TB, what string, want, got Tree) {
	t.Helper()
	if d := Compare(want, got); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}

// Compare returns a text with the differences between two trees, at most twenty; "" if they are equal.
func Compare(want, got Tree) string {
	var out []string
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		w, inWant := want[path]
		g, inGot := got[path]
		switch {
		case !inGot:
			out = append(out, fmt.Sprintf("  missing  %q: %s", path, w))
		case !inWant:
			out = append(out, fmt.Sprintf("  too much %q: %s", path, g))
		case w != g:
			out = append(out, fmt.Sprintf("  %q\n    want %s\n    got  %s", path, w, g))
		}
	}
	if n := len(out); n > 20 {
		out = append(out[:20], fmt.Sprintf("  … and %d more", n-20))
	}
	return strings.Join(out, "\n")
}
