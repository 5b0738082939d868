package fsmodel

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Observe describes a directory in the words of [FS.List].
func Observe(dir string) (map[string]string, error) {
	list, first := map[string]string{}, map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: path, Err: err}
		}
		rel := path[len(dir)+1:]
		d := Entry{Mode: st.Mode}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			d.Data, err = os.ReadFile(path)
		case unix.S_IFLNK:
			d.Target, err = os.Readlink(path)
		}
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			d.Nlink = int(st.Nlink)
			if d.Nlink > 1 {
				d.Same = rel
				if same, ok := first[st.Ino]; ok {
					d.Same = same
				}
				first[st.Ino] = d.Same
			}
		}
		if d.Xattrs, err = userXattrs(path); err != nil {
			return err
		}
		list[rel] = d.String()
		return nil
	})
	return list, err
}

func userXattrs(path string) (map[string]string, error) {
	names := make([]byte, 4096)
	n, err := unix.Llistxattr(path, names)
	if err != nil {
		return nil, &fs.PathError{Op: "llistxattr", Path: path, Err: err}
	}
	found := map[string]string{}
	value := make([]byte, 4096)
	for _, name := range strings.Split(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return nil, &fs.PathError{Op: "lgetxattr", Path: path, Err: err}
		}
		found[name] = string(value[:n])
	}
	return found, nil
}
