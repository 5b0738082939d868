package events

import "time"

const (
	maxOpenFactor       = 5               // the longest time that an event stays open, as a multiple of pendingEvents.quietTime
	continuationTimeout = 3 * time.Second // time without changes after which a continuation ends
	minRepeatInterval   = 2 * time.Second // shortest interval of the events of a continuation
	maxRepeatInterval   = time.Minute     // longest interval of the events of a continuation
	sweepInterval       = time.Second     // time between two sweeps
)

// pendingEvents has the events that are recorded and not yet written. Log.mu guards it.
type pendingEvents struct {
	quietTime  time.Duration
	queue      []*pendingEvent           // sorted by number
	openEvents map[nodeKey]*pendingEvent // entries of queue that later changes may extend
	// continuations has the continuations of written events. unwritten has the continuations whose event is not nil.
	continuations map[nodeKey]*continuation
	unwritten     map[nodeKey]*continuation
	lastSweep     time.Time
}

// A nodeKey is a node of a workspace.
type nodeKey struct {
	view uint32
	node uint64
}

// A pendingEvent is an event that is recorded and not yet written.
type pendingEvent struct {
	Event
	log        *workspaceLog
	epoch      int       // workspaceLog.epoch when the event began. A capture closes the event by raising the epoch
	lastChange time.Time // time of the last change in the event
	closed     bool      // later changes begin a new event
}

// A continuation collects further changes of a node by a process after an event about them was
// written.
type continuation struct {
	log        *workspaceLog
	epoch      int
	pid        uint32
	lastChange time.Time
	interval   time.Duration
	event      *Event // changes since the last written event; nil without changes
}

func newPendingEvents(quiet time.Duration) pendingEvents {
	return pendingEvents{quietTime: quiet, openEvents: map[nodeKey]*pendingEvent{}, continuations: map[nodeKey]*continuation{}, unwritten: map[nodeKey]*continuation{}}
}

// empty reports whether there are no pending events.
func (p *pendingEvents) empty() bool { return len(p.queue) == 0 && len(p.unwritten) == 0 }

// add adds an event, or extends an earlier event of the node by it.
func (p *pendingEvents) add(v *workspaceLog, n *pendingEvent) {
	e := &n.Event
	if e.Node == 0 {
		p.enqueue(v, n, e.Time)
		n.closed = true
		return
	}

	k := nodeKey{v.id, e.Node}
	if e.Action == Modified && p.extendEvent(k, v, e) {
		return
	}

	p.closeOpen(k, e)
	p.enqueue(v, n, e.Time)

	if e.Action == Modified || e.Action == Created {
		p.openEvents[k] = n
	} else {
		n.closed = true
	}
}

// extendEvent adds a modification to the open event or the continuation of the node. It returns false if there is
// neither.
func (p *pendingEvents) extendEvent(k nodeKey, v *workspaceLog, e *Event) bool {
	if o := p.openEvents[k]; o != nil {
		if o.epoch != v.epoch || (o.PID != e.PID && o.Action != Created) {
			return false
		}
		o.lastChange = e.Time
		o.Size = max(o.Size, e.Size)
		if e.Command != "" && e.PID == o.PID {
			o.Command = e.Command // a shell opens the file and then executes the program, so the later name is the program's
		}

		return true
	}

	r := p.continuations[k]
	if r == nil || r.epoch != v.epoch || r.pid != e.PID || e.Time.Sub(r.lastChange) >= continuationTimeout {
		return false
	}

	r.lastChange = e.Time
	if r.event == nil {
		r.event = e
		p.unwritten[k] = r
	}

	r.event.Size = max(r.event.Size, e.Size)

	return true
}

// closeOpen closes the open event and the continuation of a node, because e begins a new event of the node.
func (p *pendingEvents) closeOpen(k nodeKey, e *Event) {
	pathBefore := "" // the path of the node before e, if e contains it
	switch e.Action {
	case Renamed:
		pathBefore = e.From
	case Deleted:
		pathBefore = e.Path
	}

	if o := p.openEvents[k]; o != nil {
		o.closed = true
		if o.Path == "" {
			o.Path = pathBefore
		}

		delete(p.openEvents, k)
	}

	if r := p.continuations[k]; r != nil {
		if r.event != nil && r.event.Path == "" {
			r.event.Path = pathBefore
		}

		p.queueContinuation(k, r)
		delete(p.continuations, k)
	}
}

// queueContinuation adds the event of a continuation to the queue.
func (p *pendingEvents) queueContinuation(k nodeKey, r *continuation) {
	if r.event != nil {
		r.event.Time = r.lastChange
		p.enqueue(r.log, &pendingEvent{Event: *r.event, closed: true}, r.lastChange)
		r.event = nil
		delete(p.unwritten, k)
	}
}

// enqueue sets the number of an event, and adds it to the queue. lastChange is the time of the last change in the
// event.
func (p *pendingEvents) enqueue(v *workspaceLog, n *pendingEvent, lastChange time.Time) {
	v.lastSeq++
	addToCounts(&v.countsSinceCapture, n.Action)
	n.Seq, n.log, n.epoch, n.lastChange = v.lastSeq, v, v.epoch, lastChange
	p.queue = append(p.queue, n)
}

// closeWorkspaceEvents closes all open events of a workspace.
func (p *pendingEvents) closeWorkspaceEvents(v *workspaceLog) {
	for k, r := range p.unwritten {
		if r.log == v {
			p.queueContinuation(k, r)
		}
	}
	v.epoch++
}

// takeDueEvents removes the events that are due at the time now from the front of the queue, and returns them. If all is
// set, all events are due.
func (p *pendingEvents) takeDueEvents(now time.Time, all bool) []*pendingEvent {
	for k, r := range p.unwritten {
		if all || now.Sub(r.lastChange) >= continuationTimeout || now.Sub(r.event.Time) >= r.interval {
			p.queueContinuation(k, r)
			r.interval = min(2*r.interval, maxRepeatInterval)
		}
	}

	n := 0
	for ; n < len(p.queue); n++ {
		e := p.queue[n]
		e.closed = e.closed || e.epoch != e.log.epoch
		if !e.closed && !all && now.Sub(e.lastChange) < p.quietTime && now.Sub(e.Time) < maxOpenFactor*p.quietTime {
			break
		}

		k := nodeKey{e.log.id, e.Node}
		if p.openEvents[k] == e {
			delete(p.openEvents, k)
			p.continuations[k] = &continuation{log: e.log, epoch: e.epoch, pid: e.PID, lastChange: e.lastChange, interval: minRepeatInterval}
		}
	}

	due := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}

	p.sweepContinuations(now)

	return due
}

// sweepContinuations removes continuations that had no changes for continuationTimeout.
func (p *pendingEvents) sweepContinuations(now time.Time) {
	if now.Sub(p.lastSweep) < sweepInterval {
		return
	}
	p.lastSweep = now
	for k, r := range p.continuations {
		if r.event == nil && now.Sub(r.lastChange) >= continuationTimeout {
			delete(p.continuations, k)
		}
	}
}
