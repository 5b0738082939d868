package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
)

// Read calls fn for every event of a workspace after the number given, oldest
// first. What was recorded before the call is written first. An error of fn ends
// it and is returned as it is.
func (l *Log) Read(view uint32, after uint64, fn func(Event) error) error {
	return l.scan(view, after, func(line []byte, seq uint64, _ string) error {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			l.log.Warn("a line of the event log is damaged", "workspace", view, "seq", seq, "err", err)
			return nil
		}
		e.Workspace = view
		return fn(e)
	})
}

// Counts counts the events of a workspace with numbers from first to last, as
// far as they are kept.
func (l *Log) Counts(view uint32, first, last uint64) (Counts, error) {
	var c Counts
	if first == 0 {
		first = 1
	}
	err := l.scan(view, first-1, func(_ []byte, seq uint64, action string) error {
		if seq <= last {
			c.add(action)
		}
		return nil
	})
	return c, err
}

// scan calls fn for every line with a number above after.
func (l *Log) scan(view uint32, after uint64, fn func(line []byte, seq uint64, action string) error) error {
	if err := l.Flush(); err != nil {
		// What is there can be read.
		l.log.Error("events are being lost", "err", err)
	}
	l.mu.Lock()
	v := l.mu.views[view]
	var segments []segment
	if v != nil {
		for _, s := range v.segments {
			segments = append(segments, *s)
		}
	}
	l.mu.Unlock()
	from := sort.Search(len(segments), func(i int) bool { return segments[i].first > after+1 }) - 1
	for _, s := range segments[max(from, 0):] {
		b, err := v.load(&s)
		if err != nil {
			return fmt.Errorf("read the event log of workspace %d: %w", view, err)
		}
		for line := range bytes.Lines(b) {
			seq, action, ok := head(line)
			if !ok || seq <= after {
				continue
			}
			if err := fn(line, seq, action); err != nil {
				return err
			}
		}
	}
	return nil
}
