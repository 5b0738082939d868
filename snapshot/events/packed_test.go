package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// packing are options for files that are worth compressing.
func packing() Options { return Options{SegmentSize: 32 << 10} }

// record writes n events about files of one workspace, as an agent's work makes them.
func record(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		l.Record(Event{
			Workspace: 1, Action: []string{Created, Modified, Deleted}[i%3], Size: int64(i * 7919 % 50_000), PID: uint32(1000 + i/40),
			Path: fmt.Sprintf("src/pkg%d/part%d/file%05d.go", i/300, i/40%8, i), Command: "go",
		})
		if i%50 == 49 {
			flush(t, l)
		}
	}
	flush(t, l)
}

func flush(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
}

// settled waits until everything that is finished is compressed.
func settled(t testing.TB, l *Log) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		l.mu.Lock()
		idle := !l.mu.packing && len(l.mu.finished) < packBatch
		l.packLaterLocked()
		l.mu.Unlock()
		if idle {
			l.packAll(time.Time{})
			return
		}
	}
	t.Fatal("the log is not compressed")
}

func content(t testing.TB, r *Reader) string {
	t.Helper()
	b := make([]byte, r.Size())
	if n, err := r.ReadAt(b, 0); n != len(b) || err != nil && err != io.EOF {
		t.Fatal(n, err)
	}
	return string(b)
}

// files returns the names of the files of workspace 1, and their bytes of disk.
func files(t testing.TB, fs vfs.FS) (names []string, size int64) {
	t.Helper()
	infos, err := fs.ReadDir("/events/1")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		names = append(names, i.Name)
		size += i.Allocated
	}
	return names, size
}

// TestFinishedFilesAreCompressed: what is read is the same before and after, by number
// and by offset, also after the log was opened again and after a kill.
func TestFinishedFilesAreCompressed(t *testing.T) {
	fs, o := vfstest.NewMem(), packing()
	l := mustOpen(t, fs, o)
	r := l.Reader(1)
	record(t, l, 3000)
	settled(t, l)
	want := content(t, r)
	check := func(l *Log) {
		t.Helper()
		if got := content(t, l.Reader(1)); got != want {
			t.Fatalf("%d bytes instead of %d, or others", len(got), len(want))
		}
		for range 200 {
			off := rand.Int64N(int64(len(want)))
			b := make([]byte, 1+rand.IntN(100_000))
			n, err := l.Reader(1).ReadAt(b, off)
			if err != nil && err != io.EOF || string(b[:n]) != want[off:min(off+int64(len(b)), int64(len(want)))] {
				t.Fatalf("%d bytes at %d: %d, %v", len(b), off, n, err)
			}
		}
		for _, after := range []uint64{0, 1, 1500, 2999, 3000} {
			next := after
			if err := l.Read(1, after, func(e Event) error {
				if next++; e.Seq != next {
					t.Fatalf("event %d instead of %d", e.Seq, next)
				}
				return nil
			}); err != nil || next != 3000 {
				t.Fatalf("after %d: up to %d, %v", after, next, err)
			}
		}
	}
	check(l)
	names, size := files(t, fs)
	for _, name := range names[:len(names)-1] {
		if !strings.HasSuffix(name, packedSuffix) {
			t.Errorf("%s is not compressed", name)
		}
	}
	if len(names) < 10 || size > int64(len(want)/4) {
		t.Errorf("%d bytes in %d files take %d", len(want), len(names), size)
	}
	l = mustOpen(t, fs, o) // as after a kill
	check(l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, fs, o)
	check(l)
	if n := l.LastSeq(1); n != 3000 {
		t.Errorf("last number %d", n)
	}
	// Closing compresses also what is not full, and the numbers go on behind it.
	for range 4 {
		record(t, l, 100)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		names, _ := files(t, fs)
		if last := names[len(names)-1]; !strings.HasSuffix(last, packedSuffix) {
			t.Errorf("%s is not compressed", last)
		}
		l = mustOpen(t, fs, o)
	}
	if es := all(t, l, 1); len(es) != 3400 || es[3399].Seq != 3400 {
		t.Errorf("%d events", len(es))
	}
	if err := l.Remove(1); err != nil {
		t.Error(err)
	}
}

