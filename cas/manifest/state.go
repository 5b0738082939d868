package manifest

import (
	"maps"
	"slices"
	"strings"
)

// A state contains the current entries.
type state struct {
	base    *base             // nil: changed has all entries
	changed map[string][]byte // by key: the value since base, nil for a key that was deleted
	count   int               // number of entries
	bytes   int64             // bytes of all keys and values
	seq     uint64            // sequence number of the last commit
}

// get returns the value of a key.
func (s *state) get(key string) (value []byte, ok bool, err error) {
	if v, changed := s.changed[key]; changed {
		return v, v != nil, nil
	}
	return s.base.get(key)
}

// apply sets or deletes an entry.
func (s *state) apply(op Op) error {
	count, bytes, err := s.growth(op)
	if err != nil {
		return err
	}

	s.count += count
	s.bytes += bytes
	switch {
	case !op.Delete && op.Value == nil:
		s.changed[op.Key] = []byte{}
	case !op.Delete:
		s.changed[op.Key] = op.Value
	case s.base != nil:
		s.changed[op.Key] = nil
	default:
		delete(s.changed, op.Key)
	}

	return nil
}

// growth returns the numbers of entries and of their bytes that an op adds. They may be negative.
func (s *state) growth(op Op) (count int, bytes int64, err error) {
	old, exists, err := s.get(op.Key)
	if err == nil && exists {
		count, bytes = -1, -int64(len(op.Key)+len(old))
	}
	if !op.Delete {
		count, bytes = count+1, bytes+int64(len(op.Key)+len(op.Value))
	}

	return count, bytes, err
}

// fits reports whether the limits allow the given number of additional entries, whose keys and values
// have the given number of bytes.
func (s *state) fits(entries int, bytes int64) bool {
	return s.count+entries <= maxEntries && s.bytes+bytes <= maxBytes
}

// frozen returns the entries whose keys begin with prefix, as a state that later changes do not affect.
func (s *state) frozen(prefix string) *state {
	f := &state{base: s.base, changed: make(map[string][]byte)}
	for k, v := range s.changed {
		if strings.HasPrefix(k, prefix) {
			f.changed[k] = v
		}
	}
	return f
}

// each calls fn for the entries whose keys begin with prefix, in the order of the keys. changed has no
// keys with another prefix. fn must not keep value.
func (s *state) each(prefix string, fn func(key string, value []byte) error) error {
	next := slices.Sorted(maps.Keys(s.changed))
	// callUpTo calls fn for the changed entries before key, or for all that are left.
	callUpTo := func(key string, all bool) error {
		for ; len(next) > 0 && (all || next[0] < key); next = next[1:] {
			if v := s.changed[next[0]]; v != nil {
				if err := fn(next[0], v); err != nil {
					return err
				}
			}
		}
		return nil
	}

	if err := s.base.each(prefix, func(key string, value []byte) error {
		if err := callUpTo(key, false); err != nil {
			return err
		}
		if _, changed := s.changed[key]; changed {
			return nil
		}
		return fn(key, value)
	}); err != nil {
		return err
	}

	return callUpTo("", true)
}
