// Package changed remembers what changed since each of several readers looked.
package changed

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// A Set holds keys with a mark each. It is safe for use by several goroutines.
type Set[K cmp.Ordered] struct {
	readers int
	mu      sync.Mutex
	marks   map[K]*Mark
	changed []map[K]*Mark // by reader
}

// A Mark says for each reader whether its key changed.
type Mark struct {
	changed []atomic.Bool
	note    func(reader int)
}

// New returns a set for readers that are numbered from 0.
func New[K cmp.Ordered](readers int) *Set[K] {
	s := &Set[K]{readers: readers, marks: make(map[K]*Mark)}
	for range readers {
		s.changed = append(s.changed, make(map[K]*Mark))
	}
	return s
}

// Add returns the mark of a new key, which counts as changed.
func (s *Set[K]) Add(key K) *Mark {
	s.Remove(key)
	m := &Mark{changed: make([]atomic.Bool, s.readers)}
	m.note = func(reader int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.marks[key] == m {
			s.changed[reader][key] = m
		}
	}
	s.mu.Lock()
	s.marks[key] = m
	s.mu.Unlock()
	m.Change()
	return m
}

// Remove forgets a key. Its mark has no effect any more.
func (s *Set[K]) Remove(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.marks, key)
	for _, changed := range s.changed {
		delete(changed, key)
	}
}

// Change notes that a key changed, for all readers.
func (m *Mark) Change() {
	for reader := range m.changed {
		if !m.changed[reader].Load() && !m.changed[reader].Swap(true) {
			m.note(reader)
		}
	}
}

// Change notes that keys changed. Those that are not in the set are skipped.
func (s *Set[K]) Change(keys ...K) {
	for _, key := range keys {
		s.mu.Lock()
		m := s.marks[key]
		s.mu.Unlock()
		if m != nil {
			m.Change()
		}
	}
}

// For returns the keys that changed for a reader, in order.
func (s *Set[K]) For(reader int) (keys []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.changed[reader] {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Take returns the keys that changed for a reader since it took them last, in order. No key
// may change meanwhile.
func (s *Set[K]) Take(reader int) []K {
	keys := s.For(reader)
	s.Unchanged(reader, keys...)
	return keys
}

// Unchanged notes that a reader needs keys only once they change again. None may change
// meanwhile.
func (s *Set[K]) Unchanged(reader int, keys ...K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if m := s.marks[key]; m != nil {
			delete(s.changed[reader], key)
			m.changed[reader].Store(false)
		}
	}
}
