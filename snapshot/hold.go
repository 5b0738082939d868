package snapshot

import "github.com/amberfs/amberfs/snapshot/tree"

// Hold keeps what a state refers to, in packs and journal, until release is called:
// somebody reads it, and its snapshot may be deleted meanwhile.
func (s *Store) Hold(st *tree.State) (release func()) {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	if s.held.states == nil {
		s.held.states = make(map[*tree.State]int)
	}
	s.held.states[st]++
	return func() {
		s.held.mu.Lock()
		defer s.held.mu.Unlock()
		if s.held.states[st]--; s.held.states[st] == 0 {
			delete(s.held.states, st)
		}
	}
}

func (s *Store) heldStates() []*tree.State {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	var out []*tree.State
	for st := range s.held.states {
		out = append(out, st)
	}
	return out
}
