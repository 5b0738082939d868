package events

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/vfs"
)

const (
	packedSuffix = ".jsonl.zst"
	packingName  = "packing.tmp" // a file that gets its name when it is on the disk
	// maxSegment bounds the lines of a file, in bytes, whatever its name or its size
	// says: they are read into memory.
	maxSegment = 4 << 20
	maxSeq     = 1 << 62
	diskBlock  = 4096
	packBatch  = 4 // what an encoder takes to be made is worth it for so many files
	// packClose is how long Close goes on compressing.
	packClose = 200 * time.Millisecond
)

func packedName(s *segment) string {
	return fmt.Sprintf("%016x-%016x-%08x%s", s.first, s.last, s.size, packedSuffix)
}

// parsePacked returns what the name of a compressed file says.
func parsePacked(name string) (s *segment, ok bool) {
	hex, ok := strings.CutSuffix(name, packedSuffix)
	parts := strings.Split(hex, "-")
	if !ok || len(parts) != 3 {
		return nil, false
	}
	var n [3]uint64
	for i, p := range parts {
		var err error
		if n[i], err = strconv.ParseUint(p, 16, 63); err != nil {
			return nil, false
		}
	}
	s = &segment{first: n[0], last: n[1], size: int64(n[2]), packed: true}
	return s, packedName(s) == name && 0 < s.first && s.first <= s.last && s.last < maxSeq && 0 < s.size && s.size <= maxSegment
}

// An expander reads compressed files. It keeps the lines of the one that was read last.
type expander struct {
	fs  vfs.FS
	bad func(path string, err error) // is told of a damaged one

	mu    sync.Mutex
	path  string
	lines []byte
}

// read returns the lines of a compressed file, which are not to be changed. Those of a
// damaged one are a padding line of the same length. fs.ErrNotExist: there is no such
// file any more.
func (x *expander) read(path string, size int64) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.path == path {
		return x.lines, nil
	}
	lines, err := x.expand(path, size)
	if errors.Is(err, fs.ErrNotExist) || err != nil && !vfs.IsDamage(err) {
		return nil, err
	}
	if err != nil {
		x.bad(path, err)
		lines = make([]byte, size)
		padding(lines, 0, size)
	}
	x.path, x.lines = path, lines
	return lines, nil
}

func (x *expander) expand(path string, size int64) ([]byte, error) {
	b, err := vfs.ReadFileUpTo(x.fs, path, size)
	if errors.Is(err, syscall.EFBIG) {
		return nil, fmt.Errorf("more than the %d bytes of its lines", size)
	}
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxSegment), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	lines, err := d.DecodeAll(b, make([]byte, 0, size))
	if err == nil && int64(len(lines)) != size {
		err = fmt.Errorf("%d bytes of lines instead of %d", len(lines), size)
	}
	return lines, err
}

// find returns a segment as it is on the disk, compressed; nil if it is not.
func (v *view) find(first uint64) (*segment, error) {
	infos, err := v.fs.ReadDir(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		if s, ok := parsePacked(i.Name); ok && s.first == first {
			return s, nil
		}
	}
	return nil, nil
}

// A finished segment gets no more lines, and waits to be compressed.
type finished struct {
	v *view
	s *segment
}

// packLaterLocked has what is finished compressed in the background.
func (l *Log) packLaterLocked() {
	if l.mu.packing || l.mu.closed || len(l.mu.finished) < packBatch {
		return
	}
	l.mu.packing = true
	l.packers.Go(func() {
		l.packAll(time.Time{})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.packing = false
	})
}

// finishLarge finishes what is worth compressing though it is not full.
func (l *Log) finishLarge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.mu.views {
		if n := len(v.segments); n > 0 {
			s := v.segments[n-1]
			if !s.packed && s.size >= l.opts.SegmentSize/4 && s.size < l.opts.SegmentSize {
				l.mu.finished = append(l.mu.finished, finished{v, s})
			}
		}
	}
}

// packAll compresses what is finished, until a time if that is not zero. What cannot
// be compressed stays as it is until the log is opened again.
func (l *Log) packAll(until time.Time) {
	l.mu.Lock()
	none := len(l.mu.finished) == 0
	l.mu.Unlock()
	if none {
		return
	}
	err := guard.Do(func() error {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
		if err != nil {
			return err
		}
		for until.IsZero() || time.Now().Before(until) {
			l.mu.Lock()
			if len(l.mu.finished) == 0 || until.IsZero() && l.mu.closed {
				l.mu.Unlock()
				return nil
			}
			next := l.mu.finished[0]
			l.mu.finished = l.mu.finished[1:]
			l.mu.Unlock()
			if err := l.pack(next.v, next.s, enc); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		l.log.Warn("a part of the event log cannot be compressed", "err", err, guard.Stack(err))
	}
}

// pack compresses a finished segment. Until the compressed one is on the disk, and has
// its name, the other one stays.
func (l *Log) pack(v *view, s *segment, enc *zstd.Encoder) error {
	l.mu.Lock()
	p := *s
	l.mu.Unlock()
	lines, err := v.load(&p)
	if err != nil || int64(len(lines)) < p.size {
		return err // removed meanwhile
	}
	if p.last = lastSeq(lines); p.last < p.first || p.last >= maxSeq {
		return nil // it is damaged
	}
	b := enc.EncodeAll(lines, nil)
	if (len(b)+diskBlock-1)/diskBlock >= (len(lines)+diskBlock-1)/diskBlock {
		return nil
	}
	tmp := filepath.Join(l.dir, packingName)
	if err := vfs.WriteSynced(l.fs, tmp, b); err != nil {
		return errors.Join(err, l.fs.Remove(tmp))
	}
	l.writer.Lock()
	defer l.writer.Unlock()
	if !l.has(v, s) {
		return l.fs.Remove(tmp)
	}
	p.packed = true
	if err := l.fs.Rename(tmp, v.path(&p)); err != nil {
		return err
	}
	old := v.path(s)
	l.mu.Lock()
	s.last, s.packed = p.last, true
	l.mu.Unlock()
	return l.fs.Remove(old)
}

// has reports whether a segment was not removed meanwhile.
func (l *Log) has(v *view, s *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range v.segments {
		if have == s {
			return l.mu.views[v.id] == v
		}
	}
	return false
}
