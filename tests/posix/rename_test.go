package posix_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

func rename2(from, to string, flags uint) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
}

func renameNoReplace(t *testing.T, dir string) {
	a, b := write(t, dir+"/a", "a"), write(t, dir+"/b", "b")
	wantErr(t, rename2(a, b, unix.RENAME_NOREPLACE), unix.EEXIST)
	wantData(t, a, "a")
	wantData(t, b, "b")
	must.OK(t, rename2(a, dir+"/c", unix.RENAME_NOREPLACE))
	wantData(t, dir+"/c", "a")
}

func renameExchange(t *testing.T, dir string) {
	file := write(t, dir+"/file", "file")
	sub := dir + "/sub"
	must.OK(t, os.Mkdir(sub, 0o755))
	write(t, sub+"/inside", "inside")
	must.OK(t, rename2(file, sub, unix.RENAME_EXCHANGE))
	wantData(t, sub, "file")
	wantData(t, file+"/inside", "inside")
	wantErr(t, rename2(file, dir+"/missing", unix.RENAME_EXCHANGE), unix.ENOENT)
	wantErr(t, rename2(file, sub, unix.RENAME_EXCHANGE|unix.RENAME_NOREPLACE), unix.EINVAL)
	// Across directories: the counts of subdirectories follow.
	other := dir + "/other"
	must.OK(t, os.Mkdir(other, 0o755))
	write(t, other+"/f", "f")
	must.OK(t, rename2(file, other+"/f", unix.RENAME_EXCHANGE))
	wantData(t, file, "f")
	if n := stat(t, other).Nlink; n != 3 {
		t.Errorf("nlink %d after a directory came in", n)
	}
}

// renameWhiteout: a character device 0:0 takes the place of what is moved away.
func renameWhiteout(t *testing.T, dir string) {
	whiteout := func(path string) {
		t.Helper()
		st := stat(t, path)
		if st.Mode != unix.S_IFCHR || st.Rdev != 0 || st.Nlink != 1 || int(st.Uid) != os.Getuid() {
			t.Errorf("%s has mode %o, device %x, %d links, owner %d", path, st.Mode, st.Rdev, st.Nlink, st.Uid)
		}
	}
	a, b, sub := write(t, dir+"/a", "a"), write(t, dir+"/b", "b"), dir+"/sub"
	must.OK(t, os.MkdirAll(sub+"/in", 0o755))
	ino := stat(t, a).Ino
	must.OK(t, rename2(a, sub+"/a", unix.RENAME_WHITEOUT))
	whiteout(a)
	if wantData(t, sub+"/a", "a"); stat(t, sub+"/a").Ino != ino || stat(t, a).Ino == ino {
		t.Error("the whiteout, not the file, has the inode")
	}
	must.OK(t, rename2(sub+"/a", b, unix.RENAME_WHITEOUT)) // onto a file
	whiteout(sub + "/a")
	wantData(t, b, "a")
	must.OK(t, rename2(sub+"/in", dir+"/in", unix.RENAME_WHITEOUT|unix.RENAME_NOREPLACE))
	whiteout(sub + "/in")
	if n := stat(t, sub).Nlink; n != 2 {
		t.Errorf("nlink %d after a directory went", n)
	}
	wantErr(t, rename2(b, a, unix.RENAME_WHITEOUT|unix.RENAME_NOREPLACE), unix.EEXIST)
	wantErr(t, rename2(b, a, unix.RENAME_WHITEOUT|unix.RENAME_EXCHANGE), unix.EINVAL)
	must.OK(t, os.Link(b, dir+"/same")) // of two names of a file rename(2) does nothing
	must.OK(t, rename2(b, dir+"/same", unix.RENAME_WHITEOUT))
	wantData(t, b, "a")
	must.OK(t, os.Remove(a)) // and a file can have the name again
	must.OK(t, rename2(b, a, unix.RENAME_WHITEOUT))
	wantData(t, a, "a")
	whiteout(b)
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	for _, e := range entries {
		if e.Name() == "b" && e.Type() != os.ModeDevice|os.ModeCharDevice {
			t.Errorf("the listing has b as %v", e.Type())
		}
	}
}

