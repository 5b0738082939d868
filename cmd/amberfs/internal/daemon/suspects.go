package daemon

import (
	"sync"
	"time"
)

// suspects are requests that may have crashed earlier daemons (keeper.Start). They are carried out one at a time, each
// in its turn, so that the next crash proves which of them is the cause.
type suspects struct {
	numbers map[uint64]bool // the numbers of the requests

	mu        sync.Mutex    // guards the fields below
	turn      uint64        // the request whose turn it is, 0 if none is carried out
	turnEnded chan struct{} // closed when the turn ends
}

// maxTurnWait is the time for which a suspect waits for its turn. Then the suspect is carried out without a turn,
// because the request that has the turn may be waiting for the suspect's effect.
const maxTurnWait = 5 * time.Second

func newSuspects(numbers []uint64) *suspects {
	s := &suspects{numbers: make(map[uint64]bool)}
	for _, unique := range numbers {
		s.numbers[unique] = true
	}
	return s
}

// beginTurn waits for the turn of a request, and reports whether the turn came within maxTurnWait. For requests that are
// no suspects it returns true at once.
func (s *suspects) beginTurn(unique uint64) bool {
	if !s.numbers[unique] {
		return true
	}
	late := time.NewTimer(maxTurnWait)
	defer late.Stop()

	for {
		s.mu.Lock()

		if s.turn == 0 {
			s.turn, s.turnEnded = unique, make(chan struct{})
			s.mu.Unlock()
			return true
		}

		free := s.turnEnded
		s.mu.Unlock()

		select {
		case <-free:
		case <-late.C:
			return false
		}
	}
}

// endTurn ends the turn of a request that was answered.
func (s *suspects) endTurn(unique uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == unique && s.numbers[unique] {
		s.turn = 0
		close(s.turnEnded)
	}
}
