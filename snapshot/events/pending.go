package events

import "time"

const (
	maxOpen   = 5               // the longest time that an event stays open, as a multiple of quiet
	forget    = 3 * time.Second // time without changes after which a continuation ends
	repeatMin = 2 * time.Second // shortest interval of the events of a continuation
	repeatMax = time.Minute     // longest interval
	sweepTime = time.Second     // time between two sweeps
)

// pendingEvents has the events that are recorded and not yet written. Log.mu guards it.
type pendingEvents struct {
	quiet time.Duration
	queue []*entry       // sorted by number
	open  map[key]*entry // entries of queue that later changes may extend
	// ongoing has the continuations of written events. unwritten has those continuations that have an event.
	ongoing   map[key]*continuation
	unwritten map[key]*continuation
	swept     time.Time // the last sweep
}

// A key is a node of a workspace.
type key struct {
	view uint32
	node uint64
}

// An entry is a pending event.
type entry struct {
	Event
	v     *view
	epoch int       // view.epoch when the event began; a later epoch closes the event
	last  time.Time // time of the last change in the event
	done  bool      // the event is closed
}

// A continuation collects further changes of a node by a process after an event about them was
// written.
type continuation struct {
	v        *view
	epoch    int
	pid      uint32
	last     time.Time
	interval time.Duration
	event    *Event // changes since the last written event; nil without changes
}

func newPending(quiet time.Duration) pendingEvents {
	return pendingEvents{quiet: quiet, open: map[key]*entry{}, ongoing: map[key]*continuation{}, unwritten: map[key]*continuation{}}
}

// empty reports whether there are no pending events.
func (p *pendingEvents) empty() bool { return len(p.queue) == 0 && len(p.unwritten) == 0 }

// add adds an event, or extends an earlier event of the node by it.
func (p *pendingEvents) add(v *view, n *entry) {
	e := &n.Event
	if e.Node == 0 {
		p.enqueue(v, n, e.Time)
		n.done = true
		return
	}

	k := key{v.id, e.Node}
	if e.Action == Modified && p.extend(k, v, e) {
		return
	}

	p.closeOpen(k, e)
	p.enqueue(v, n, e.Time)

	if e.Action == Modified || e.Action == Created {
		p.open[k] = n
	} else {
		n.done = true
	}
}

// extend adds a modification to the open event or the continuation of the node. It returns false if there is
// neither.
func (p *pendingEvents) extend(k key, v *view, e *Event) bool {
	if o := p.open[k]; o != nil {
		if o.epoch != v.epoch || (o.PID != e.PID && o.Action != Created) {
			return false
		}
		o.last = e.Time
		o.Size = max(o.Size, e.Size)
		if e.Command != "" && e.PID == o.PID {
			o.Command = e.Command // a shell opens the file, and then executes the program
		}

		return true
	}

	r := p.ongoing[k]
	if r == nil || r.epoch != v.epoch || r.pid != e.PID || e.Time.Sub(r.last) >= forget {
		return false
	}

	r.last = e.Time
	if r.event == nil {
		r.event = e
		p.unwritten[k] = r
	}

	r.event.Size = max(r.event.Size, e.Size)

	return true
}

// closeOpen closes the open event and the continuation of a node, because e begins a new event of the node.
func (p *pendingEvents) closeOpen(k key, e *Event) {
	was := "" // the path before e, if it is known
	switch e.Action {
	case Renamed:
		was = e.From
	case Deleted:
		was = e.Path
	}

	if o := p.open[k]; o != nil {
		o.done = true
		if o.Path == "" {
			o.Path = was
		}

		delete(p.open, k)
	}

	if r := p.ongoing[k]; r != nil {
		if r.event != nil && r.event.Path == "" {
			r.event.Path = was
		}

		p.queueContinuation(k, r)
		delete(p.ongoing, k)
	}
}

// queueContinuation adds the event of a continuation to the queue.
func (p *pendingEvents) queueContinuation(k key, r *continuation) {
	if r.event != nil {
		r.event.Time = r.last
		p.enqueue(r.v, &entry{Event: *r.event, done: true}, r.last)
		r.event = nil
		delete(p.unwritten, k)
	}
}

// enqueue sets the number of an event, and adds it to the queue.
func (p *pendingEvents) enqueue(v *view, n *entry, last time.Time) {
	v.lastSeq++
	count(&v.since, n.Action)
	n.Seq, n.v, n.epoch, n.last = v.lastSeq, v, v.epoch, last
	p.queue = append(p.queue, n)
}

// closeAll closes all open events of a workspace.
func (p *pendingEvents) closeAll(v *view) {
	for k, r := range p.unwritten {
		if r.v == v {
			p.queueContinuation(k, r)
		}
	}
	v.epoch++
}

// takeDue removes the due events from the front of the queue, or all events, and returns them.
func (p *pendingEvents) takeDue(now time.Time, all bool) []*entry {
	for k, r := range p.unwritten {
		if all || now.Sub(r.last) >= forget || now.Sub(r.event.Time) >= r.interval {
			p.queueContinuation(k, r)
			r.interval = min(2*r.interval, repeatMax)
		}
	}

	n := 0
	for ; n < len(p.queue); n++ {
		e := p.queue[n]
		e.done = e.done || e.epoch != e.v.epoch
		if !e.done && !all && now.Sub(e.last) < p.quiet && now.Sub(e.Time) < maxOpen*p.quiet {
			break
		}

		k := key{e.v.id, e.Node}
		if p.open[k] == e {
			delete(p.open, k)
			p.ongoing[k] = &continuation{v: e.v, epoch: e.epoch, pid: e.PID, last: e.last, interval: repeatMin}
		}
	}

	due := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}

	p.sweep(now)

	return due
}

// sweep removes continuations without changes for the time forget.
func (p *pendingEvents) sweep(now time.Time) {
	if now.Sub(p.swept) < sweepTime {
		return
	}
	p.swept = now
	for k, r := range p.ongoing {
		if r.event == nil && now.Sub(r.last) >= forget {
			delete(p.ongoing, k)
		}
	}
}
