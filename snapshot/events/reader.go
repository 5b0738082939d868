package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// A Reader is the log of a workspace as a growing file, with a JSON object on each line. It keeps
// no files open.
type Reader struct {
	log       *Log
	workspace *workspaceLog
	base      int64 // workspaceLog.droppedBytes minus base is the number of bytes of empty lines at the beginning
}

// Reader returns a Reader of a workspace. The file begins with removedBytes bytes of empty lines, in place of lines
// that were removed earlier. The lines of the present files follow.
func (l *Log) Reader(view uint32, removedBytes int64) *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.workspaceLog(view)
	return &Reader{log: l, workspace: v, base: v.droppedBytes - removedBytes}
}

// presentSegments returns the present files, and the number of bytes of empty lines before them.
func (r *Reader) presentSegments() (segments []segment, removed int64) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.workspace.segments, r.workspace.droppedBytes - r.base
}

// Size returns the length in bytes, which never shrinks.
func (r *Reader) Size() int64 {
	segments, size := r.presentSegments()
	for _, s := range segments {
		size += s.size
	}
	return size
}

// RemovedBytes returns the number of bytes at the beginning that are empty lines, because their files were removed.
func (r *Reader) RemovedBytes() int64 {
	_, removed := r.presentSegments()
	return removed
}

// ReadAt implements io.ReaderAt. It returns empty lines in place of lines that were removed since the Reader was
// made.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	segments, start := r.presentSegments()
	n := int64(0)
	for ; n < int64(len(p)) && off+n < start; n++ {
		p[n] = '\n'
	}

	for _, s := range segments {
		if at := off + n - start; at >= 0 && at < s.size {
			part := p[n:min(int64(len(p)), n+s.size-at)]
			k, err := r.workspace.readAt(s, part, at)
			if err != nil {
				return int(n), fmt.Errorf("read the event log of workspace %d: %w", r.workspace.id, err)
			}
			for i := range part[k:] { // the file was removed during the call
				part[k+i] = '\n'
			}

			n += int64(len(part))
		}

		start += s.size
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}

	return int(n), nil
}

// Read calls fn for each event of a workspace whose number is above afterSeq, oldest first. Before that, it writes
// pending events. If fn returns an error, Read ends and returns the error.
func (l *Log) Read(view uint32, afterSeq uint64, fn func(Event) error) error {
	if err := l.Flush(); err != nil {
		// Earlier events can still be read.
		l.opts.Logger.Error("events are being lost", "err", err)
	}

	l.mu.Lock()
	v := l.mu.logs[view]
	var segments []segment
	if v != nil {
		segments = v.segments
	}

	l.mu.Unlock()

	for i, s := range segments {
		if i+1 < len(segments) && segments[i+1].firstSeq <= afterSeq+1 {
			continue
		}
		b, err := v.readLines(s)
		if err != nil {
			return fmt.Errorf("read the event log of workspace %d: %w", view, err)
		}

		for line := range bytes.Lines(b) {
			seq, _, ok := parseHead(line)
			if !ok || seq <= afterSeq {
				continue
			}

			e := Event{Workspace: view}
			if err := json.Unmarshal(line, &e); err != nil {
				l.opts.Logger.Warn("a line of the event log is damaged", "workspace", view, "seq", seq, "err", err)
				continue
			}

			if err := fn(e); err != nil {
				return err
			}
		}
	}

	return nil
}
