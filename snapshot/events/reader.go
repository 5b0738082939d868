package events

import (
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

// Reader returns the log of a workspace as it is kept now.
func (l *Log) Reader(view uint32) *Reader {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.viewLocked(view)
	return &Reader{l: l, v: v, base: v.dropped}
}

// Size returns the length in bytes. It never gets less.
func (r *Reader) Size() int64 {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	size := r.v.dropped - r.base
	for _, s := range r.v.segments {
		size += s.size
	}
	return size
}

// Stale reports whether the beginning of the file was removed: a new Reader would
// begin later.
func (r *Reader) Stale() bool {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.v.dropped != r.base
}

// ReadAt implements io.ReaderAt. Of what was removed since the Reader was made,
// a line of the same length is left, a JSON object with the action "dropped".
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	r.l.mu.Lock()
	removed := r.v.dropped - r.base
	segments := make([]segment, len(r.v.segments))
	for i, s := range r.v.segments {
		segments[i] = *s
	}
	r.l.mu.Unlock()

	n := 0
	if off < removed {
		n = padding(p, off, removed)
	}
	start := removed
	for _, s := range segments {
		for n < len(p) && off+int64(n) >= start && off+int64(n) < start+s.size {
			at := off + int64(n) - start
			want := min(int64(len(p)-n), s.size-at)
			k, err := r.v.readAt(&s, p[n:n+int(want)], at)
			if err != nil {
				return n, fmt.Errorf("read the event log of workspace %d: %w", r.v.id, err)
			}
			if k == 0 {
				// Removed in this moment; the next read sees it so.
				for i := range want {
					p[n+int(i)] = ' '
				}
				k = int(want)
			}
			n += k
		}
		start += s.size
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

const (
	padStart = `{"seq":0,"action":"dropped","pad":"`
	padEnd   = "\"}\n"
)

// padding fills p with the bytes from off of a line of the given length, as far
// as the line goes, and returns their number.
func padding(p []byte, off, length int64) int {
	n := int(min(int64(len(p)), length-off))
	for i := range n {
		at := off + int64(i)
		switch {
		case at >= length-int64(len(padEnd)):
			p[i] = padEnd[at-(length-int64(len(padEnd)))]
		case at < int64(len(padStart)):
			p[i] = padStart[at]
		default:
			p[i] = ' '
		}
	}
	return n
}
