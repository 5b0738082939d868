package fulldisk_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestOthersFillTheDisk has others take the disk of a small store to the last block,
// while it is mounted or not: it mounts, removes snapshots and gives their space back
// with what its reserve holds.
func TestOthersFillTheDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	for _, files := range []int{10, harness.Count(t, "FILES", 2000, 20_000)} {
		for _, when := range []string{"mounted", "killed", "unmounted"} {
			t.Run(fmt.Sprintf("%d files, %s", files, when), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "disk")
				must.OK(t, os.Mkdir(dir, 0o755))
				ext4(t, dir, 256<<20)
				othersFill(t, harness.NewUnmounted(t, filepath.Join(dir, "store")), dir, files, when)
			})
		}
	}
}

func othersFill(t *testing.T, m *harness.Mount, dir string, files int, when string) {
	m.Start()
	content := func(i int) []byte { return noise(int64(i), 200+i*37%800) }
	name := func(i int) string { return m.Path(fmt.Sprintf("d%d/f%d", i/1000, i)) }
	for i := range files {
		if i%1000 == 0 {
			must.OK(t, os.Mkdir(m.Path(fmt.Sprint("d", i/1000)), 0o755))
		}
		must.OK(t, os.WriteFile(name(i), content(i), 0o644))
	}
	must.OK(t, os.WriteFile(m.Path("large"), noise(-1, 3<<20), 0o644))
	must.OK(t, unix.Mkdir(m.Path(".snapshots/all"), 0o755))
	must.OK(t, os.Remove(m.Path("large")))
	for i := range files / 2 {
		must.OK(t, os.Remove(name(i)))
	}
	must.OK(t, unix.Mkdir(m.Path(".snapshots/half"), 0o755))
	m.Stop() // everything is sealed
	if when != "unmounted" {
		m.Start()
	}
	if when == "killed" {
		must.OK(t, os.WriteFile(m.Path("later"), content(-2), 0o644))
	}
	takeAll(t, filepath.Join(dir, "others"))
	switch when {
	case "killed":
		m.Kill()
		m.Start()
	case "unmounted":
		m.Start()
	}
	check := func() {
		t.Helper()
		for i := files / 2; i < files; i += 37 {
			if got, err := os.ReadFile(name(i)); err != nil || string(got) != string(content(i)) {
				t.Fatalf("file %d: %d bytes, %v", i, len(got), err)
			}
		}
	}
	check()
	must.OK(t, unix.Rmdir(m.Path(".snapshots/all")))
	m.Amberfs("gc")
	if free := freeOn(t, dir); free < 2<<20 {
		t.Errorf("%d bytes free after a gc", free)
	}
	check()
	m.Stop()
	m.Start()
	check()
	m.Stop()
	if out, err := harness.RunAmberfs("verify", m.Store); err != nil {
		t.Errorf("amberfs verify: %v\n%s", err, out)
	}
}

func freeOn(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	must.OK(t, unix.Statfs(dir, &st))
	return int64(st.Bavail) * st.Bsize
}

// takeAll writes a file until not a block is left on its disk.
func takeAll(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must.OK(t, err)
	defer f.Close()
	off := int64(0)
	for _, n := range []int64{1 << 20, 64 << 10, 4 << 10} {
		for {
			err := unix.Fallocate(int(f.Fd()), 0, off, n)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if errors.Is(err, unix.ENOSPC) {
				break
			}
			must.OK(t, err)
			off += n
		}
	}
}
