package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

func TestAppendReplayReopen(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": vfstest.NewMem(), "disk": vfs.OS} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "journal")
			o := memOptions(fs)
			rnd := rand.New(rand.NewPCG(1, 2))
			var items []item
			for round := range 4 {
				j, err := Open(dir, o)
				must.OK(t, err)
				for range 60 {
					// Some are larger than a segment.
					maxLen := []int{10, 3000, 50000}[rnd.IntN(3)]
					it, err := appendItem(j, rnd, uint64(len(items)), maxLen)
					must.OK(t, err)
					items = append(items, it)
				}
				readBack(t, j, items)
				got, err := collect(j, 0)
				if err != nil || len(got) != len(items) {
					t.Fatalf("round %d: %d records, want %d: %v", round, len(got), len(items), err)
				}
				samePrefix(t, got, items)
				must.OK(t, j.Close())
			}
			// From any End.
			j, err := Open(dir, o)
			must.OK(t, err)
			defer j.Close()
			for i, it := range items {
				got, err := collect(j, it.end)
				if err != nil || len(got) != len(items)-i-1 {
					t.Fatalf("replay after record %d: %d records: %v", i, len(got), err)
				}
				samePrefix(t, got, items[i+1:])
			}
		})
	}
}

func TestLargestRecord(t *testing.T) {
	j, err := Open(t.TempDir(), Options{SegmentSize: 1 << 20})
	must.OK(t, err)
	defer j.Close()
	big := bytes.Repeat([]byte("0123456789abcde"), MaxPayload/15+1)[:MaxPayload-5]
	pos, err := j.Append(3, []byte("head!"), big, false)
	must.OK(t, err)
	p := make([]byte, 100)
	if err := j.ReadAt(p, pos+int64(len(big))-100, pos-5); err != nil || !bytes.Equal(p, big[len(big)-100:]) {
		t.Fatalf("end of a large record: %v", err)
	}
	if _, err := j.Append(3, []byte("head!!"), big, false); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("one byte too many: %v", err)
	}
	if _, err := j.Append(0, nil, nil, false); err == nil {
		t.Fatal("type 0 was accepted")
	}
	got, err := collect(j, 0)
	if err != nil || len(got) != 1 || !bytes.Equal(got[0].payload[5:], big) {
		t.Fatalf("replay: %d records: %v", len(got), err)
	}
}

func TestEmptyAndClosed(t *testing.T) {
	j := mustOpen(t, memOptions(vfstest.NewMem()))
	if j.End() != 0 || j.Size() != 0 {
		t.Fatalf("a new journal: end %d, size %d", j.End(), j.Size())
	}
	if got, err := collect(j, 0); err != nil || len(got) != 0 {
		t.Fatalf("replay of nothing: %d, %v", len(got), err)
	}
	must.OK(t, j.Sync())
	if err := j.ReadAt(make([]byte, 1), 200, 200); !errors.Is(err, ErrPosition) {
		t.Fatalf("read in an empty journal: %v", err)
	}
	pos, err := j.Append(1, nil, nil, false)
	must.OK(t, err)
	if err := j.ReadAt(make([]byte, 1), pos, pos); !errors.Is(err, ErrPosition) {
		t.Fatalf("read behind the end: %v", err)
	}
	if _, err := collect(j, j.End()+8); !errors.Is(err, ErrPosition) {
		t.Fatalf("replay from behind the end: %v", err)
	}
	must.OK(t, j.Close())
	if _, err := j.Append(1, nil, nil, false); !errors.Is(err, errs.Closed) {
		t.Fatalf("append after close: %v", err)
	}
	if err := j.Close(); !errors.Is(err, errs.Closed) {
		t.Fatalf("second close: %v", err)
	}
}

func TestReplayStopsWithCallersError(t *testing.T) {
	j := mustOpen(t, memOptions(vfstest.NewMem()))
	defer j.Close()
	for range 3 {
		_, err := j.Append(1, nil, []byte("x"), false)
		must.OK(t, err)
	}
	stop := errors.New("stop")
	n := 0
	err := j.Replay(0, func(Type, int64, []byte, int64) error { n++; return stop })
	if err != stop || n != 1 {
		t.Fatalf("%d records, %v", n, err)
	}
}

func TestClosedJournalTakesNoSpaceAhead(t *testing.T) {
	fs := vfstest.NewMem()
	for range 5 { // opening and closing adds nothing, either
		j := mustOpen(t, Options{FS: fs})
		if j.End() == 0 {
			_, err := j.Append(1, nil, []byte("x"), false)
			must.OK(t, err)
		}
		must.OK(t, j.Close())
	}
	if fs.Used() > blockSize {
		t.Fatalf("one small record takes %d bytes", fs.Used())
	}
}

func TestUnknownVersion(t *testing.T) {
	fs := vfstest.NewMem()
	j := mustOpen(t, memOptions(fs))
	_, err := j.Append(1, nil, []byte("x"), false)
	must.OK(t, err)
	name := j.disk.path(j.cur.name)
	must.OK(t, j.Close())
	f, err := fs.OpenFile(name, 2, 0)
	must.OK(t, err)
	b := make([]byte, segmentHeaderSize)
	_, err = f.ReadAt(b, 0)
	must.OK(t, err)
	b[8] = 9
	putCRC(b)
	_, err = f.WriteAt(b, 0)
	must.OK(t, err)
	if _, err := Open(testDir, memOptions(fs)); !errors.Is(err, errs.Format) {
		t.Fatalf("a segment of version 9: %v", err)
	}
}
