package events

import "time"

const (
	maxOpen   = 5               // times quiet: how long an event may stay open
	forget    = 3 * time.Second // of quiet, then a process counts as new
	repeatMin = 2 * time.Second // interval of the events of one that goes on
	repeatMax = time.Minute
	sweepTime = time.Second
)

// pending is what was recorded and not written. Log.mu guards it.
type pending struct {
	quiet time.Duration
	queue []*entry       // in the order of their numbers
	open  map[key]*entry // in the queue, and may still grow
	// ongoing has those that did something to a node of which an event was
	// written, held those among them that did more since.
	ongoing map[key]*ongoing
	held    map[key]*ongoing
	swept   time.Time
}

type key struct {
	view uint32
	node uint64
}

// An entry is an event in the making.
type entry struct {
	Event
	v     *view
	epoch int       // of the view; it grows only within
	last  time.Time // when it last grew
	done  bool      // it will not grow any more
}

// ongoing collects further changes of a node by a process after an event about it was written.
type ongoing struct {
	v        *view
	epoch    int
	pid      uint32
	last     time.Time
	interval time.Duration
	event    *Event // what is to be written, nil if nothing happened since
}

func newPending(quiet time.Duration) pending {
	return pending{quiet: quiet, open: map[key]*entry{}, ongoing: map[key]*ongoing{}, held: map[key]*ongoing{}}
}

// empty reports whether nothing waits to be written.
func (p *pending) empty() bool { return len(p.queue) == 0 && len(p.held) == 0 }

func (p *pending) add(v *view, n *entry) {
	e := &n.Event
	if e.Node == 0 {
		p.push(v, n, e.Time)
		n.done = true
		return
	}
	k := key{v.id, e.Node}
	if e.Action == Modified && p.grow(k, v, e) {
		return
	}
	p.end(k, e)
	p.push(v, n, e.Time)
	if e.Action == Modified || e.Action == Created {
		p.open[k] = n
	} else {
		n.done = true
	}
}

// grow makes a modification part of an earlier event, if there is one to take it.
func (p *pending) grow(k key, v *view, e *Event) bool {
	if o := p.open[k]; o != nil {
		if o.epoch != v.epoch || (o.PID != e.PID && o.Action != Created) {
			return false
		}
		o.last = e.Time
		o.Size = max(o.Size, e.Size)
		if e.Command != "" && e.PID == o.PID {
			o.Command = e.Command // a shell opens the file, then becomes the program
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
		p.held[k] = r
	}
	r.event.Size = max(r.event.Size, e.Size)
	return true
}

// end closes what is open about a node, because e happens to it.
func (p *pending) end(k key, e *Event) {
	was := "" // the path until now, if it is known
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
		p.release(k, r)
		delete(p.ongoing, k)
	}
}

// release queues what an ongoing process did last.
func (p *pending) release(k key, r *ongoing) {
	if r.event != nil {
		r.event.Time = r.last
		p.push(r.v, &entry{Event: *r.event, done: true}, r.last)
		r.event = nil
		delete(p.held, k)
	}
}

// push queues an event and gives it its number.
func (p *pending) push(v *view, n *entry, last time.Time) {
	v.lastSeq++
	count(&v.since, n.Action)
	n.Seq, n.v, n.epoch, n.last = v.lastSeq, v, v.epoch, last
	p.queue = append(p.queue, n)
}

// endAll ends everything that is open in a workspace.
func (p *pending) endAll(v *view) {
	for k, r := range p.held {
		if r.v == v {
			p.release(k, r)
		}
	}
	v.epoch++
}

// take removes what is due from the front of the queue, or all of it.
func (p *pending) take(now time.Time, all bool) []*entry {
	for k, r := range p.held {
		if all || now.Sub(r.last) >= forget || now.Sub(r.event.Time) >= r.interval {
			p.release(k, r)
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
			p.ongoing[k] = &ongoing{v: e.v, epoch: e.epoch, pid: e.PID, last: e.last, interval: repeatMin}
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

// sweep forgets processes that have stopped.
func (p *pending) sweep(now time.Time) {
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
