package events

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A script of a test: at a time in ms a program does something to a node.
type act struct {
	ms     int
	action string // "" is a capture
	node   uint64
	pid    uint32
}

func play(acts []act, every, until int) string {
	p := newPendingEvents(200 * time.Millisecond)
	v := &workspaceLog{id: 1}
	start := time.Unix(1000, 0)
	var out []string
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for ms := 0; ms <= until; ms++ {
		for _, a := range acts {
			if a.ms != ms {
				continue
			}
			if a.action == "" {
				p.closeWorkspaceEvents(v)
				p.add(v, &pendingEvent{Event: Event{Action: Captured, Time: at(ms)}})
				continue
			}
			p.add(v, &pendingEvent{Event: Event{Action: a.action, Node: a.node, PID: a.pid, Time: at(ms)}})
		}
		if ms%every == 0 {
			for _, e := range p.takeDueEvents(at(ms), false) {
				out = append(out, fmt.Sprintf("%d:%d %s %d", ms, e.Seq, e.Action, e.Node))
			}
		}
	}
	return strings.Join(out, ", ")
}

func TestCoalescing(t *testing.T) {
	writes := func(from, to, step int, pid uint32) []act {
		var as []act
		for ms := from; ms <= to; ms += step {
			as = append(as, act{ms, Modified, 7, pid})
		}
		return as
	}
	for name, c := range map[string]struct {
		acts []act
		want string
	}{
		"writes after the creation belong to it": {
			append([]act{{1, Created, 7, 5}}, writes(2, 50, 1, 5)...), "300:1 created 7",
		},
		"a thousand writes": {
			writes(1, 400, 1, 5), "600:1 modified 7",
		},
		"two processes": {
			[]act{{1, Modified, 7, 5}, {2, Modified, 7, 6}, {3, Modified, 7, 6}}, "100:1 modified 7, 300:2 modified 7",
		},
		"the order is that of the beginnings": {
			append(writes(1, 400, 10, 5), act{20, Created, 8, 6}, act{30, Deleted, 9, 6}), "600:1 modified 7, 600:2 created 8, 600:3 deleted 9",
		},
		"nobody waits for one who never stops": {
			append(writes(1, 1400, 10, 5), act{20, Deleted, 9, 6}), "1100:1 modified 7, 1100:2 deleted 9, 3200:3 modified 7",
		},
		"written, renamed, written, deleted": {
			[]act{{1, Modified, 7, 5}, {2, Renamed, 7, 5}, {3, Modified, 7, 5}, {4, Deleted, 7, 5}},
			"100:1 modified 7, 100:2 renamed 7, 100:3 modified 7, 100:4 deleted 7",
		},
		"a capture divides": {
			[]act{{1, Created, 7, 5}, {2, Modified, 7, 5}, {3, "", 0, 0}, {4, Modified, 7, 5}},
			"100:1 created 7, 100:2 captured 0, 300:3 modified 7",
		},
		"a capture ends what is going on": {
			append(append(writes(1, 1500, 100, 5), act{1550, "", 0, 0}), writes(1600, 1700, 50, 5)...),
			"1100:1 modified 7, 1600:2 modified 7, 1600:3 captured 0, 1900:4 modified 7",
		},
		"what was left alone is new": {
			[]act{{1, Modified, 7, 5}, {3500, Modified, 7, 5}}, "300:1 modified 7, 3700:2 modified 7",
		},
		"one who goes on for long is reported at growing intervals": {
			writes(1, 15500, 300, 5),
			"300:1 modified 7, 2400:2 modified 7, 6500:3 modified 7, 14700:4 modified 7, 18400:5 modified 7",
		},
	} {
		if got := play(c.acts, 100, 20000); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestNothingIsKeptForEver(t *testing.T) {
	p := newPendingEvents(200 * time.Millisecond)
	v := &workspaceLog{id: 1}
	now := time.Unix(1000, 0)
	for i := range 100 {
		p.add(v, &pendingEvent{Event: Event{Action: Modified, Node: uint64(i + 1), PID: 5, Time: now}})
	}
	p.takeDueEvents(now.Add(time.Second), false)
	p.takeDueEvents(now.Add(10*time.Second), false)
	if len(p.openEvents)+len(p.continuations)+len(p.unwritten)+len(p.queue) != 0 {
		t.Fatalf("%d, %d, %d, %d entries are left", len(p.openEvents), len(p.continuations), len(p.unwritten), len(p.queue))
	}
}
