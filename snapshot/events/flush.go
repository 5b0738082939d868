package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// lineSize is about how many bytes a line has.
const lineSize = 192

// flush writes what is due, or all that was recorded.
func (l *Log) flush(all bool) error {
	l.writer.Lock()
	defer l.writer.Unlock()
	due := l.take(all)
	if len(due) == 0 {
		return nil
	}
	type batch struct {
		v     *view
		lines []byte
		first *entry
	}
	var batches []*batch
	of := map[*view]*batch{}
	for i, e := range due {
		if !l.complete(&e.Event) {
			continue
		}
		b := of[e.v]
		if b == nil {
			b = &batch{v: e.v, first: e, lines: make([]byte, 0, lineSize*(len(due)-i))}
			of[e.v] = b
			batches = append(batches, b)
		}
		var err error
		if b.lines, err = appendLine(b.lines, &e.Event); err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
	}
	var first error
	for _, b := range batches {
		l.countBefore(b.v)
		if err := l.writeLines(b.v, b.lines, b.first.Seq, b.first.Time); err != nil && first == nil {
			first = fmt.Errorf("write the event log of workspace %d: %w", b.v.id, err)
		}
	}
	if err := l.limit(); err != nil && first == nil {
		first = fmt.Errorf("shorten the event log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first == nil {
		l.mu.failed = false
	}
	l.tellLocked()
	return first
}

func (l *Log) take(all bool) []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.take(l.now(), all)
}

// complete fills in what is only known later. It is false for an event of a node
// that had no path and has none any more: nobody could say what it was about.
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

// writeLines adds lines to the log of a workspace, in new files where the last one
// is full. The writer is locked.
func (l *Log) writeLines(v *view, lines []byte, seq uint64, at time.Time) error {
	l.mu.Lock()
	removed := l.mu.views[v.id] != v
	l.mu.Unlock()
	if removed {
		return nil // with the workspace
	}
	for len(lines) > 0 {
		s := &segment{first: seq, begun: at}
		n := len(v.segments)
		if n > 0 && v.segments[n-1].size < l.opts.SegmentSize {
			s = v.segments[n-1]
		}
		fit := len(lines)
		if room := l.opts.SegmentSize - s.size; room < int64(fit) {
			fit = int(room) + bytes.IndexByte(lines[room:], '\n') + 1
		}
		if err := v.write(s, lines[:fit]); err != nil {
			return err
		}
		l.mu.Lock()
		s.size += int64(fit)
		if n == 0 || v.segments[n-1] != s {
			v.segments = append(v.segments[:n:n], s)
		}
		l.mu.Unlock()
		if lines = lines[fit:]; len(lines) > 0 {
			seq, _, _ = head(lines)
			at = time.Time{}
		}
	}
	return nil
}

// countBefore finds out what happened in a workspace between its last capture and the
// opening of the log.
func (l *Log) countBefore(v *view) {
	v.counted.Do(func() {
		l.mu.Lock()
		segments := v.segments
		l.mu.Unlock()
		captured, since, err := v.history(segments)
		if err != nil {
			l.log.Warn("the events since the last snapshot cannot be counted", "workspace", v.id, "err", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		v.since.plus(since)
		v.captured = captured
	})
}

// limit removes files, until the rest is small enough. The writer is locked.
func (l *Log) limit() error {
	if l.size() <= l.opts.Limit {
		return nil
	}
	of := make(map[uint32]uint32)
	for _, view := range l.Views() {
		if of[view] = view; l.opts.Share != nil {
			of[view] = l.opts.Share(view)
		}
	}
	for {
		v, s := l.oldest(of)
		if s == nil {
			return nil
		}
		if err := l.drop(v, s); err != nil {
			return err
		}
	}
}

// size is that of all files, in bytes.
func (l *Log) size() (total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.mu.views {
		for _, s := range v.segments {
			total += s.size
		}
	}
	return total
}

// A share is what workspaces have together.
type share struct {
	size int64
	view *view    // of the file that was begun longest ago
	old  *segment // that file
}

// oldest returns the file to remove next, nil if there is none: that which was begun
// longest ago of those who have most. of tells whose share a workspace's is.
func (l *Log) oldest(of map[uint32]uint32) (*view, *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	total, files := int64(0), 0
	shares := make(map[uint32]*share)
	for id, v := range l.mu.views {
		p := shares[of[id]]
		if p == nil {
			p = &share{}
			shares[of[id]] = p
		}
		for i, s := range v.segments {
			if s.size == 0 {
				continue
			}
			total += s.size
			p.size += s.size
			files++
			if i > 0 {
				continue // within a log always from the front
			}
			if s.begun.IsZero() {
				s.begun = v.begun(s)
			}
			if p.old == nil || s.begun.Before(p.old.begun) {
				p.view, p.old = v, s
			}
		}
	}
	if total <= l.opts.Limit || files < 2 {
		return nil, nil
	}
	most := &share{}
	for _, p := range shares {
		if p.old != nil && p.size > most.size {
			most = p
		}
	}
	return most.view, most.old
}

// begun returns the time of a segment's first event; what has none is oldest.
func (v *view) begun(s *segment) time.Time {
	b := make([]byte, min(s.size, 64<<10))
	n, err := v.readAt(s, b, 0)
	line, _, _ := bytes.Cut(b[:n], []byte("\n"))
	var e Event
	if err != nil || json.Unmarshal(line, &e) != nil {
		return time.Unix(0, 0)
	}
	return e.Time
}

// drop removes the first file of a log. An empty one takes the place of the
// last, so that the numbers go on after the next opening.
func (l *Log) drop(v *view, s *segment) error {
	var next *segment
	if len(v.segments) == 1 {
		b, err := v.load(s)
		if err != nil {
			return err
		}
		next = &segment{first: max(s.first, lastSeq(b)) + 1}
		if err := v.write(next, nil); err != nil {
			return err
		}
	}
	if err := l.fs.Remove(v.path(s)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.dropped += s.size
	v.segments = append([]*segment(nil), v.segments[1:]...)
	if next != nil {
		v.segments = append(v.segments, next)
	}
	return nil
}
