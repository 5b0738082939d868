package events

import "time"

const (
	maxOpen    = 5               // times quiet: how long an event may stay open
	forget     = 3 * time.Second // of quiet, then a process counts as new
	repeatMin  = 2 * time.Second // interval of events of one that goes on
	repeatMax  = time.Minute
	repeatIdle = time.Second // of quiet, then it has stopped
)

// pending is what was recorded and not written. Log.mu guards it.
type pending struct {
	quiet  time.Duration
	queue  []*entry         // in the order of their numbers
	open   map[key]*entry   // in the queue, and may still grow
	repeat map[key]*ongoing // by a process that goes on after its event was written
}

type key struct {
	view uint32
	node uint64
}

// An entry is an event in the making.
type entry struct {
	Event
	v    *view
	last time.Time // when it last grew
	done bool      // it will not grow any more
}

// ongoing is what a process does to a node after an event about it was written.
type ongoing struct {
	pid      uint32
	last     time.Time
	interval time.Duration
	event    *Event // what is to be written, nil if nothing happened since
	v        *view
}

func newPending(quiet time.Duration) pending {
	return pending{quiet: quiet, open: map[key]*entry{}, repeat: map[key]*ongoing{}}
}

func (p *pending) empty() bool { return len(p.queue) == 0 && len(p.repeat) == 0 }

// add puts an event where it belongs.
func (p *pending) add(v *view, e *Event) {
	k := key{v.id, e.Node}
	if e.Node == 0 {
		p.push(v, e, e.Time).done = true
		return
	}
	if e.Action == Modified {
		if o := p.open[k]; o != nil {
			if o.PID == e.PID || o.Action == Created {
				o.grow(e)
				return
			}
		} else if r := p.repeat[k]; r != nil && r.pid == e.PID && e.Time.Sub(r.last) < forget {
			r.grow(e)
			return
		}
	}
	p.end(k, e)
	n := p.push(v, e, e.Time)
	if e.Action == Modified || e.Action == Created {
		p.open[k] = n
	} else {
		n.done = true
	}
}

// grow adds a modification to an event that is open.
func (o *entry) grow(e *Event) {
	o.last = e.Time
	if e.Command != "" && e.PID == o.PID {
		o.Command = e.Command // a shell opens the file, then becomes the program
	}
	if e.Path != "" {
		o.Path = e.Path
	}
	o.Size = max(o.Size, e.Size)
}

func (r *ongoing) grow(e *Event) {
	r.last = e.Time
	if r.event == nil {
		r.event = e
		return
	}
	r.event.Size = max(r.event.Size, e.Size)
}

// end closes what is open about a node, because e happens to it.
func (p *pending) end(k key, e *Event) {
	was := e.Path // the path until now
	if e.Action == Renamed {
		was = e.From
	}
	if o := p.open[k]; o != nil {
		o.done = true
		if o.Path == "" {
			o.Path = was
		}
		delete(p.open, k)
	}
	if r := p.repeat[k]; r != nil {
		if r.event != nil && r.event.Path == "" && e.Action != Modified {
			r.event.Path = was
		}
		p.endRepeat(k, r)
	}
}

// endRepeat queues what an ongoing process did last, and forgets the process.
func (p *pending) endRepeat(k key, r *ongoing) {
	if r.event != nil {
		p.push(r.v, r.event, r.last).done = true
	}
	delete(p.repeat, k)
}

// push queues an event and gives it its number.
func (p *pending) push(v *view, e *Event, last time.Time) *entry {
	v.lastSeq++
	e.Seq = v.lastSeq
	v.since.add(e.Action)
	n := &entry{Event: *e, v: v, last: last}
	p.queue = append(p.queue, n)
	return n
}

// barrier ends everything that is open in a workspace.
func (p *pending) barrier(v *view) {
	for k, r := range p.repeat {
		if k.view == v.id {
			p.endRepeat(k, r)
		}
	}
	for k, o := range p.open {
		if k.view == v.id {
			o.done = true
			delete(p.open, k)
		}
	}
}

// take removes what is due from the front of the queue, or all of it.
func (p *pending) take(now time.Time, all bool) []*entry {
	for k, r := range p.repeat {
		idle := now.Sub(r.last)
		switch {
		case r.event != nil && (all || idle >= repeatIdle):
			p.endRepeat(k, r)
		case r.event != nil && now.Sub(r.event.Time) >= r.interval:
			p.push(r.v, r.event, r.last).done = true
			r.event = nil
			r.interval = min(2*r.interval, repeatMax)
		case idle >= forget:
			delete(p.repeat, k)
		}
	}
	n := 0
	for ; n < len(p.queue); n++ {
		e := p.queue[n]
		if !e.done && !all && now.Sub(e.last) < p.quiet && now.Sub(e.Time) < maxOpen*p.quiet {
			break
		}
		if !e.done {
			k := key{e.v.id, e.Node}
			delete(p.open, k)
			p.repeat[k] = &ongoing{pid: e.PID, last: e.last, interval: repeatMin, v: e.v}
		}
	}
	due := p.queue[:n:n]
	p.queue = p.queue[n:]
	if len(p.queue) == 0 {
		p.queue = nil
	}
	return due
}
