package daemon

import (
	"sync"
	"time"
)

// suspects has requests that daemons may have died of carried out one at a time, so that the next death
// is that of one request, and not of all that wait for it.
type suspects struct {
	all map[uint64]bool

	mu   sync.Mutex
	turn uint64        // the request that is carried out, 0 if none is
	free chan struct{} // closed when it is answered
}

// turnTime is how long a suspect waits for its turn. The one that is carried out may itself wait for
// what another one does.
const turnTime = 5 * time.Second

func newSuspects(all []uint64) *suspects {
	s := &suspects{all: make(map[uint64]bool)}
	for _, unique := range all {
		s.all[unique] = true
	}
	return s
}

// begin waits for the turn of a request. It reports false if the request goes on without.
func (s *suspects) begin(unique uint64) bool {
	if !s.all[unique] {
		return true
	}
	late := time.NewTimer(turnTime)
	defer late.Stop()

	for {
		s.mu.Lock()

		if s.turn == 0 {
			s.turn, s.free = unique, make(chan struct{})
			s.mu.Unlock()
			return true
		}

		free := s.free
		s.mu.Unlock()

		select {
		case <-free:
		case <-late.C:
			return false
		}
	}
}

// answered ends the turn of a request.
func (s *suspects) answered(unique uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == unique && s.all[unique] {
		s.turn = 0
		close(s.free)
	}
}