// TestKillWhileCompressing: whichever of the two files are there, each event is once.
func TestKillWhileCompressing(t *testing.T) {
	fs, o := vfstest.NewMem(), packing()
	plain := func() map[string][]byte {
		m := map[string][]byte{}
		names, _ := files(t, fs)
		for _, name := range names {
			b, err := vfs.ReadFile(fs, filepath.Join("/events/1", name))
			if err != nil {
				t.Fatal(err)
			}
			m[name] = b
		}
		return m
	}
	l := mustOpen(t, fs, o)
	l.mu.packing = true // not yet
	record(t, l, 1000)
	before := plain()
	want := content(t, l.Reader(1))
	l = mustOpen(t, fs, o)
	flush(t, l)
	record(t, l, 1)
	settled(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, b := range before {
		if err := vfs.WriteFile(fs, filepath.Join("/events/1", name), b); err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := vfs.WriteFile(fs, filepath.Join("/events", packingName), []byte("half a fi")); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, fs, o)
	if got := content(t, l.Reader(1)); !strings.HasPrefix(got, want) || l.LastSeq(1) < 1000 {
		t.Errorf("%d bytes instead of %d, last number %d", len(got), len(want), l.LastSeq(1))
	}
	if _, err := fs.Stat(filepath.Join("/events", packingName)); err == nil {
		t.Error("the half-made file is still there")
	}
	names, _ := files(t, fs)
	for _, name := range names[:len(names)-1] {
		if !strings.HasSuffix(name, packedSuffix) {
			t.Errorf("%s is still there", name)
		}
	}
}

// TestDamagedCompressedFile: the rest is read, nothing moves, and no number comes again.
func TestDamagedCompressedFile(t *testing.T) {
	fs, o := vfstest.NewMem(), packing()
	l := mustOpen(t, fs, o)
	record(t, l, 2000)
	settled(t, l)
	want := content(t, l.Reader(1))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := files(t, fs)
	for i, hurt := range map[int]func(f vfs.File, size int64) error{
		2: func(f vfs.File, size int64) error { _, err := f.WriteAt([]byte("damage"), size/2); return err },
		4: func(f vfs.File, size int64) error { return f.Truncate(size / 2) },
		6: func(f vfs.File, _ int64) error { return f.Truncate(0) },
	} {
		f, err := vfs.OpenWrite(fs, filepath.Join("/events/1", names[i]))
		if err != nil {
			t.Fatal(err)
		}
		size, _ := f.Size()
		if err := hurt(f, size); err != nil {
			t.Fatal(err)
		}
	}
	l = mustOpen(t, fs, o)
	got := content(t, l.Reader(1))
	if len(got) != len(want) {
		t.Fatalf("%d bytes instead of %d", len(got), len(want))
	}
	lost := 0
	old, now := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	for len(now) > 0 && len(old) > 0 {
		if now[0] == old[0] {
			now, old = now[1:], old[1:]
			continue
		}
		if !strings.HasPrefix(now[0], padStart) {
			t.Fatalf("a line is %.100q", now[0])
		}
		lost++
		for n := len(now[0]); n > 0; old = old[1:] {
			n -= len(old[0])
		}
		now = now[1:]
	}
	if lost != 3 {
		t.Errorf("%d files are lost", lost)
	}
	if n := l.LastSeq(1); n != 2000 {
		t.Errorf("last number %d", n)
	}
	n := 0
	if err := l.Read(1, 0, func(Event) error { n++; return nil }); err != nil || n < 1000 || n > 1900 {
		t.Errorf("%d events, %v", n, err)
	}
}

// TestHostileFiles: whatever files are there, opening and reading need little memory.
func TestHostileFiles(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := enc.EncodeAll(make([]byte, 32<<20), nil)
	for name, b := range map[string][]byte{
		packedName(&segment{first: 1, last: 9, size: 1000}):       bomb[:min(len(bomb), 1000)],
		packedName(&segment{first: 10, last: 19, size: 100_000}):  bomb,
		packedName(&segment{first: 20, last: 29, size: 1 << 40}):  bomb,
		packedName(&segment{first: 30, last: 3, size: 100}):       bomb,
		packedName(&segment{first: 40, last: 1 << 63, size: 100}): bomb,
		packedName(&segment{first: 50, last: 59, size: 10}):       enc.EncodeAll([]byte("short"), nil),
		"-1-2-3" + packedSuffix:                                   nil,
		"1" + packedSuffix:                                        nil,
	} {
		fs := vfstest.NewMem()
		if err := fs.MkdirAll("/events/1", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFile(fs, filepath.Join("/events/1", name), b); err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, fs, Options{})
		if size := l.Reader(1).Size(); size > maxSegment {
			t.Errorf("%s: %d bytes", name, size)
		}
		record(t, l, 1)
		if es := all(t, l, 1); len(es) != 1 {
			t.Errorf("%s: %d events", name, len(es))
		}
		content(t, l.Reader(1))
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, first := range []uint64{1, 5} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "1"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, n := range []uint64{first, first + 10} { // sparse ones
			path := filepath.Join(dir, "1", segmentName(n))
			if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Truncate(path, 1<<40)); err != nil {
				t.Skip(err)
			}
		}
		l, err := Open(dir, Options{Quiet: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		record(t, l, 1)
		if es := all(t, l, 1); len(es) != 1 || l.Reader(1).Size() > 3*maxSegment {
			t.Errorf("%d events in %d bytes", len(es), l.Reader(1).Size())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReadWhileCompressing reads by offset what is compressed and removed meanwhile.
func TestReadWhileCompressing(t *testing.T) {
	fs, o := vfstest.NewMem(), packing()
	o.Limit = 300_000
	l := mustOpen(t, fs, o)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := l.Reader(1)
				b := make([]byte, r.Size())
				n, err := r.ReadAt(b, 0)
				if err != nil && err != io.EOF || n != len(b) || bytes.IndexByte(b, 0) >= 0 {
					t.Errorf("%d bytes of %d, %v", n, len(b), err)
					return
				}
				last := uint64(0)
				if err := l.Read(1, 0, func(e Event) error {
					if e.Seq <= last {
						return fmt.Errorf("event %d after %d", e.Seq, last)
					}
					last = e.Seq
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	record(t, l, 5000)
	close(stop)
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := l.size(); got > o.Limit {
		t.Errorf("%d bytes", got)
	}
}

// full is a disk that has no room for another file that is being compressed.
type full struct{ vfs.FS }

func (f full) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if filepath.Base(name) == packingName {
		return nil, syscall.ENOSPC
	}
	return f.FS.OpenFile(name, flag, perm)
}

// TestNoRoomToCompress: a disk that takes nothing more costs no event.
func TestNoRoomToCompress(t *testing.T) {
	mem, o := vfstest.NewMem(), packing()
	l := mustOpen(t, full{mem}, o)
	record(t, l, 1000)
	settled(t, l)
	if n := len(all(t, l, 1)); n != 1000 {
		t.Errorf("%d events", n)
	}
	if names, _ := files(t, mem); strings.HasSuffix(names[0], packedSuffix) {
		t.Error("it was compressed all the same")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, mem, o)
	record(t, l, 1)
	settled(t, l)
	if names, _ := files(t, mem); !strings.HasSuffix(names[0], packedSuffix) {
		t.Error("it is not compressed when there is room again")
	}
	if n := len(all(t, l, 1)); n != 1001 {
		t.Errorf("%d events", n)
	}
}
