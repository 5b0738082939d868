package posix_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// Names are any 255 bytes but "/" and NUL.
func names(t *testing.T, dir string) {
	var all []string
	for c := 1; c < 256; c++ {
		if c != '/' && c != '.' {
			all = append(all, string([]byte{byte(c)}))
		}
	}
	all = append(all, "...", "-rf", "a b", "a\nb", "\xff\xfe", "ü", strings.Repeat("x", 255), strings.Repeat("\xe9", 255))
	for _, name := range all {
		write(t, filepath.Join(dir, name), name)
	}
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	if len(entries) != len(all) {
		t.Errorf("%d names listed, %d made", len(entries), len(all))
	}
	for _, name := range all {
		wantData(t, dir+"/"+name, name)
	}
	_, err = os.Create(dir + "/" + strings.Repeat("x", 256))
	wantErr(t, err, unix.ENAMETOOLONG)
	_, err = os.Lstat(dir + "/" + strings.Repeat("x", 256))
	wantErr(t, err, unix.ENAMETOOLONG)
}

// Paths may be PATH_MAX long, and trees deeper than that are reached in steps.
func longPaths(t *testing.T, dir string) {
	part := strings.Repeat("d", 200)
	path := dir
	for len(path)+1+len(part) < unix.PathMax-10 {
		path += "/" + part
		must.OK(t, os.Mkdir(path, 0o755))
	}
	path += "/" + strings.Repeat("f", unix.PathMax-2-len(path))
	if len(path) != unix.PathMax-1 {
		t.Fatalf("path of %d bytes", len(path))
	}
	write(t, path, "deep")
	wantData(t, path, "deep")
	_, err := os.Lstat(path + "f")
	wantErr(t, err, unix.ENAMETOOLONG)

	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must.OK(t, err)
	for range 40 {
		err := unix.Mkdirat(fd, "s"+part, 0o755)
		must.OK(t, err)
		next, err := unix.Openat(fd, "s"+part, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must.OK(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	must.OK(t, os.RemoveAll(dir+"/s"+part))
}

func nlinkOfDirectories(t *testing.T, dir string) {
	want := func(n uint64) {
		t.Helper()
		if got := stat(t, dir).Nlink; got != n {
			t.Errorf("nlink %d, want %d", got, n)
		}
	}
	want(2)
	must.OK(t, os.Mkdir(dir+"/a", 0o755))
	must.OK(t, os.Mkdir(dir+"/b", 0o755))
	write(t, dir+"/file", "")
	want(4)
	must.OK(t, os.Mkdir(dir+"/a/c", 0o755))
	must.OK(t, unix.Rename(dir+"/a/c", dir+"/c"))
	want(5)
	must.OK(t, unix.Rename(dir+"/c", dir+"/b"))
	want(4)
	must.OK(t, os.Remove(dir+"/a"))
	must.OK(t, os.Remove(dir+"/b"))
	want(2)
}

// A directory that is removed while it is open, or a working directory, is
// empty and takes nothing new.
func unlinkedDirectory(t *testing.T, dir string) {
	sub := dir + "/sub"
	must.OK(t, os.Mkdir(sub, 0o755))
	fd, err := unix.Open(sub, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must.OK(t, err)
	defer unix.Close(fd)
	must.OK(t, os.Remove(sub))
	var st unix.Stat_t
	must.OK(t, unix.Fstat(fd, &st))
	if st.Nlink != 0 {
		t.Errorf("nlink of a removed directory is %d", st.Nlink)
	}
	_, err = unix.Openat(fd, "new", unix.O_CREAT|unix.O_WRONLY, 0o644)
	wantErr(t, err, unix.ENOENT)
	wantErr(t, unix.Mkdirat(fd, "new", 0o755), unix.ENOENT)
	must.OK(t, os.Mkdir(sub, 0o755))
	wantErr(t, unix.Unlink(sub), unix.EISDIR)
	write(t, sub+"/f", "")
	wantErr(t, unix.Rmdir(sub), unix.ENOTEMPTY)
	wantErr(t, unix.Rmdir(sub+"/f"), unix.ENOTDIR)
}

func bigDirectory(t *testing.T, dir string) {
	const n = 5000
	for i := range n {
		must.OK(t, os.Symlink("x", fmt.Sprintf("%s/entry-%05d", dir, i)))
	}
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	if len(entries) != n {
		t.Fatalf("%d entries listed, %d made", len(entries), n)
	}
	for i, e := range entries {
		if want := fmt.Sprintf("entry-%05d", i); e.Name() != want {
			t.Fatalf("entry %d is %q", i, e.Name())
		}
	}
	must.OK(t, os.RemoveAll(dir))
	must.OK(t, os.Mkdir(dir, 0o755))
}

// While a directory changes, a listing has every entry that was there all the
// time exactly once, and no entry twice.
func listWhileChanging(t *testing.T, dir string) {
	const n = 2000
	for i := range n {
		must.OK(t, os.Symlink("x", fmt.Sprintf("%s/stays-%05d", dir, i)))
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			name := fmt.Sprintf("%s/comes-%05d", dir, i%300)
			if err = os.Symlink("x", name); err == nil && i%3 != 0 {
				err = os.Rename(name, name+"-renamed")
				name += "-renamed"
			}
			if err == nil {
				err = os.Remove(name)
			}
		}
		stopped <- err
	}()
	for range 20 {
		f, err := os.Open(dir)
		must.OK(t, err)
		seen := map[string]int{}
		for {
			list, err := f.Readdirnames(100)
			for _, name := range list {
				seen[name]++
			}
			if err != nil {
				break
			}
		}
		f.Close()
		for i := range n {
			if name := fmt.Sprintf("stays-%05d", i); seen[name] != 1 {
				t.Errorf("%s listed %d times", name, seen[name])
			}
		}
		if t.Failed() {
			break
		}
	}
	close(stop)
	must.OK(t, <-stopped)
}

func setgidDirectory(t *testing.T, dir string) {
	needRoot(t)
	must.OK(t, os.Chown(dir, 0, 4242))
	must.OK(t, unix.Chmod(dir, 0o2775))
	write(t, dir+"/f", "")
	must.OK(t, os.Mkdir(dir+"/d", 0o755))
	if st := stat(t, dir+"/f"); st.Gid != 4242 {
		t.Errorf("a file in a setgid directory has group %d", st.Gid)
	}
	if st := stat(t, dir+"/d"); st.Gid != 4242 || st.Mode&unix.S_ISGID == 0 {
		t.Errorf("a directory in a setgid directory has group %d, mode %o", st.Gid, st.Mode)
	}
}
