package posix_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

func fallocateModes(t *testing.T, dir string) {
	const block = 64 << 10
	path := dir + "/f"
	f := open(t, path, os.O_CREATE|os.O_RDWR)
	fd := int(f.Fd())
	want := bytes.Repeat([]byte("x"), 4*block)
	_, err := f.Write(want)
	must.OK(t, err)
	check := func(what string, blocks int64) {
		t.Helper()
		got, err := os.ReadFile(path)
		must.OK(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: wrong contents", what)
		}
		if st := stat(t, path); st.Blocks != blocks/512 {
			t.Errorf("%s: %d blocks, want %d", what, st.Blocks, blocks/512)
		}
	}
	must.OK(t, unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, block, block))
	clear(want[block : 2*block])
	check("punch hole", 3*block)
	must.OK(t, unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE, 2*block, block))
	clear(want[2*block : 3*block])
	check("zero range", 3*block)
	must.OK(t, unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 4*block, 2*block))
	// The mount reserves nothing behind the end of a file: there is no block
	// to hold.
	behind := int64(0)
	if *reference != "" {
		behind = 2 * block
	}
	check("keep size", 3*block+behind)
	must.OK(t, unix.Fallocate(fd, 0, 4*block, block))
	want = append(want, make([]byte, block)...)
	check("allocate", 4*block+max(0, behind-block))
	for _, mode := range []uint32{unix.FALLOC_FL_COLLAPSE_RANGE, unix.FALLOC_FL_INSERT_RANGE} {
		if err := unix.Fallocate(fd, mode, 0, block); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("mode %#x: %v", mode, err)
		} else if err == nil && mode == unix.FALLOC_FL_COLLAPSE_RANGE {
			want = want[block:]
		} else if err == nil {
			want = append(make([]byte, block), want...)
		}
	}
	got, err := os.ReadFile(path)
	must.OK(t, err)
	if !bytes.Equal(got, want) {
		t.Error("collapse and insert: wrong contents")
	}
}

func seekDataAndHole(t *testing.T, dir string) {
	const block = 1 << 20
	f := open(t, dir+"/f", os.O_CREATE|os.O_RDWR)
	_, err := f.WriteAt(bytes.Repeat([]byte("a"), block), block)
	must.OK(t, err)
	must.OK(t, f.Truncate(4*block))
	for _, c := range []struct {
		off    int64
		whence int
		want   int64
	}{
		{0, unix.SEEK_DATA, block},
		{0, unix.SEEK_HOLE, 0},
		{block, unix.SEEK_HOLE, 2 * block},
		{block + 5, unix.SEEK_DATA, block + 5},
		{3 * block, unix.SEEK_HOLE, 3 * block},
	} {
		if got, err := f.Seek(c.off, c.whence); err != nil || got != c.want {
			t.Errorf("seek %d, %d: %d, %v; want %d", c.off, c.whence, got, err, c.want)
		}
	}
	_, err = f.Seek(2*block, unix.SEEK_DATA)
	wantErr(t, err, unix.ENXIO)
	for _, off := range []int64{4 * block, -1} {
		_, err = f.Seek(off, unix.SEEK_HOLE)
		wantErr(t, err, unix.ENXIO)
	}
	if st := stat(t, dir+"/f"); st.Blocks*512 != block {
		t.Errorf("%d bytes allocated, %d written", st.Blocks*512, block)
	}

	// Data in a part of a block is data in all of it, as readers with O_DIRECT need it.
	g := open(t, dir+"/g", os.O_CREATE|os.O_RDWR)
	for _, off := range []int64{5000, 12_287, 20_480} {
		_, err := g.WriteAt([]byte("a"), off)
		must.OK(t, err)
	}
	must.OK(t, g.Truncate(25_000))
	for _, c := range []struct {
		off    int64
		whence int
		want   int64
	}{
		{0, unix.SEEK_DATA, 4096},
		{4096, unix.SEEK_HOLE, 12_288},
		{5001, unix.SEEK_DATA, 5001},
		{5001, unix.SEEK_HOLE, 12_288},
		{12_288, unix.SEEK_DATA, 20_480},
		{12_300, unix.SEEK_HOLE, 12_300},
		{20_481, unix.SEEK_HOLE, 24_576},
		{24_999, unix.SEEK_HOLE, 24_999},
	} {
		if got, err := g.Seek(c.off, c.whence); err != nil || got != c.want {
			t.Errorf("in blocks, seek %d, %d: %d, %v; want %d", c.off, c.whence, got, err, c.want)
		}
	}
}

func copyRange(t *testing.T, dir string) {
	data := strings.Repeat("0123456789abcdef", 40_000)
	src := open(t, write(t, dir+"/src", data), os.O_RDWR)
	dst := open(t, dir+"/dst", os.O_CREATE|os.O_RDWR)
	roff, woff := int64(1000), int64(500)
	for left := 600_000; left > 0; {
		n, err := unix.CopyFileRange(int(src.Fd()), &roff, int(dst.Fd()), &woff, left, 0)
		must.OK(t, err)
		if n == 0 {
			t.Fatal("copied nothing")
		}
		left -= n
	}
	want := strings.Repeat("\x00", 500) + data[1000:601_000]
	wantData(t, dir+"/dst", want)
	// They are two files: each changes alone.
	_, err := src.WriteAt([]byte("CHANGED"), 2000)
	must.OK(t, err)
	wantData(t, dir+"/dst", want)
	_, err = dst.WriteAt([]byte("ALSO"), 10_000)
	must.OK(t, err)
	wantData(t, dir+"/src", data[:2000]+"CHANGED"+data[2007:])
	// Within one file, and past its end.
	roff, woff = 0, 700_000
	n, err := unix.CopyFileRange(int(src.Fd()), &roff, int(src.Fd()), &woff, 16, 0)
	must.OK(t, err)
	if n != 16 || stat(t, dir+"/src").Size != 700_016 {
		t.Errorf("copied %d, size %d", n, stat(t, dir+"/src").Size)
	}
	roff = 1 << 30
	if n, err := unix.CopyFileRange(int(src.Fd()), &roff, int(dst.Fd()), &woff, 16, 0); n != 0 || err != nil {
		t.Errorf("from past the end: %d, %v", n, err)
	}
	roff, woff = 0, 8
	_, err = unix.CopyFileRange(int(src.Fd()), &roff, int(src.Fd()), &woff, 16, 0)
	wantErr(t, err, unix.EINVAL)
}

func statfs(t *testing.T, dir string) {
	var s unix.Statfs_t
	must.OK(t, unix.Statfs(dir, &s))
	if s.Bsize <= 0 || s.Blocks == 0 || s.Bavail > s.Bfree || s.Bfree > s.Blocks || s.Bfree == 0 {
		t.Errorf("bsize %d blocks %d bfree %d bavail %d", s.Bsize, s.Blocks, s.Bfree, s.Bavail)
	}
	if s.Namelen != 255 {
		t.Errorf("names of %d bytes", s.Namelen)
	}
	if s.Files != 0 && s.Ffree > s.Files {
		t.Errorf("files %d ffree %d", s.Files, s.Ffree)
	}
}
