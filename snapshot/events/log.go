package events

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/info"
)

const (
	DefaultLimitBytes  = 16 << 20 // less on a small disk
	DefaultSegmentSize = 256 << 10
	DefaultQuietTime   = 200 * time.Millisecond
)

const (
	diskShareDivisor = 64 // the default limit is at most 1/diskShareDivisor of the disk
	minLimitBytes    = 1 << 20
)

// Options are the options of a Log. FS and Logger must be set.
type Options struct {
	FS     vfs.FS
	Logger *slog.Logger
	// LimitBytes is the largest total size of the logs of all workspaces.
	LimitBytes int64
	// SegmentSize is the number of bytes of a file after which a new file is begun.
	SegmentSize int64
	// QuietTime is the time without a change of a node after which the node's event is written.
	QuietTime time.Duration
	// Resolve returns the present path and size of a node, for events that were
	// recorded without a path. It is called some time after the event.
	Resolve func(view uint32, node uint64) (path string, size int64, ok bool)
	// TenantOf returns the view of the tenant of a workspace. If the logs are too large, files of the tenant with
	// the most bytes are removed, so that one tenant cannot make another lose its log. nil: each workspace is a
	// tenant.
	TenantOf func(view uint32) uint32
}

// A Log is the event log of a store. All methods are safe for concurrent use.
type Log struct {
	dir  string
	opts Options

	processNames processNames

	writer sync.Mutex // held while files are written or removed

	mu struct {
		sync.Mutex
		pendingEvents
		logs            map[uint32]*workspaceLog
		timer           *time.Timer   // runs while events are pending
		writtenSignal   chan struct{} // closed when events are written, see wakeFollowers
		closed          bool
		lastWriteFailed bool // the last write failed, and the failure was logged
		loaded          bool
		earlyEvents     []Event // events recorded before Load
	}
}

// New returns the event log in a directory, without reading its files. Until Load, events wait in memory.
func New(dir string, o Options) *Log {
	if o.LimitBytes <= 0 {
		o.LimitBytes = DefaultLimitBytes
		if total, err := o.FS.Total(filepath.Dir(dir)); err == nil {
			o.LimitBytes = min(o.LimitBytes, max(total/diskShareDivisor, minLimitBytes))
		}
	}

	if o.SegmentSize <= 0 {
		o.SegmentSize = min(DefaultSegmentSize, max(o.LimitBytes/8, 1))
	}
	if o.TenantOf == nil {
		o.TenantOf = func(view uint32) uint32 { return view }
	}
	if o.QuietTime <= 0 {
		o.QuietTime = DefaultQuietTime
	}

	l := &Log{dir: dir, opts: o}
	l.mu.pendingEvents = newPendingEvents(o.QuietTime)
	l.mu.logs = map[uint32]*workspaceLog{}
	l.mu.writtenSignal = make(chan struct{})
	return l
}

// If maxPendingEvents events are pending, Record writes them itself. Otherwise a large restore would add events
// faster than they are written.
const maxPendingEvents = 10_000

// Record adds an event, which is written later; see the package comment. If Command is empty, Record finds the
// name of the process PID.
func (l *Log) Record(e Event) {
	n := &pendingEvent{Event: e}
	l.setDefaults(&n.Event)
	l.mu.Lock()

	if !l.mu.loaded {
		l.keepEarly(n.Event)
	} else if !l.mu.closed {
		l.mu.add(l.workspaceLog(e.Workspace), n)
		l.startTimer()
	}

	waiting := len(l.mu.queue)
	l.mu.Unlock()
	if waiting >= maxPendingEvents {
		l.flushAndLogError(true)
	}
}

// A Span has the numbers and counts of the events from one capture of a workspace to the next.
type Span struct {
	First, Last uint64 // numbers of the events; the event Last is the capture
	Counts      info.Counts
}

// RecordCapture records the event of a new snapshot. It returns the span of events since the snapshot before,
// including this event.
func (l *Log) RecordCapture(e Event) Span {
	e.Action = Captured
	if e.Path == "" {
		e.Path = "."
	}

	l.setDefaults(&e)
	l.mu.Lock()
	defer l.mu.Unlock()

	v := l.workspaceLog(e.Workspace)
	if !l.mu.loaded {
		l.keepEarly(e)
	}
	if l.mu.closed || !l.mu.loaded {
		return Span{First: v.lastSeq + 1, Last: v.lastSeq}
	}

	l.mu.closeWorkspaceEvents(v)
	l.mu.add(v, &pendingEvent{Event: e})
	s := Span{First: v.lastCaptureSeq + 1, Last: v.lastSeq, Counts: v.countsSinceCapture}
	v.lastCaptureSeq, v.countsSinceCapture = v.lastSeq, info.Counts{}
	l.startTimer()

	return s
}

