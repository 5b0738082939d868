package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// Writers, syncers, readers and droppers at once.
func TestConcurrent(t *testing.T) {
	fs := vfstest.NewMem()
	j := mustOpen(t, memOptions(fs))
	const writers, each = 8, 300
	var wg sync.WaitGroup
	var errs atomic.Int64
	report := func(format string, args ...any) {
		errs.Add(1)
		t.Errorf(format, args...)
	}
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				head := binary.LittleEndian.AppendUint32([]byte{byte(w)}, uint32(i))
				data := bytes.Repeat([]byte{byte(w*31 + i)}, 50+(i*37)%900)
				pos, err := j.Append(Type(w+1), head, data, false)
				if err != nil {
					report("append: %v", err)
					return
				}
				if i%20 == 0 {
					if err := j.Sync(); err != nil || j.sync.durablePos.Load() <= pos {
						report("sync: %v, durable %d, appended at %d", err, j.sync.durablePos.Load(), pos)
					}
				}
				p := make([]byte, len(data))
				if err := j.ReadAt(p, pos, pos-int64(len(head))); err == nil && !bytes.Equal(p, data) {
					report("other bytes at %d", pos)
				} else if err != nil && !errors.Is(err, ErrPosition) {
					report("read: %v", err)
				}
				if w == 0 && i%50 == 49 {
					if err := j.DropBefore(j.End() - 40<<10); err != nil {
						report("drop: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	if errs.Load() > 0 {
		return
	}
	// Each writer's records are there in its order.
	seen := map[byte]uint32{}
	from := j.segments()[0].base
	err := j.Replay(from, func(typ Type, _ int64, p []byte, _ int64) error {
		w, i := p[0], binary.LittleEndian.Uint32(p[1:])
		if last, ok := seen[w]; typ != Type(w+1) || (ok && i != last+1) {
			t.Errorf("writer %d: record %d after %d", w, i, last)
		}
		seen[w] = i
		return nil
	})
	must.OK(t, err)
	for w := range byte(writers) {
		if last, ok := seen[w]; ok && last != each-1 { // else all of it was dropped
			t.Errorf("writer %d: the last record is %d", w, last)
		}
	}
	must.OK(t, j.Close())
}

// countingFS counts fdatasync on files, and makes it wait for a gate.
type countingFS struct {
	vfs.FS
	syncs atomic.Int64
	gate  chan struct{}
}

func (c *countingFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &countingFile{f, c}, nil
}

type countingFile struct {
	vfs.File
	c *countingFS
}

func (f *countingFile) Sync() error {
	f.c.syncs.Add(1)
	<-f.c.gate
	return f.File.Sync()
}

// Many callers that wait at once share a run: a caller that comes while one is under way waits
// for the next, together with all others.
func TestGroupCommit(t *testing.T) {
	c := &countingFS{FS: vfstest.NewMem(), gate: make(chan struct{})}
	j := mustOpen(t, memOptions(c))
	appendOne := func() {
		if _, err := j.Append(1, nil, []byte("x"), false); err != nil {
			t.Error(err)
		}
	}
	appendOne()
	const waiters = 50
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := j.Sync(); err != nil {
			t.Error(err)
		}
	})
	for c.syncs.Load() == 0 { // the first is at the gate
		runtime.Gosched()
	}
	appendOne()
	for range waiters {
		wg.Go(func() {
			if err := j.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	close(c.gate)
	wg.Wait()
	if n := c.syncs.Load(); n > 2 {
		t.Fatalf("%d callers of Sync made %d of fdatasync", waiters+1, n)
	}
}

// A replay reads everything, also when segments are to be dropped meanwhile. Reading in a
// segment that is dropped is ErrPosition.
func TestDropWhileReading(t *testing.T) {
	fs := vfstest.NewMem()
	j := mustOpen(t, memOptions(fs))
	pos, err := j.Append(1, nil, []byte("first"), false)
	must.OK(t, err)
	for len(j.segments()) < 3 {
		_, err = j.Append(1, nil, make([]byte, 3000), false)
		must.OK(t, err)
	}
	first := j.segments()[0]
	var dropped sync.WaitGroup
	n := 0
	err = j.Replay(0, func(typ Type, _ int64, p []byte, _ int64) error {
		if n == 0 {
			dropped.Go(func() {
				if err := j.DropBefore(j.End()); err != nil {
					t.Error(err)
				}
			})
		}
		n++
		return nil
	})
	if err != nil || n < 5 {
		t.Fatalf("%d records, %v", n, err)
	}
	dropped.Wait()
	if _, err := first.readRecord(make([]byte, 5), pos, pos); !errors.Is(err, ErrPosition) {
		t.Errorf("reading in a dropped segment: %v", err)
	}
	must.OK(t, j.Close())
}

// A journal is verified while it is appended to and dropped: nothing is wrong.
func TestVerifyInUse(t *testing.T) {
	fs := vfstest.NewMem()
	j := mustOpen(t, memOptions(fs))
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				if err := j.Verify(func(d *DamageError, end int64) { t.Errorf("%v, up to %d", d, end) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 30_000 {
		_, err := j.Append(1, nil, make([]byte, 1000), false)
		must.OK(t, err)
		if i%20 == 0 {
			must.OK(t, j.DropBefore(j.End()))
		}
	}
	stop.Store(true)
	wg.Wait()
}
