// Package powercut_test pulls the plug of the disk that a store is on: an ext4
// on a loop device, shut down without writing its log. What was synced must be
// there afterwards, and of the rest a beginning, whole and in order. It needs
// root.
package powercut_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// A disk is an ext4 in a file.
type disk struct {
	t          *testing.T
	image, dir string
	options    string
	mounted    bool
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a disk")
	}
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "disk")}
	must.OK(t, os.Mkdir(d.dir, 0o755))
	must.OK(t, os.WriteFile(d.image, nil, 0o600))
	must.OK(t, os.Truncate(d.image, 1<<30))
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", d.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if err := d.mount(); err != nil {
		t.Skipf("no loop device can be mounted here: %v", err)
	}
	t.Cleanup(d.unmount)
	return d
}

func (d *disk) mount() (err error) {
	// A mount namespace that another test made meanwhile can keep the filesystem that
	// was cut: then the same one is mounted again.
	harness.Poll(func() bool {
		d.unmount()
		var out []byte
		if out, err = exec.Command("mount", "-o", "loop"+d.options, d.image, d.dir).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
			return true
		}
		d.mounted = true
		probe := filepath.Join(d.dir, "probe") // directories can still be read after a cut
		if err = os.WriteFile(probe, nil, 0o600); err == nil {
			err = os.Remove(probe)
		}
		return !errors.Is(err, unix.EIO)
	})
	return err
}

func (d *disk) unmount() {
	if !d.mounted {
		return
	}
	d.mounted = false
	// A copy of the mount in a namespace of another test's keeps umount(2) from writing.
	if f, err := os.Open(d.dir); err == nil {
		_ = unix.Syncfs(int(f.Fd())) // it fails after a cut
		f.Close()
	}
	harness.Eventually(d.t, "the disk is unmounted", func() bool {
		err := unix.Unmount(d.dir, 0)
		if err != nil && !errors.Is(err, unix.EBUSY) {
			d.t.Fatal(err)
		}
		return err == nil
	})
}

// cut is what a power cut is to the disk: nothing is written any more, not
// even what the filesystem has in its log in memory (ioctl(2) EXT4_IOC_SHUTDOWN
// with EXT4_GOING_FLAGS_NOLOGFLUSH, fs/ext4/ioctl.c).
func (d *disk) cut() {
	const shutdown, noLogFlush = 0x8004587d, uint32(2)
	f, err := os.Open(d.dir)
	must.OK(d.t, err)
	defer f.Close()
	flags := noLogFlush
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		d.t.Skipf("this kernel cannot shut an ext4 down: %v", errno)
	}
}

const writers = 3

// A writer makes numbered files, and syncs now and then.
type writer struct {
	dir    string
	made   int          // files whose write returned
	synced atomic.Int64 // of them, those that an fsync covers
	sure   int          // synced before the cut
}

func content(n int) []byte { return []byte(fmt.Sprintf("%0*d\n", 100+n%5000, n)) }

