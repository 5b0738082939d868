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

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/info"
)

const (
	segmentSuffix = ".jsonl"
	// maxSegmentSize is the number of bytes after which the rest of a file is ignored, because files are read into
	// memory.
	maxSegmentSize = 4 << 20
	maxSeq         = 1 << 62
)

// A workspaceLog is the log of one workspace. Log.mu guards the fields that change. A goroutine that changes
// segments also holds Log.writer.
type workspaceLog struct {
	fs  vfs.FS
	id  uint32
	dir string

	segments       []segment // oldest first; lines are appended to the last one. The slice is replaced, and never changed
	droppedBytes   int64     // bytes of segments that were removed since the log was opened
	lastWrittenSeq uint64    // number of the last event that was written; guarded by Log.writer
	lastSeq        uint64    // number of the last recorded event
	epoch          int       // incremented by each capture

	lastCaptureSeq     uint64      // number of the last capture
	countsSinceCapture info.Counts // counts of the events after the last capture
}

// A segment is a file of a log.
type segment struct {
	firstSeq uint64 // number of the first event
	size     int64  // bytes of complete lines
}

func viewDirName(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

func parseViewDirName(name string) (uint32, bool) {
	id, err := strconv.ParseUint(name, 10, 32)
	return uint32(id), err == nil && viewDirName(uint32(id)) == name
}

func segmentName(first uint64) string { return fmt.Sprintf("%016x%s", first, segmentSuffix) }

// parseSegment returns the number of the first event from the name of a file.
func parseSegment(name string) (first uint64, ok bool) {
	hex, ok := strings.CutSuffix(name, segmentSuffix)
	first, err := strconv.ParseUint(hex, 16, 64)
	return first, ok && err == nil && segmentName(first) == name && 0 < first && first < maxSeq
}

func (v *workspaceLog) segmentPath(s segment) string {
	return filepath.Join(v.dir, segmentName(s.firstSeq))
}

func (v *workspaceLog) size() (n int64) {
	for _, s := range v.segments {
		n += s.size
	}
	return n
}

// open finds the files of a log, its last number, and the counts of events since the
// last capture.
func (v *workspaceLog) open() error {
	infos, err := v.fs.ReadDir(v.dir)
	if err != nil {
		return err
	}

	for _, i := range infos {
		if first, ok := parseSegment(i.Name); ok {
			v.segments = append(v.segments, segment{first, min(i.Size, maxSegmentSize)})
		}
	}

	last := len(v.segments) - 1
	for i := last; i >= 0 && v.lastCaptureSeq == 0; i-- {
		if err := v.countAndTruncateSegment(&v.segments[i], i == last); err != nil {
			return err
		}
	}

	v.lastSeq = v.lastWrittenSeq

	return nil
}

// countAndTruncateSegment adds the events of a segment after its last capture to the counts. last is set for the
// last segment: then it also truncates the file after the last complete line.
func (v *workspaceLog) countAndTruncateSegment(s *segment, last bool) error {
	b, err := v.readLines(*s)
	if err != nil {
		return err
	}

	seq, whole := s.firstSeq-1, int64(0) // number and end of the last complete line

	for end := len(b); end > 0 && v.lastCaptureSeq == 0; {
		line := b[bytes.LastIndexByte(b[:end-1], '\n')+1 : end]
		// A power cut may leave blocks of zeros. They are not lines.
		if n, action, ok := parseHead(line); ok && bytes.HasSuffix(line, []byte("}\n")) {
			if whole == 0 {
				seq, whole = n, int64(end)
			}
			if addToCounts(&v.countsSinceCapture, action); action == Captured {
				v.lastCaptureSeq = n
			}
		}

		end -= len(line)
	}

	if !last {
		return nil
	}

	v.lastWrittenSeq = seq
	if whole == s.size && s.size < maxSegmentSize {
		return nil
	}

	s.size = whole
	f, err := vfs.OpenWrite(v.fs, v.segmentPath(*s))
	if err != nil {
		return err
	}

	return errors.Join(f.Truncate(whole), f.Close())
}

// readLines returns the lines of a segment, or no lines if its file was removed.
func (v *workspaceLog) readLines(s segment) ([]byte, error) {
	b := make([]byte, s.size)
	n, err := v.readAt(s, b, 0)
	return b[:n], err
}

// readAt reads bytes of a segment at an offset. It reads no bytes if the segment's file was removed.
func (v *workspaceLog) readAt(s segment, p []byte, off int64) (int, error) {
	f, err := vfs.Open(v.fs, v.segmentPath(s))
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

	return n, errors.Join(err, f.Close())
}

// append appends lines to the file of a segment, and creates the file if it does not exist.
func (v *workspaceLog) append(s segment, lines []byte) error {
	if err := v.fs.MkdirAll(v.dir, 0o700); err != nil {
		return err
	}

	f, err := v.fs.OpenFile(v.segmentPath(s), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(lines, s.size); err != nil {
		_ = f.Truncate(s.size) // otherwise parts of these lines could remain before the next lines
	}

	return errors.Join(err, f.Close())
}

func (v *workspaceLog) remove() error {
	for _, s := range v.segments {
		if err := v.fs.Remove(v.segmentPath(s)); err != nil {
			return err
		}
	}

	if err := v.fs.Remove(v.dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return nil
}
