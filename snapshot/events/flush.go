package events

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

// flush writes the events that are due or, if all is set, all pending events.
func (l *Log) flush(all bool) error {
	l.writer.Lock()
	defer l.writer.Unlock()

	l.mu.Lock()
	due := l.mu.takeDueEvents(time.Now(), all)
	l.mu.Unlock()
	if len(due) == 0 {
		return nil
	}

	var err error
	lines := map[*workspaceLog][]byte{}

	for _, e := range due {
		if !l.addPath(&e.Event) {
			continue
		}
		b := appendLine(lines[e.log], &e.Event)
		if int64(len(b)) >= l.opts.SegmentSize {
			err = errors.Join(err, l.writeLines(e.log, b))
			b = b[:0]
		}

		lines[e.log] = b
	}

	for v, b := range lines {
		err = errors.Join(err, l.writeLines(v, b))
	}

	err = errors.Join(err, l.enforceLimit())

	l.mu.Lock()
	defer l.mu.Unlock()

	if err == nil {
		l.mu.lastWriteFailed = false
	}

	l.wakeFollowers()

	return err
}

// addPath sets the size of a created or modified event to the present size of the node. If the event has no path,
// it also adds the node's present path. It returns false if the event still has no path.
func (l *Log) addPath(e *Event) bool {
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

// writeLines appends lines to the newest file of a workspace, or to a new file if it is full.
// The caller holds Log.writer.
func (l *Log) writeLines(v *workspaceLog, lines []byte) error {
	l.mu.Lock()
	removed := l.mu.logs[v.id] != v // whether the workspace was removed
	l.mu.Unlock()
	if removed || len(lines) == 0 {
		return nil
	}

	segments := slices.Clone(v.segments)
	if n := len(segments); n == 0 || segments[n-1].size >= l.opts.SegmentSize {
		first, _, _ := parseHead(lines)
		segments = append(segments, segment{firstSeq: first})
	}

	s := &segments[len(segments)-1]
	if err := v.append(*s, lines); err != nil {
		return fmt.Errorf("write the event log of workspace %d: %w", v.id, err)
	}

	s.size += int64(len(lines))
	v.lastWrittenSeq, _, _ = parseHead(lines[bytes.LastIndexByte(lines[:len(lines)-1], '\n')+1:])
	l.mu.Lock()
	defer l.mu.Unlock()

	v.segments = segments

	return nil
}

// enforceLimit removes files until all files together have at most Options.LimitBytes. The caller holds Log.writer.
func (l *Log) enforceLimit() error {
	if l.totalSize() <= l.opts.LimitBytes {
		return nil
	}
	tenantOf := make(map[uint32]uint32)
	for _, id := range l.Views() {
		tenantOf[id] = l.opts.TenantOf(id)
	}

	for l.totalSize() > l.opts.LimitBytes {
		if err := l.dropFirstSegment(l.logToShorten(tenantOf)); err != nil {
			return fmt.Errorf("shorten the event log: %w", err)
		}
	}

	return nil
}

// totalSize returns the bytes of the files of all workspaces.
func (l *Log) totalSize() (total int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.mu.logs {
		total += v.size()
	}
	return total
}

// logToShorten returns the log from which enforceLimit removes a file. It chooses the tenant whose logs together
// have the most bytes, and then the largest log of this tenant. tenantOf has the tenant of each workspace.
func (l *Log) logToShorten(tenantOf map[uint32]uint32) (largest *workspaceLog) {
	l.mu.Lock()
	defer l.mu.Unlock()

	shares := map[uint32]int64{}
	for id, v := range l.mu.logs {
		shares[tenantOf[id]] += v.size()
	}

	share := func(v *workspaceLog) int64 { return shares[tenantOf[v.id]] }
	for _, v := range l.mu.logs {
		if largest == nil || share(v) > share(largest) || share(v) == share(largest) && v.size() > largest.size() {
			largest = v
		}
	}

	return largest
}

// dropFirstSegment removes the first file of a log. If it is the only file, dropFirstSegment first creates an empty
// one: the next opening reads the next event's number from its name.
func (l *Log) dropFirstSegment(v *workspaceLog) error {
	s, rest := v.segments[0], slices.Clone(v.segments[1:])
	if len(rest) == 0 {
		rest = []segment{{firstSeq: v.lastWrittenSeq + 1}}
		if err := v.append(rest[0], nil); err != nil {
			return err
		}
	}

	if err := v.fs.Remove(v.segmentPath(s)); err != nil {
		return err
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	v.droppedBytes += s.size
	v.segments = rest

	return nil
}
