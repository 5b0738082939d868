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
			seq, _, ok := head(line)
			if !ok || seq <= after {
				continue
			}
			e := Event{Workspace: view}
			if err := json.Unmarshal(line, &e); err != nil {
				l.log.Warn("a line of the event log is damaged", "workspace", view, "seq", seq, "err", err)
				continue
			}
			if err := fn(e); err != nil {
				return err
			}
		}
	}
	return nil
}
