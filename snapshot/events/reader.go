package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// A Reader is the log of a workspace as a file: a JSON object a line, growing at
// the end. It holds nothing open.
type Reader struct {
	l    *Log
	v    *view
	base int64 // value of view.dropped when it was made
}

// Reader returns the log of a workspace as it is kept now, after so many bytes that were
// removed.
func (l *Log) Reader(view uint32, removed int64) *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view(view)
	return &Reader{l: l, v: v, base: v.dropped - removed}
}

// now returns the files that there are, and how many bytes before them were removed
// since the Reader was made.
func (r *Reader) now() (segments []segment, removed int64) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.v.segments, r.v.dropped - r.base
}

// Size returns the length in bytes. It never gets less.
func (r *Reader) Size() int64 {
	segments, size := r.now()
	for _, s := range segments {
		size += s.size
	}
	return size
}

// Removed is the length of the removed beginning: a new Reader would begin later.
func (r *Reader) Removed() int64 {
	_, removed := r.now()
	return removed
}

// ReadAt implements io.ReaderAt. Lines that were removed since the Reader was made are read as
// empty lines.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	segments, start := r.now()
	n := int64(0)
	for ; n < int64(len(p)) && off+n < start; n++ {
		p[n] = '\n'
	}
	for _, s := range segments {
		if at := off + n - start; at >= 0 && at < s.size {
			part := p[n:min(int64(len(p)), n+s.size-at)]
			k, err := r.v.readAt(s, part, at)
			if err != nil {
				return int(n), fmt.Errorf("read the event log of workspace %d: %w", r.v.id, err)
			}
			for i := range part[k:] { // removed at this moment
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

// Read calls fn for every event of a workspace after the number given, oldest
// first. What was recorded before the call is written first. An error of fn ends
// it and is returned as it is.
func (l *Log) Read(view uint32, after uint64, fn func(Event) error) error {
	if err := l.Flush(); err != nil {
		// Earlier events can still be read.
		l.opts.Logger.Error("events are being lost", "err", err)
	}
	l.mu.Lock()
	v := l.mu.views[view]
	var segments []segment
	if v != nil {
		segments = v.segments
	}
	l.mu.Unlock()
	for i, s := range segments {
		if i+1 < len(segments) && segments[i+1].first <= after+1 {
			continue
		}
		b, err := v.load(s)
		if err != nil {
			return fmt.Errorf("read the event log of workspace %d: %w", view, err)
		}
		for line := range bytes.Lines(b) {
			seq, _, ok := head(line)
			if !ok || seq <= after {
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