// run writes until the disk is gone.
func (w *writer) run() {
	for n := w.made; ; n++ {
		f, err := os.OpenFile(filepath.Join(w.dir, strconv.Itoa(n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return
		}
		_, err = f.Write(content(n))
		if err == nil {
			w.made = n + 1
			if n%4 == 3 {
				// The journal is one sequence: this covers the files before too.
				if err = f.Sync(); err == nil {
					w.synced.Store(int64(n + 1))
				}
			}
		}
		f.Close()
		if err != nil {
			return
		}
	}
}

// check looks at what is left, and goes on from there.
func (w *writer) check(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(w.dir)
	must.OK(t, err)
	if len(entries) < w.sure {
		t.Fatalf("%s: %d files are left, %d were synced", w.dir, len(entries), w.sure)
	}
	if len(entries) > w.made+1 {
		t.Fatalf("%s: %d files, %d were made", w.dir, len(entries), w.made)
	}
	for n := range entries {
		got, err := os.ReadFile(filepath.Join(w.dir, strconv.Itoa(n)))
		if err != nil {
			t.Fatalf("%s: of %d files one before the last is missing: %v", w.dir, len(entries), err)
		}
		if string(got) == string(content(n)) {
			continue
		}
		if n+1 < len(entries) || n < w.sure || len(got) != 0 {
			t.Fatalf("%s/%d has %d bytes of %d", w.dir, n, len(got), len(content(n)))
		}
	}
	if n := len(entries); n > 0 {
		// The last one may be there without its bytes.
		must.OK(t, os.WriteFile(filepath.Join(w.dir, strconv.Itoa(n-1)), content(n-1), 0o644))
	}
	w.made = len(entries)
	w.synced.Store(0)
}

func TestPowerCut(t *testing.T) {
	cuts := harness.Count(t, "ROUNDS", 4, 100)
	d := newDisk(t)
	m := harness.NewUnmounted(t, filepath.Join(d.dir, "store"))
	m.Start()
	var ws []*writer
	for i := range writers {
		w := &writer{dir: m.Path(fmt.Sprintf("w%d", i))}
		must.OK(t, os.Mkdir(w.dir, 0o755))
		ws = append(ws, w)
	}
	m.Amberfs("-C", m.Dir, "snapshot", "begin")
	kept := 1
	for cut := range cuts {
		var wg sync.WaitGroup
		for _, w := range ws {
			wg.Go(w.run)
		}
		time.Sleep(time.Duration(100+cut*130%700) * time.Millisecond)
		m.Amberfs("-C", m.Dir, "snapshot", fmt.Sprintf("s%d", cut))
		kept++
		time.Sleep(time.Duration(50+cut*70%300) * time.Millisecond)
		// An fsync that is under way while ext4 shuts down may be answered as if
		// it had been done, which a machine without power does not do.
		for _, w := range ws {
			w.sure = int(w.synced.Load())
		}
		d.cut()
		wg.Wait()
		m.Kill()
		d.unmount()
		must.OK(t, d.mount())
		m.Start()
		for _, w := range ws {
			w.check(t)
		}
		for i := range kept - 1 {
			if _, err := os.Stat(m.Path(".snapshots", fmt.Sprintf("s%d", i), "w0")); err != nil {
				t.Fatalf("cut %d: a snapshot that was acknowledged as durable: %v", cut, err)
			}
		}
	}
	m.Stop()
	if out, err := harness.RunAmberfs("verify", m.Store); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
}

// A run's copy of a directory is not on disk yet when the program starts. After a power cut it is made again.
// Once a program has synced a file, the run has everything.
func TestPowerCutOfACopy(t *testing.T) {
	for _, synced := range []bool{false, true} {
		d := newDisk(t)
		dir, store := filepath.Join(t.TempDir(), "dir"), filepath.Join(d.dir, "store")
		must.OK(t, os.Mkdir(dir, 0o755))
		for n := range 300 {
			must.OK(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), content(n), 0o644))
		}

		ready := filepath.Join(t.TempDir(), "ready")
		script := "echo new > made; "
		if synced {
			script += "sync made; "
		}
		run := exec.Command(harness.Binary(t), "run", "--from", dir, store, "--", "sh", "-c", script+"touch "+ready+"; sleep 1000")
		must.OK(t, run.Start())
		harness.Eventually(t, "the program runs", func() bool { _, err := os.Stat(ready); return err == nil })
		d.cut()
		if !harness.KillAll(store) {
			t.Fatal("processes of the run do not end")
		}
		_ = run.Wait()
		d.unmount()
		must.OK(t, d.mount())
		for _, name := range []string{"filling", "filled"} { // the machine did not start again
			mark := filepath.Join(store, name)
			if b, err := os.ReadFile(mark); err == nil {
				must.OK(t, os.WriteFile(mark, bytes.Replace(b, []byte(process.BootID()), []byte("before"), 1), 0o600))
			}
		}

		m := harness.NewUnmounted(t, store)
		m.Start()
		for n := range 300 {
			if got, err := os.ReadFile(m.Path(strconv.Itoa(n))); string(got) != string(content(n)) {
				t.Fatalf("synced %v: file %d has %d bytes, %v", synced, n, len(got), err)
			}
		}
		if got, err := os.ReadFile(m.Path("made")); synced && string(got) != "new\n" {
			t.Errorf("the file that the program synced has %q, %v", got, err)
		}
		m.Stop()
		if out, err := harness.RunAmberfs("verify", store); err != nil {
			t.Errorf("verify: %v\n%s", err, out)
		}
	}
}
