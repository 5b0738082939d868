package posix_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// Appends of several writers do not overwrite each other, whichever
// descriptor they go through.
func appendInOrder(t *testing.T, dir string) {
	const writers, lines = 4, 100
	path := dir + "/log"
	var wg sync.WaitGroup
	for w := range writers {
		f := open(t, path, os.O_CREATE|os.O_APPEND|os.O_WRONLY)
		wg.Go(func() {
			for i := range lines {
				if _, err := fmt.Fprintf(f, "writer %d line %03d\n", w, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(path)
	must.OK(t, err)
	next := make([]int, writers)
	for line := range strings.Lines(string(data)) {
		var w, i int
		if _, err := fmt.Sscanf(line, "writer %d line %d\n", &w, &i); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if i != next[w] {
			t.Fatalf("writer %d: line %d after %d", w, i, next[w]-1)
		}
		next[w]++
	}
	for w, n := range next {
		if n != lines {
			t.Errorf("writer %d has %d lines", w, n)
		}
	}
}

// What one descriptor writes, every other reads at once.
func writesThroughFds(t *testing.T, dir string) {
	path := dir + "/f"
	a := open(t, path, os.O_CREATE|os.O_RDWR)
	b := open(t, path, os.O_RDWR)
	want := make([]byte, 300<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		off := rng.IntN(len(want) - 9000)
		p := bytes.Repeat([]byte{byte(i)}, 1+rng.IntN(9000))
		w, r := a, b
		if i%2 == 1 {
			w, r = b, a
		}
		_, err := w.WriteAt(p, int64(off))
		must.OK(t, err)
		copy(want[off:], p)
		got := make([]byte, len(p))
		_, err = r.ReadAt(got, int64(off))
		must.OK(t, err)
		if !bytes.Equal(got, p) {
			t.Fatalf("write %d at %d: other bytes are read", i, off)
		}
	}
	got, err := os.ReadFile(path)
	must.OK(t, err)
	if !bytes.Equal(got, want[:len(got)]) {
		t.Error("the file is not what was written")
	}
}

func openTruncate(t *testing.T, dir string) {
	path := write(t, dir+"/f", "a long first version")
	held := open(t, path, os.O_RDONLY)
	write(t, path, "short")
	wantData(t, path, "short")
	buf := make([]byte, 64)
	if n, _ := held.ReadAt(buf, 0); string(buf[:n]) != "short" {
		t.Errorf("an older descriptor reads %q", buf[:n])
	}
	if st := stat(t, path); st.Size != 5 {
		t.Errorf("size %d", st.Size)
	}
}

func truncateBothWays(t *testing.T, dir string) {
	path := write(t, dir+"/f", "0123456789")
	must.OK(t, os.Truncate(path, 4))
	wantData(t, path, "0123")
	// What comes back is zero, not what was there.
	must.OK(t, os.Truncate(path, 8))
	wantData(t, path, "0123\x00\x00\x00\x00")
	f := open(t, path, os.O_WRONLY)
	_, err := f.WriteAt([]byte("x"), 10)
	must.OK(t, err)
	wantData(t, path, "0123\x00\x00\x00\x00\x00\x00x")
	must.OK(t, os.Truncate(path, 0))
	wantData(t, path, "")
	if st := stat(t, path); st.Blocks != 0 {
		t.Errorf("an empty file has %d blocks", st.Blocks)
	}
	wantErr(t, unix.Truncate(dir, 0), unix.EISDIR)
	wantErr(t, unix.Truncate(path, -1), unix.EINVAL)
}

// Over 4 GiB, mostly hole.
func largeFile(t *testing.T, dir string) {
	path := dir + "/big"
	f := open(t, path, os.O_CREATE|os.O_RDWR)
	for _, off := range []int64{0, 1<<31 - 2, 1<<32 - 2, 5 << 30, 1 << 40} {
		data := fmt.Sprintf("at %d", off)
		_, err := f.WriteAt([]byte(data), off)
		must.OK(t, err)
		buf := make([]byte, len(data)+4)
		n, err := f.ReadAt(buf, off)
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if got := strings.TrimRight(string(buf[:n]), "\x00"); got != data {
			t.Errorf("at %d: %q", off, got)
		}
	}
	st := stat(t, path)
	if want := int64(1<<40 + len("at 1099511627776")); st.Size != want {
		t.Errorf("size %d, want %d", st.Size, want)
	}
	if st.Blocks > 1000 {
		t.Errorf("%d blocks for five short writes", st.Blocks)
	}
}

func openUnlinked(t *testing.T, dir string) {
	path := write(t, dir+"/f", "still here")
	f := open(t, path, os.O_RDWR)
	must.OK(t, os.Remove(path))
	var st unix.Stat_t
	must.OK(t, unix.Fstat(int(f.Fd()), &st))
	if st.Nlink != 0 {
		t.Errorf("nlink %d", st.Nlink)
	}
	_, err := f.WriteAt([]byte("STILL"), 0)
	must.OK(t, err)
	buf := make([]byte, 10)
	_, err = f.ReadAt(buf, 0)
	must.OK(t, err)
	if string(buf) != "STILL here" {
		t.Errorf("reads %q", buf)
	}
	must.OK(t, f.Truncate(2))
	must.OK(t, f.Chmod(0o600))
	must.OK(t, f.Sync())
	// Its name is free at once.
	write(t, path, "another")
	wantData(t, path, "another")
	if n, _ := f.ReadAt(buf, 0); string(buf[:n]) != "ST" {
		t.Errorf("reads %q", buf[:n])
	}
}

func tmpfile(t *testing.T, dir string) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o640)
	must.OK(t, err)
	f := os.NewFile(uintptr(fd), "tmpfile")
	defer f.Close()
	_, err = f.WriteString("unnamed")
	must.OK(t, err)
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	if len(entries) != 0 {
		t.Errorf("listed: %v", entries)
	}
	must.OK(t, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, dir+"/named", unix.AT_SYMLINK_FOLLOW))
	wantData(t, dir+"/named", "unnamed")
	if st := stat(t, dir+"/named"); st.Nlink != 1 || st.Mode&0o7777 != 0o640 {
		t.Errorf("nlink %d, mode %o", st.Nlink, st.Mode)
	}
}

func mmapShared(t *testing.T, dir string) {
	path := write(t, dir+"/f", strings.Repeat("-", 3*4096))
	f := open(t, path, os.O_RDWR)
	m, err := unix.Mmap(int(f.Fd()), 0, 3*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must.OK(t, err)
	copy(m[4090:], "across a page")
	must.OK(t, unix.Msync(m, unix.MS_SYNC))
	buf := make([]byte, 13)
	_, err = f.ReadAt(buf, 4090)
	must.OK(t, err)
	if string(buf) != "across a page" {
		t.Errorf("reads %q", buf)
	}
	_, err = f.WriteAt([]byte("written"), 100)
	must.OK(t, err)
	if got := string(m[100:107]); got != "written" {
		t.Errorf("the mapping has %q", got)
	}
	must.OK(t, unix.Munmap(m))
	data, err := os.ReadFile(path)
	must.OK(t, err)
	if len(data) != 3*4096 || string(data[4090:4103]) != "across a page" {
		t.Error("the file lacks what was stored through the mapping")
	}
}

func mmapPrivate(t *testing.T, dir string) {
	path := write(t, dir+"/f", strings.Repeat("-", 4096))
	f := open(t, path, os.O_RDWR)
	m, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	must.OK(t, err)
	copy(m, "mine")
	wantData(t, path, strings.Repeat("-", 4096))
	must.OK(t, unix.Munmap(m))
}
