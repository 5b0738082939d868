// Package fulldisk_test fills the disk that a store is on: an error for who
// writes, nothing lost, reading goes on, and a way out without another disk.
// It mounts small tmpfs and loop filesystems, so it needs root.
package fulldisk_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// tmpfs is a small disk in memory.
func tmpfs(t *testing.T, dir string, size int64) {
	t.Helper()
	if err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
}

// unmount waits for those that have the disk open for a moment: a daemon that is just being
// started has all that this process has.
func unmount(t *testing.T, dir string) {
	t.Helper()
	harness.Eventually(t, "the disk is unmounted", func() bool {
		err := unix.Unmount(dir, 0)
		if err != nil && !errors.Is(err, unix.EBUSY) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// ext4 is a small disk in a file.
func ext4(t *testing.T, dir string, size int64) {
	t.Helper()
	image := dir + ".img"
	f, err := os.Create(image)
	must.OK(t, err)
	must.OK(t, f.Truncate(size))
	must.OK(t, f.Close())
	t.Cleanup(func() { os.Remove(image) })
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("no loop device can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { unmount(t, dir) })
}

func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	sizes := []int64{64 << 20}
	if harness.LongTests() {
		sizes = append(sizes, 320<<20)
	}
	for _, size := range sizes {
		for name, disk := range map[string]func(*testing.T, string, int64){"tmpfs": tmpfs, "ext4": ext4} {
			t.Run(fmt.Sprintf("%s of %d MiB", name, size>>20), func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "disk")
				must.OK(t, os.Mkdir(dir, 0o755))
				disk(t, dir, size)
				fill(t, harness.NewUnmounted(t, filepath.Join(dir, "store")), size)
			})
		}
	}
}

// TestManySmallFiles fills a disk with what makes the index grow most, with
// snapshots on the way: what was acknowledged stays, the daemon lives, and the
// space comes back.
func TestManySmallFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small disk")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	must.OK(t, os.Mkdir(dir, 0o755))
	ext4(t, dir, 48<<20)
	m := harness.NewUnmounted(t, filepath.Join(dir, "store"))
	m.Start()
	name := func(i int) string { return fmt.Sprintf("d%d/f%d", i/1000, i) }
	// No two have the same content, nor any page of it.
	content := func(i int) []byte { return noise(int64(i), 200+i*37%800) }
	n, snaps := 0, 0
	for full := false; !full; {
		if n%1000 == 0 {
			if err := os.Mkdir(m.Path(fmt.Sprint("d", n/1000)), 0o755); err != nil {
				break
			}
			must.OK(t, os.Mkdir(m.Path(".snapshots", fmt.Sprint("s", snaps)), 0o755))
			snaps++
		}
		err := os.WriteFile(m.Path(name(n)), content(n), 0o644)
		switch {
		case errors.Is(err, unix.ENOSPC):
			full = true
		case err != nil:
			t.Fatalf("file %d: %v", n, err)
		default:
			n++
		}
		if n > 200_000 {
			t.Fatal("the disk does not get full")
		}
	}
	t.Logf("%d files, %d snapshots", n, snaps)
	if n < 8000 {
		t.Errorf("full after %d files", n)
	}
	check := func(at string, upto int) {
		t.Helper()
		for i := 0; i < upto; i += 37 {
			if got, err := os.ReadFile(m.Path(at, name(i))); err != nil || string(got) != string(content(i)) {
				t.Fatalf("%s: file %d: %d bytes, %v", at, i, len(got), err)
			}
		}
	}
	check("", n)
	check(fmt.Sprintf(".snapshots/s%d", snaps-1), (snaps-1)*1000)
	m.Kill()
	m.Start()
	check("", n)
	for i := range snaps {
		must.OK(t, unix.Rmdir(m.Path(".snapshots", fmt.Sprint("s", i))))
	}
	for i := n / 2000; i*1000 < n; i++ {
		must.OK(t, os.RemoveAll(m.Path(fmt.Sprint("d", i))))
	}
	m.Amberfs("gc")
	must.OK(t, os.WriteFile(m.Path("probe"), make([]byte, 8<<20), 0o644))
	must.OK(t, os.Remove(m.Path("probe")))
	for i := range 4000 {
		must.OK(t, os.WriteFile(m.Path(fmt.Sprint("after", i)), content(n+i), 0o644))
	}
	check("", n/2000*1000)
	m.Stop()
	if out, err := harness.RunAmberfs("verify", m.Store); err != nil {
		t.Errorf("amberfs verify: %v\n%s", err, out)
	}
}

