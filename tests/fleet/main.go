// Package main is the command fleet: what a thousand machines with a thousand forks each
// ask of one object store, simulated request by request.
//
//	go run ./tests/fleet
//
// The store serves as many reads and writes a second as Amazon publishes for one
// partitioned prefix (5,500 and 3,500) and answers what comes beyond with 503; it is
// never split, so this is the worst it gets. A request takes 30 ms, lognormal. How many
// requests something takes, and which of them wait for which, is what TestCost and
// TestClaims of tests/remote count with 100,000 files; how often a refused one is sent
// again is what the client of package backend does. The table is for docs/how-to/remotes.md.
package main

import (
	"fmt"
	"time"
)

const (
	nodes = 1000
	forks = 1000 // on each
)

func main() {
	fmt.Println("| | requests | refused | half are done after | 99 % | all |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, s := range []struct {
		what string
		run  func(*sim) *tally
	}{
		{"1,000 machines start from one snapshot within a minute, each for its 1,000 forks", func(s *sim) *tally { return starts(s, nodes, time.Minute) }},
		{"the same, all in one second", func(s *sim) *tally { return starts(s, nodes, time.Second) }},
		{"each of a million forks pushes every 10 minutes, all of them changed", func(s *sim) *tally { return pushes(s, nodes*forks, 10*time.Minute) }},
		{"the same, one in five changed", func(s *sim) *tally { return pushes(s, nodes*forks/5, 10*time.Minute) }},
		{"a backup by itself, of which nothing changed", func(s *sim) *tally { return pushes(s, 0, 10*time.Minute) }},
		{"a collection that reads a million refs", collection},
	} {
		sim := newSim()
		t := s.run(sim)
		sim.run()
		fmt.Printf("| %s | %d | %.1f %% | %s | %s | %s |\n", s.what, sim.store.requests, sim.store.refusedShare(),
			t.after(0.5), t.after(0.99), t.after(1))
	}
}

// starts lets clients begin one after the other within a time. Each reads the ref, then
// the hot pages; behind that the index and the tree; and 25 blocks of contents, a
// fifteenth of 200 MB in whole blocks, four at a time.
func starts(s *sim, clients int, within time.Duration) *tally {
	t := &tally{}
	for range clients {
		s.at(s.spread(within), func() {
			began := s.now
			s.each([]step{{reads: 1}, {reads: 3}, {reads: 1}, {reads: 2}, {reads: 25, parallel: 4}}, func() { t.add(s.now - began) })
		})
	}
	return t
}

// pushes lets clients push once each, at any moment of a time: the ref of the base, then
// the list of what is condemned beside the object, then the ref.
func pushes(s *sim, clients int, within time.Duration) *tally {
	t := &tally{}
	for range clients {
		s.at(s.spread(within), func() {
			began := s.now
			s.each([]step{{reads: 1}, {reads: 1, writes: 1}, {writes: 1}}, func() { t.add(s.now - began) })
		})
	}
	return t
}

// collection lists and reads all refs, 16 at a time.
func collection(s *sim) *tally {
	t := &tally{}
	refs := nodes * forks
	s.at(0, func() {
		s.each([]step{{reads: 1}, {reads: refs / 1000, parallel: 1}, {reads: refs, parallel: 16}}, func() { t.add(s.now) })
	})
	return t
}
