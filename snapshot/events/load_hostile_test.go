package events

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

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
	must.OK(t, l.Flush())
}

func content(t testing.TB, r *Reader) string {
	t.Helper()
	b := make([]byte, r.Size())
	if n, err := r.ReadAt(b, 0); n != len(b) || err != nil && err != io.EOF {
		t.Fatal(n, err)
	}
	return string(b)
}

// TestHostileFiles: whatever is in the folder, what is read of it is bounded, and new
// events are recorded.
func TestHostileFiles(t *testing.T) {
	for name, b := range map[string][]byte{
		segmentName(1):             []byte("{\"seq\":1}\n{\"seq\":\x00\x00\x00"),
		segmentName(2):             make([]byte, 100_000),
		segmentName(maxSeq - 1):    []byte("{}\n"),
		"ffffffffffffffff.jsonl":   []byte("{}\n"),
		"1.jsonl":                  []byte("{}\n"),
		"0000000000000001.jsonl.x": []byte("{}\n"),
	} {
		fs := vfstest.NewMem()
		must.OK(t, fs.MkdirAll("/events/1", 0o700))
		must.OK(t, vfs.WriteFile(fs, filepath.Join("/events/1", name), b))
		l := mustOpen(t, fs, Options{})
		if size := l.Reader(1, 0).Size(); size > maxSegmentSize {
			t.Errorf("%s: %d bytes", name, size)
		}
		record(t, l, 1)
		if es := all(t, l, 1); len(es) == 0 || es[len(es)-1].Action != Created {
			t.Errorf("%s: %d events", name, len(es))
		}
		content(t, l.Reader(1, 0))
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, first := range []uint64{1, 5} {
		dir := t.TempDir()
		must.OK(t, os.MkdirAll(filepath.Join(dir, "1"), 0o700))
		for _, n := range []uint64{first, first + 10} { // sparse ones
			path := filepath.Join(dir, "1", segmentName(n))
			if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Truncate(path, 1<<40)); err != nil {
				t.Skip(err)
			}
		}
		l, err := Open(dir, Options{FS: vfs.OS, Logger: slog.New(slog.DiscardHandler), QuietTime: time.Hour})
		must.OK(t, err)
		record(t, l, 1)
		if es := all(t, l, 1); len(es) != 1 || l.Reader(1, 0).Size() > 3*maxSegmentSize {
			t.Errorf("%d events in %d bytes", len(es), l.Reader(1, 0).Size())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
