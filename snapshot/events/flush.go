package events

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

// flush writes what is due, or all that was recorded.
func (l *Log) flush(all bool) error {
	l.writer.Lock()
	defer l.writer.Unlock()
	l.mu.Lock()
	due := l.mu.take(time.Now(), all)
	l.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	var err error
	lines := map[*view][]byte{}
	for _, e := range due {
		if !l.complete(&e.Event) {
			continue
		}
		b := appendLine(lines[e.v], &e.Event)
		if int64(len(b)) >= l.opts.SegmentSize {
			err = errors.Join(err, l.write(e.v, b))
			b = b[:0]
		}
		lines[e.v] = b
	}
	for v, b := range lines {
		err = errors.Join(err, l.write(v, b))
	}
	err = errors.Join(err, l.limit())
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.mu.failed = false
	}
	l.wakeFollowers()
	return err
}

// complete adds the path and size of the node. It reports false for an event without a path whose
// node has none now.
func (l *Log) complete(e *Event) bool {
	if e.Node != 0 && l.opts.Resolve != nil && (e.Action == Created || e.Action == Modified) {
		if path, size, ok := l.opts.Resolve(e.Workspace, e.Node); ok {
			e.Size = size
			if e.Path == "" {
				e.Path = path
			}
		}
	}
	e.Time = e.Time.UTC()
	return e.Path != ""
}

// write adds lines to the newest file of a workspace, or to another if that is full.
// The writer is locked.
func (l *Log) write(v *view, lines []byte) error {
	l.mu.Lock()
	removed := l.mu.views[v.id] != v // with the workspace
	l.mu.Unlock()
	if removed || len(lines) == 0 {
		return nil
	}
	segments := slices.Clone(v.segments)
	if n := len(segments); n == 0 || segments[n-1].size >= l.opts.SegmentSize {
		first, _, _ := head(lines)
		segments = append(segments, segment{first: first})
	}
	s := &segments[len(segments)-1]
	if err := v.append(*s, lines); err != nil {
		return fmt.Errorf("write the event log of workspace %d: %w", v.id, err)
	}
	s.size += int64(len(lines))
	v.written, _, _ = head(lines[bytes.LastIndexByte(lines[:len(lines)-1], '\n')+1:])
	l.mu.Lock()
	defer l.mu.Unlock()
	v.segments = segments
	return nil
}

// limit removes files until the rest is small enough. The writer is locked.
func (l *Log) limit() error {
	if l.size() <= l.opts.Limit {
		return nil
	}
	shareOf := make(map[uint32]uint32)
	for _, id := range l.Views() {
		shareOf[id] = l.opts.Share(id)
	}
	for l.size() > l.opts.Limit {
		if err := l.drop(l.largest(shareOf)); err != nil {
			return fmt.Errorf("shorten the event log: %w", err)
		}
	}
	return nil
}

func (l *Log) size() (total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.mu.views {
		total += v.size()
	}
	return total
}

// largest returns the log that is to lose a file: the largest of the workspaces that
// have the largest share.
func (l *Log) largest(shareOf map[uint32]uint32) (largest *view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares := map[uint32]int64{}
	for id, v := range l.mu.views {
		shares[shareOf[id]] += v.size()
	}
	share := func(v *view) int64 { return shares[shareOf[v.id]] }
	for _, v := range l.mu.views {
		if largest == nil || share(v) > share(largest) || share(v) == share(largest) && v.size() > largest.size() {
			largest = v
		}
	}
	return largest
}

// drop removes the first file of a log. An empty one takes the place of the last, so
// that the numbers go on after the next opening.
func (l *Log) drop(v *view) error {
	s, rest := v.segments[0], slices.Clone(v.segments[1:])
	if len(rest) == 0 {
		rest = []segment{{first: v.written + 1}}
		if err := v.append(rest[0], nil); err != nil {
			return err
		}
	}
	if err := v.fs.Remove(v.path(s)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.dropped += s.size
	v.segments = rest
	return nil
}
