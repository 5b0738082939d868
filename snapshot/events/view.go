package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/vfs"
)

const (
	segmentSuffix = ".jsonl"
	// maxSegment bounds the lines of a file, in bytes, whatever its size is: they are
	// read into memory.
	maxSegment = 4 << 20
	maxSeq     = 1 << 62
)

// A view is the log of one workspace. Log.mu guards what changes; only the
// holder of Log.writer changes the segments.
type view struct {
	fs   vfs.FS
	id   uint32
	dir  string
	made bool // the directory exists

	segments []*segment // oldest first; the last one is written to
	dropped  int64      // bytes of segments removed since it was opened
	lastSeq  uint64     // of the last event recorded
	epoch    int        // grows with every capture

	counted  sync.Once // finds out what happened before it was opened
	opened   uint64    // lastSeq then
	captured uint64    // number of the last capture
	since    Counts    // what happened since, as far as it is known
}

// A segment is one file of a log.
type segment struct {
	first uint64    // number of the first event
	size  int64     // bytes of whole lines
	begun time.Time // time of the first event, zero if it was not looked up
}

func viewName(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

func parseView(name string) (uint32, bool) {
	id, err := strconv.ParseUint(name, 10, 32)
	return uint32(id), err == nil && viewName(uint32(id)) == name
}

func segmentName(first uint64) string { return fmt.Sprintf("%016x%s", first, segmentSuffix) }

// parseSegment returns the number of the first event in a file.
func parseSegment(name string) (first uint64, ok bool) {
	hex, ok := strings.CutSuffix(name, segmentSuffix)
	first, err := strconv.ParseUint(hex, 16, 64)
	return first, ok && err == nil && segmentName(first) == name && 0 < first && first < maxSeq
}

func (v *view) path(s *segment) string { return filepath.Join(v.dir, segmentName(s.first)) }

func newView(fsys vfs.FS, dir string, id uint32) *view { return &view{fs: fsys, id: id, dir: dir} }

// openView reads what is there of a workspace's log.
func openView(fsys vfs.FS, dir string, id uint32) (*view, error) {
	v := newView(fsys, dir, id)
	v.made = true
	infos, err := v.fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		if first, ok := parseSegment(i.Name); ok {
			v.segments = append(v.segments, &segment{first: first, size: min(i.Size, maxSegment)})
		}
	}
	if n := len(v.segments); n > 0 {
		if v.lastSeq, err = v.mend(v.segments[n-1]); err != nil {
			return nil, err
		}
	}
	v.opened = v.lastSeq
	return v, nil
}

// mend cuts an unfinished line off a segment, and returns the number of its last
// event.
func (v *view) mend(s *segment) (uint64, error) {
	b, err := v.load(s)
	if err != nil {
		return 0, err
	}
	last, end := s.first-1, len(b)
	for end > 0 {
		// A crash of the machine may leave blocks of zeros, so a line must
		// also be one.
		start := bytes.LastIndexByte(b[:end-1], '\n') + 1
		if seq, _, ok := head(b[start:end]); ok && b[end-1] == '\n' && b[end-2] == '}' {
			last = seq
			break
		}
		end = start
	}
	if int64(end) < s.size || s.size == maxSegment {
		return last, v.truncate(s, int64(end))
	}
	return last, nil
}

// lastSeq returns the number of the last of some lines, 0 if none has one.
func lastSeq(lines []byte) uint64 {
	for end := len(lines); end > 0; {
		start := bytes.LastIndexByte(lines[:end-1], '\n') + 1
		if seq, _, ok := head(lines[start:end]); ok {
			return seq
		}
		end = start
	}
	return 0
}

func (v *view) truncate(s *segment, size int64) error {
	f, err := v.fs.OpenFile(v.path(s), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	s.size = size
	return err
}

// load returns the content of a segment, nothing if it was removed meanwhile.
func (v *view) load(s *segment) ([]byte, error) {
	b := make([]byte, s.size)
	n, err := v.readAt(s, b, 0)
	return b[:n], err
}

// readAt reads the lines of a segment, nothing if it was removed meanwhile.
func (v *view) readAt(s *segment, p []byte, off int64) (int, error) {
	f, err := vfs.Open(v.fs, v.path(s))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return n, err
}

// write adds lines to a segment, whose file it makes if need be. The size that is
// known of it does not change.
func (v *view) write(s *segment, lines []byte) error {
	if !v.made {
		if err := v.fs.MkdirAll(v.dir, 0o700); err != nil {
			return err
		}
		v.made = true
	}
	f, err := v.fs.OpenFile(v.path(s), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(lines, s.size); err != nil {
		_ = f.Truncate(s.size) // else the next lines are written over it
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// history returns the number of the last capture before the view was opened and
// the counts of the events since. It reads backwards until it finds the capture.
func (v *view) history(segments []*segment) (captured uint64, since Counts, err error) {
	for i := len(segments) - 1; i >= 0; i-- {
		b, err := v.load(segments[i])
		if err != nil {
			return 0, Counts{}, err
		}
		var here Counts
		for line := range bytes.Lines(b) {
			seq, action, ok := head(line)
			if !ok || seq > v.opened {
				continue
			}
			if action == Captured {
				captured, here = seq, Counts{}
				continue
			}
			here.add(action)
		}
		since.plus(here)
		if captured != 0 {
			break
		}
	}
	return captured, since, nil
}