// setDefaults shortens the paths of an event, and sets its time and command if they are missing.
func (l *Log) setDefaults(e *Event) {
	e.Path, e.From = shortenPath(e.Path), shortenPath(e.From)
	if e.Time.IsZero() {
		e.Time = time.Now()
	}

	if e.Command == "" {
		p := l.processNames.lookUp(e.PID, e.Time)
		e.Command = p.name
		if p.pid != 0 {
			e.PID = p.pid
		}
	}
}

// LastSeq returns the number of the last recorded event of a workspace, 0 if there is
// none. The event may be pending.
func (l *Log) LastSeq(view uint32) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v := l.mu.logs[view]; v != nil {
		return v.lastSeq
	}
	return 0
}

// Views returns the views of the workspaces with a log, sorted.
func (l *Log) Views() []uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.mu.logs))
}

// workspaceLog returns the log of a workspace, a new one if there is none. The caller holds mu.
func (l *Log) workspaceLog(id uint32) *workspaceLog {
	v := l.mu.logs[id]
	if v == nil {
		v = l.newWorkspaceLog(id)
		l.mu.logs[id] = v
	}
	return v
}

func (l *Log) newWorkspaceLog(id uint32) *workspaceLog {
	return &workspaceLog{fs: l.opts.FS, id: id, dir: filepath.Join(l.dir, viewDirName(id))}
}

// startTimer starts the timer if events are pending. The caller holds mu.
func (l *Log) startTimer() {
	if l.mu.timer == nil && !l.mu.closed && !l.mu.empty() {
		l.mu.timer = time.AfterFunc(l.opts.QuietTime, l.writeDueEvents)
	}
}

// flushAndLogError calls flush. It logs an error of flush, unless the previous write failed, too.
func (l *Log) flushAndLogError(all bool) {
	err := guard.Do(func() error { return l.flush(all) })
	if err == nil {
		return
	}

	l.mu.Lock()
	first := !l.mu.lastWriteFailed
	l.mu.lastWriteFailed = true
	l.mu.Unlock()
	if first {
		l.opts.Logger.Error("events are being lost", "err", err, guard.Stack(err))
	}
}

// writeDueEvents writes the pending events that are due, and starts the timer again if other events are pending.
// The timer calls writeDueEvents.
func (l *Log) writeDueEvents() {
	l.flushAndLogError(false)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.timer = nil
	l.startTimer()
}

// Flush writes all events that were recorded before the call.
func (l *Log) Flush() error { return l.flush(true) }

// Close writes all events and ends all calls of Follow.
func (l *Log) Close() error {
	l.mu.Lock()
	l.mu.closed = true
	if l.mu.timer != nil {
		l.mu.timer.Stop()
		l.mu.timer = nil
	}

	l.mu.Unlock()
	err := l.flush(true)
	l.mu.Lock()
	defer l.mu.Unlock()

	l.wakeFollowers()

	return err
}

// wakeFollowers makes all calls of Follow read again. The caller holds mu.
func (l *Log) wakeFollowers() {
	close(l.mu.writtenSignal)
	l.mu.writtenSignal = make(chan struct{})
}

// Remove removes the log of a workspace.
func (l *Log) Remove(view uint32) error {
	if err := l.Flush(); err != nil {
		return err
	}

	l.writer.Lock()
	defer l.writer.Unlock()

	l.mu.Lock()
	v := l.mu.logs[view]
	delete(l.mu.logs, view)
	l.mu.Unlock()
	if v == nil {
		return nil
	}
	if err := v.remove(); err != nil {
		return fmt.Errorf("remove the event log of workspace %d: %w", view, err)
	}

	return nil
}

// Follow calls fn for each event of a workspace whose number is above afterSeq: first for the existing events, then
// for each new event when it is written. If onWrite is not nil, Follow calls it each time that events of any
// workspace were written. Follow ends when ctx is done, when the log is closed, or when fn or onWrite returns an
// error, which Follow returns.
func (l *Log) Follow(ctx context.Context, view uint32, afterSeq uint64, fn func(Event) error, onWrite func() error) error {
	for first := true; ; first = false {
		l.mu.Lock()
		written, closed := l.mu.writtenSignal, l.mu.closed
		l.mu.Unlock()
		err := l.Read(view, afterSeq, func(e Event) error {
			afterSeq = e.Seq
			return fn(e)
		})
		if err == nil && !first && onWrite != nil {
			err = onWrite()
		}
		if err != nil || closed {
			return err
		}

		select {
		case <-ctx.Done():
			return nil
		case <-written:
		}
	}
}
