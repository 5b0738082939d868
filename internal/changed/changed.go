// Package changed records which keys changed, separately for each of several readers.
package changed

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// A Set is a set of keys, each with a Mark. It is safe for concurrent use.
type Set[K cmp.Ordered] struct {
	readers int
	mu      sync.Mutex
	marks   map[K]*Mark
	changed []map[K]*Mark // for each reader, the keys that changed, with their marks
}

// A Mark records for each reader whether its key changed.
type Mark struct {
	changed []atomic.Bool    // by reader
	record  func(reader int) // adds the key to Set.changed
}

// New returns a set for readers that are numbered from 0.
func New[K cmp.Ordered](readers int) *Set[K] {
	s := &Set[K]{readers: readers, marks: make(map[K]*Mark)}
	for range readers {
		s.changed = append(s.changed, make(map[K]*Mark))
	}
	return s
}

// Add adds a key, records it as changed for all readers, and returns its mark. An earlier mark of the key
// loses its effect.
func (s *Set[K]) Add(key K) *Mark {
	s.Remove(key)
	m := &Mark{changed: make([]atomic.Bool, s.readers)}
	m.record = func(reader int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.marks[key] == m {
			s.changed[reader][key] = m
		}
	}

	s.mu.Lock()
	s.marks[key] = m
	s.mu.Unlock()
	m.MarkChanged()

	return m
}

// Remove removes a key. Its mark loses its effect.
func (s *Set[K]) Remove(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.marks, key)
	for _, changed := range s.changed {
		delete(changed, key)
	}
}

// MarkChanged records that the key changed, for all readers. It takes no lock if this is recorded already.
func (m *Mark) MarkChanged() {
	for reader := range m.changed {
		if !m.changed[reader].Load() && !m.changed[reader].Swap(true) {
			m.record(reader)
		}
	}
}

// MarkChanged records that keys changed. Keys that are not in the set are skipped.
func (s *Set[K]) MarkChanged(keys ...K) {
	for _, key := range keys {
		s.mu.Lock()
		m := s.marks[key]
		s.mu.Unlock()
		if m != nil {
			m.MarkChanged()
		}
	}
}

// Changed returns the keys that are recorded as changed for a reader, sorted.
func (s *Set[K]) Changed(reader int) []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.changed[reader]))
}

// TakeChanged returns the keys of Changed and calls ClearChanged for them. The caller must let no key change during the
// call.
func (s *Set[K]) TakeChanged(reader int) []K {
	keys := s.Changed(reader)
	s.ClearChanged(reader, keys...)
	return keys
}

// ClearChanged records that keys have not changed for a reader, so that Changed returns them again only after
// their next change. The caller must let none of them change during the call.
func (s *Set[K]) ClearChanged(reader int, keys ...K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if m := s.marks[key]; m != nil {
			delete(s.changed[reader], key)
			m.changed[reader].Store(false)
		}
	}
}