func renameOver(t *testing.T, dir string) {
	a, b := write(t, dir+"/a", "a"), write(t, dir+"/b", "b")
	held := open(t, b, os.O_RDONLY)
	must.OK(t, os.Rename(a, b))
	wantData(t, b, "a")
	buf := make([]byte, 8)
	if n, _ := held.ReadAt(buf, 0); string(buf[:n]) != "b" {
		t.Errorf("the replaced file reads %q", buf[:n])
	}
	full, empty := dir+"/full", dir+"/empty"
	must.OK(t, os.MkdirAll(full+"/x", 0o755))
	must.OK(t, os.Mkdir(empty, 0o755))
	wantErr(t, unix.Rename(empty, full), unix.ENOTEMPTY)
	wantErr(t, unix.Rename(b, empty), unix.EISDIR)
	wantErr(t, unix.Rename(empty, b), unix.ENOTDIR)
	must.OK(t, unix.Rename(full, empty))
	if _, err := os.Lstat(empty + "/x"); err != nil {
		t.Error(err)
	}
	// Two names of one file: rename(2) does nothing.
	must.OK(t, os.Link(b, dir+"/c"))
	must.OK(t, os.Rename(b, dir+"/c"))
	wantData(t, b, "a")
	wantData(t, dir+"/c", "a")
}

func renameIntoItself(t *testing.T, dir string) {
	must.OK(t, os.MkdirAll(dir+"/a/b/c", 0o755))
	wantErr(t, unix.Rename(dir+"/a", dir+"/a/b/c/d"), unix.EINVAL)
	wantErr(t, unix.Rename(dir+"/a", dir+"/a/b"), unix.EINVAL)
	wantErr(t, unix.Rename(dir+"/a/b/c", dir+"/a"), unix.ENOTEMPTY)
	wantErr(t, rename2(dir+"/a", dir+"/a/b", unix.RENAME_EXCHANGE), unix.EINVAL)
	must.OK(t, unix.Rename(dir+"/a", dir+"/a"))
}

func hardLinks(t *testing.T, dir string) {
	a := write(t, dir+"/a", "one")
	must.OK(t, os.Link(a, dir+"/b"))
	must.OK(t, os.Mkdir(dir+"/d", 0o755))
	must.OK(t, os.Link(a, dir+"/d/c"))
	write(t, dir+"/b", "two")
	wantData(t, dir+"/d/c", "two")
	sa, sb := stat(t, a), stat(t, dir+"/d/c")
	if sa.Ino != sb.Ino || sa.Nlink != 3 {
		t.Errorf("inodes %d and %d, nlink %d", sa.Ino, sb.Ino, sa.Nlink)
	}
	must.OK(t, os.Remove(a))
	if st := stat(t, dir+"/b"); st.Nlink != 2 {
		t.Errorf("nlink %d", st.Nlink)
	}
	wantErr(t, unix.Link(dir+"/b", dir+"/d/c"), unix.EEXIST)
	wantErr(t, unix.Link(dir+"/d", dir+"/e"), unix.EPERM)
	must.OK(t, os.Symlink("b", dir+"/s"))
	must.OK(t, unix.Linkat(unix.AT_FDCWD, dir+"/s", unix.AT_FDCWD, dir+"/s2", 0))
	if st := stat(t, dir+"/s2"); st.Mode&unix.S_IFMT != unix.S_IFLNK || st.Nlink != 2 {
		t.Errorf("a hard link to a symlink has mode %o, nlink %d", st.Mode, st.Nlink)
	}
}

func symlinks(t *testing.T, dir string) {
	long := "/" + strings.Repeat("x", unix.PathMax-2)
	for _, target := range []string{"f", "../f", "/nowhere", "a b\n", long} {
		must.OK(t, os.Symlink(target, dir+"/l"))
		got, err := os.Readlink(dir + "/l")
		must.OK(t, err)
		if got != target {
			t.Errorf("reads %q, not %q", clip(got), clip(target))
		}
		if st := stat(t, dir+"/l"); st.Size != int64(len(target)) || st.Mode&0o7777 != 0o777 {
			t.Errorf("size %d, mode %o", st.Size, st.Mode)
		}
		must.OK(t, os.Remove(dir+"/l"))
	}
	must.OK(t, os.Symlink("loop", dir+"/loop"))
	_, err := os.Open(dir + "/loop")
	wantErr(t, err, unix.ELOOP)
	_, err = os.OpenFile(dir+"/loop", os.O_RDONLY|unix.O_NOFOLLOW, 0)
	wantErr(t, err, unix.ELOOP)
}
