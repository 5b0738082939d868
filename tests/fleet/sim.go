package main

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// What Amazon publishes for one partitioned prefix, and what a request takes.
const (
	readsPerSecond  = 5500
	writesPerSecond = 3500
	latency         = 30 * time.Millisecond
	latencySpread   = 0.4 // of the logarithm
	refusal         = 15 * time.Millisecond
)

// The client of package backend: so many tries with growing pauses, then package remote
// begins anew.
const (
	tries      = 3
	firstPause = 200 * time.Millisecond
	longPause  = time.Second
	tryAgain   = 200 * time.Millisecond
)

// A sim is a clock with what is to happen.
type sim struct {
	now    time.Duration
	events events
	rnd    *rand.Rand
	store  store
}

func newSim() *sim {
	return &sim{
		rnd:   rand.New(rand.NewPCG(1, 16)),
		store: store{reads: bucket{rate: readsPerSecond}, writes: bucket{rate: writesPerSecond}},
	}
}

type event struct {
	at time.Duration
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return x
}

func (s *sim) at(t time.Duration, do func()) { heap.Push(&s.events, event{t, do}) }

func (s *sim) after(d time.Duration, do func()) { s.at(s.now+d, do) }

// run lets happen what is to happen.
func (s *sim) run() {
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
}

// spread is any moment of a time.
func (s *sim) spread(within time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(within)))
}

// A step is requests that do not wait for each other, but for those of the step before;
// parallel bounds how many are under way, 0 is all.
type step struct{ reads, writes, parallel int }

// each takes steps one after the other.
func (s *sim) each(steps []step, done func()) {
	if len(steps) == 0 {
		done()
		return
	}
	st := steps[0]
	total := st.reads + st.writes
	begun, ended := 0, 0
	var next func()
	next = func() {
		write := begun >= st.reads
		begun++
		s.request(write, 0, func() {
			if ended++; ended == total {
				s.each(steps[1:], done)
			} else if begun < total {
				next()
			}
		})
	}
	first := total
	if st.parallel > 0 {
		first = min(first, st.parallel)
	}
	for range first {
		next()
	}
}

// request sends one, again until it is answered.
func (s *sim) request(write bool, try int, done func()) {
	if s.store.serves(write, s.now) {
		s.after(time.Duration(float64(latency)*math.Exp(s.rnd.NormFloat64()*latencySpread)), done)
		return
	}
	pause := time.Duration(s.rnd.Int64N(int64(min(firstPause<<(try%tries), longPause))))
	if try%tries == tries-1 {
		pause += tryAgain
	}
	s.after(refusal+pause, func() { s.request(write, try+1, done) })
}

// A store serves so much a second.
type store struct {
	reads, writes     bucket
	requests, refused int
}

func (s *store) serves(write bool, now time.Duration) bool {
	s.requests++
	b := &s.reads
	if write {
		b = &s.writes
	}
	if b.take(now) {
		return true
	}
	s.refused++
	return false
}

func (s *store) refusedShare() float64 { return 100 * float64(s.refused) / float64(max(s.requests, 1)) }

// A bucket holds what may be served at once: what a second brings.
type bucket struct {
	rate   float64
	tokens float64
	last   time.Duration
}

func (b *bucket) take(now time.Duration) bool {
	b.tokens = min(b.tokens+b.rate*(now-b.last).Seconds(), b.rate)
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// A tally is how long things took.
type tally struct {
	all    []time.Duration
	sorted bool
}

func (t *tally) add(d time.Duration) { t.all, t.sorted = append(t.all, d), false }

// after is how long a share of them took at most.
func (t *tally) after(share float64) string {
	if len(t.all) == 0 {
		return "–"
	}
	if !t.sorted {
		slices.Sort(t.all)
		t.sorted = true
	}
	d := t.all[int(math.Ceil(share*float64(len(t.all))))-1]
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < 10*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
