package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// A metaEntry is the newest that is known of a metadata key.
type metaEntry struct {
	seq     uint64 // of the commit
	value   []byte
	length  int // of the value, also where the value was not asked for
	deleted bool
}

// keyGC is the metadata key that counts destructive collections. Callers cannot
// use keys that begin with a zero byte.
const keyGC = "\x00gc"

// keyParts is no key, but tells of how many parts the batch has besides.
const keyParts = "\x00parts"

// A metaBatch is the body of a metadata record.
type metaBatch struct {
	// Objects in packs of lower number, and in this pack before this offset,
	// were durable when the record was written.
	durablePack uint64
	durableOff  int64
	entries     []metaItem
	parts       int // records right before that belong to it
}

type metaItem struct {
	key string
	metaEntry
}

// after tells whether m says of more than o that it was durable.
func (m *metaBatch) after(o *metaBatch) bool {
	return m.durablePack > o.durablePack || m.durablePack == o.durablePack && m.durableOff > o.durableOff
}

func (m *metaBatch) encode() []byte {
	entries := m.entries
	if m.parts > 0 {
		count := binary.AppendUvarint(nil, uint64(m.parts))
		entries = append(slices.Clip(entries), metaItem{keyParts, metaEntry{value: count}})
	}
	b := binary.LittleEndian.AppendUint64(nil, m.durablePack)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.durableOff))
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		deleted := byte(0)
		if e.deleted {
			deleted = 1
		}
		b = append(b, deleted)
		b = binary.AppendUvarint(b, e.seq)
		b = binary.AppendUvarint(b, uint64(len(e.key)))
		b = append(b, e.key...)
		b = binary.AppendUvarint(b, uint64(len(e.value)))
		b = append(b, e.value...)
	}
	return b
}

var errMetaBatch = errors.New("malformed metadata record")

// decodeMetaBatch reads what encode wrote and refuses everything else.
func decodeMetaBatch(b []byte) (*metaBatch, error) {
	if len(b) < 16 {
		return nil, errMetaBatch
	}
	m := &metaBatch{durablePack: binary.LittleEndian.Uint64(b), durableOff: int64(binary.LittleEndian.Uint64(b[8:]))}
	b = b[16:]
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	bytes := func(limit uint64) []byte {
		n := number()
		if bad || n > limit || n > uint64(len(b)) {
			bad = true
			return nil
		}
		v := b[:n:n]
		b = b[n:]
		return v
	}
	count := number()
	for ; count > 0 && !bad; count-- {
		if len(b) == 0 || b[0] > 1 {
			return nil, errMetaBatch
		}
		e := metaItem{}
		e.deleted = b[0] == 1
		b = b[1:]
		e.seq = number()
		e.key = string(bytes(MaxMetaKey))
		e.value = slices.Clone(bytes(MaxMetaValue))
		e.length = len(e.value)
		if e.key == "" {
			bad = true
		}
		if e.key != keyParts {
			m.entries = append(m.entries, e)
			continue
		}
		parts, n := binary.Uvarint(e.value)
		if bad = bad || n != len(e.value) || parts == 0 || parts > math.MaxInt32; !bad {
			m.parts = int(parts)
		}
	}
	if bad || len(b) > 0 {
		return nil, errMetaBatch
	}
	return m, nil
}

func checkMetaKey(key string) error {
	if key == "" || key[0] == 0 || len(key) > MaxMetaKey {
		return fmt.Errorf("metadata key %q: want 1 to %d bytes, the first not zero", key, MaxMetaKey)
	}
	return nil
}

// GetMeta returns a copy of the value that the last Commit gave the key, or
// ErrNotFound.
func (s *Store) GetMeta(key string) ([]byte, error) {
	if err := s.begin(false); err != nil {
		return nil, err
	}
	defer s.life.done()
	e, ok, err := s.metaNow(key)
	if err != nil {
		return nil, fmt.Errorf("get metadata %q: %w", key, err)
	}
	if !ok {
		return nil, fmt.Errorf("get metadata %q: %w", key, ErrNotFound)
	}
	return slices.Clone(e.value), nil
}

func (s *Store) metaNow(key string) (metaEntry, bool, error) {
	s.mu.Lock()
	e, ok := s.fresh.metas[key]
	if !ok && s.flushing != nil {
		e, ok = s.flushing.metas[key]
	}
	s.mu.Unlock()
	if ok {
		return e, !e.deleted, nil
	}
	return s.ix.meta(key, true)
}

// ScanMeta calls fn for every key that begins with prefix, in the order of the
// keys, until fn returns an error, which ScanMeta returns. fn may call the
// store. Changes made meanwhile may or may not be seen.
func (s *Store) ScanMeta(prefix string, fn func(key string, value []byte) error) error {
	if err := s.begin(false); err != nil {
		return err
	}
	defer s.life.done()
	return s.scanMeta(prefix, func(key string, e metaEntry) error {
		if key[0] == 0 {
			return nil
		}
		return fn(key, e.value)
	})
}

func (s *Store) scanMeta(prefix string, fn func(key string, e metaEntry) error) error {
	over := map[string]metaEntry{}
	s.mu.Lock()
	if s.flushing != nil {
		maps.Copy(over, s.flushing.metas)
	}
	maps.Copy(over, s.fresh.metas)
	s.mu.Unlock()
	var keys []string
	for k := range over {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	// emit passes on what the overlay has before a key.
	emit := func(before string, all bool) error {
		for len(keys) > 0 && (all || keys[0] < before) {
			k := keys[0]
			keys = keys[1:]
			if e := over[k]; !e.deleted {
				e.value = slices.Clone(e.value)
				if err := fn(k, e); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := s.ix.view(func(t *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix = metaKey(prefix)
		o.PrefetchValues = false
		it := t.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := string(it.Item().Key()[1:])
			if err := emit(key, false); err != nil {
				return err
			}
			if _, ok := over[key]; ok {
				continue // emit passes on the newer value
			}
			var e metaEntry
			err := it.Item().Value(func(v []byte) (err error) {
				e, err = readMeta(t, key, v, true)
				return err
			})
			if err != nil {
				return fmt.Errorf("metadata %q: %w", key, s.ix.unreadable(err))
			}
			if err := fn(key, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return emit("", true)
}
