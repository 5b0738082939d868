// Package history_test checks what a snapshot and a restore promise: a point
// in time with writers running, a perfect copy, and exactly that tree again,
// with open files, mappings and working directories inside it.
package history_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) {
	unix.Umask(0o022)
	os.Exit(harness.Run(m))
}

func write(t testing.TB, path, data string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(data), 0o644))
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must.OK(t, err)
	return string(data)
}

func capture(t testing.TB, m *harness.Mount, name string) {
	t.Helper()
	must.OK(t, os.Mkdir(m.Path(".snapshots", name), 0o755))
}

func restore(t testing.TB, m *harness.Mount, name string) {
	t.Helper()
	must.OK(t, os.Rename(m.Path(".snapshots", "restore"), m.Path(".snapshots", "restore@"+name)))
}

var sealedJSON = regexp.MustCompile(`"id": ?"[0-9a-f]{64}"`)

// sealed waits until a snapshot has its id.
func sealed(t testing.TB, m *harness.Mount, name string) {
	t.Helper()
	harness.Eventually(t, name+" is sealed", func() bool {
		line, err := m.TryAmberfs("show", name, "--json")
		return err == nil && sealedJSON.MatchString(line)
	})
}

// everything makes a tree with one of each thing that a filesystem can hold.
func everything(t testing.TB, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "file"), "contents\n")
	write(t, filepath.Join(dir, "empty"), "")
	write(t, filepath.Join(dir, "name with\nnewline \xff"), "odd")
	must.OK(t, os.Chmod(filepath.Join(dir, "file"), 0o640))
	must.OK(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
	must.OK(t, os.Mkdir(filepath.Join(dir, "empty-dir"), 0o700))
	must.OK(t, os.Symlink("../nowhere", filepath.Join(dir, "a/dangling")))
	must.OK(t, os.Symlink("file", filepath.Join(dir, "link")))
	must.OK(t, os.Link(filepath.Join(dir, "file"), filepath.Join(dir, "a/b/hard")))
	must.OK(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must.OK(t, unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0))
	if os.Getuid() == 0 {
		must.OK(t, unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		must.OK(t, os.Lchown(filepath.Join(dir, "a"), 4242, 4343))
		must.OK(t, unix.Chmod(filepath.Join(dir, "a"), 0o2775))
	}
	must.OK(t, unix.Setxattr(filepath.Join(dir, "file"), "user.note", []byte("\x00binary\xff"), 0))
	must.OK(t, unix.Setxattr(filepath.Join(dir, "a"), "user.dir", []byte("on a directory"), 0))

	// Sparse: data, a hole, data, a hole at the end.
	f, err := os.Create(filepath.Join(dir, "sparse"))
	must.OK(t, err)
	defer f.Close()
	for _, off := range []int64{0, 4 << 20, 9 << 20} {
		_, err = f.WriteAt(make128k(byte(off>>20)), off)
		must.OK(t, err)
	}
	must.OK(t, f.Truncate(16<<20))

	// Large enough for several chunks, and two files with the same contents.
	for _, name := range []string{"large", "a/large-too"} {
		g, err := os.Create(filepath.Join(dir, name))
		must.OK(t, err)
		for i := range 40 {
			_, err = g.Write(make128k(byte(i)))
			must.OK(t, err)
		}
		must.OK(t, g.Close())
	}
	for i := range 300 {
		write(t, filepath.Join(dir, fmt.Sprintf("a/b/c/file-%03d", i)), fmt.Sprint(i))
	}
	old := unix.Timespec{Sec: 981173106, Nsec: 123456789}
	for _, path := range []string{"file", "link", "pipe", "a/b/c"} {
		must.OK(t, unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(dir, path), []unix.Timespec{old, old}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

func make128k(seed byte) []byte {
	p := make([]byte, 128<<10)
	x := uint32(seed) + 1
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}