func fill(t *testing.T, m *harness.Mount, size int64) {
	m.Start()
	must.OK(t, os.Mkdir(m.Path("d"), 0o755))
	must.OK(t, os.WriteFile(m.Path("d/before"), []byte("written before"), 0o644))
	written := write(t, m, "big", size)
	if written < size*2/5 {
		t.Errorf("a disk of %d MiB was full after %d MiB", size>>20, written>>20)
	}
	must.OK(t, os.Mkdir(m.Path(".snapshots", "v1"), 0o755))
	more := write(t, m, "more", size)
	t.Logf("%d MiB fitted, and after a snapshot %d MiB", written>>20, more>>20)

	// The daemon lives, all that was acknowledged is there, reading goes on.
	check := func(when string) {
		t.Helper()
		if got, err := os.ReadFile(m.Path("d/before")); err != nil || string(got) != "written before" {
			t.Errorf("%s: %q, %v", when, got, err)
		}
		verify(t, m.Path("big"), written)
		verify(t, m.Path(".snapshots/v1/big"), written)
	}
	check("full")

	// Mounting while full works, in the ordinary way and after a kill.
	m.Stop()
	m.Start()
	check("mounted while full")
	m.Kill()
	m.Start()
	check("mounted while full after a kill")

	// Removing files and snapshots frees space, though the disk is full.
	must.OK(t, os.Remove(m.Path("big")))
	must.OK(t, os.Remove(m.Path("more")))
	must.OK(t, unix.Rmdir(m.Path(".snapshots", "v1")))
	m.Amberfs("gc")
	must.OK(t, os.WriteFile(m.Path("after"), make([]byte, 4<<20), 0o644))
	if got, err := os.ReadFile(m.Path("d/before")); err != nil || string(got) != "written before" {
		t.Errorf("at the end: %q, %v", got, err)
	}
	m.Stop()
	if out, err := harness.RunAmberfs("verify", m.Store); err != nil {
		t.Errorf("amberfs verify: %v\n%s", err, out)
	}
}

// write fills a file until there is no space, and returns how much was
// acknowledged.
func write(t *testing.T, m *harness.Mount, name string, size int64) int64 {
	t.Helper()
	f, err := os.Create(m.Path(name))
	if errors.Is(err, unix.ENOSPC) {
		return 0
	}
	must.OK(t, err)
	defer f.Close()
	var n int64
	for {
		k, err := f.WriteAt(block(n), n)
		n += int64(k)
		if err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("after %d bytes: %v, want ENOSPC", n, err)
			}
			return n
		}
		if n > 2*size {
			t.Fatalf("%d bytes fit on a disk of %d", n, size)
		}
	}
}

const step = 128 << 10

// block is what is written at an offset.
func block(off int64) []byte { return noise(off, step) }

// noise is n bytes that do not compress, others for each seed.
func noise(seed int64, n int) []byte {
	p := make([]byte, n+8)
	x := uint64(seed)*2862933555777941757 + 3037000493
	for i := 0; i < n; i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(p[i:], x)
	}
	return p[:n]
}

func verify(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	buf := make([]byte, step)
	for off := int64(0); off < size; off += step {
		want := block(off)[:min(step, size-off)]
		got := buf[:len(want)]
		if _, err := f.ReadAt(got, off); err != nil {
			t.Fatalf("%s at %d: %v", path, off, err)
		}
		if string(got) != string(want) {
			t.Fatalf("%s at %d: other bytes than were written", path, off)
		}
	}
}
