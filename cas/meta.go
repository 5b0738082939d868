package cas

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas/manifest"
	"github.com/amberfs/amberfs/internal/errs"
)

// Keys of the store's own metadata. Those of callers do not begin with a zero byte.
const (
	keyDurable     = "\x00durable"     // the place up to which all objects are on disk
	keyCollections = "\x00collections" // how many collections have removed something
)

// Commit makes everything that was put before the call durable, and then ops,
// all of them or, if the power fails meanwhile, none. Metadata is never durable
// before the objects. GetMeta and ScanMeta see it when Commit returns.
//
// Errors: ErrNoSpace (nothing of ops happened); errs.ReadOnly; errs.Closed; an error
// of the disk. If the disk fails to sync, all later writes fail until the store
// is opened again, for it is unknown then what is on disk.
func (s *Store) Commit(ops ...MetaOp) error {
	for _, op := range ops {
		if err := checkMeta(op); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	if s.o.NoCommit {
		return errs.ReadOnly
	}
	if err := s.begin(true); err != nil {
		return err
	}
	defer s.life.RUnlock()
	if err := s.commit(ops); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	// The commit is done. If the index could not be written, the next flush reports it.
	if err := s.index.flushFull(); err != nil {
		s.log.Warn("cannot write the index", "err", err)
	}
	return nil
}

func checkMeta(op MetaOp) error {
	if op.Key == "" || op.Key[0] == 0 || len(op.Key) > manifest.MaxKey {
		return fmt.Errorf("metadata key %q: want 1 to %d bytes, the first not zero", op.Key, manifest.MaxKey)
	}
	if len(op.Value) > manifest.MaxValue {
		return fmt.Errorf("value of %q: %d bytes are more than the %d allowed", op.Key, len(op.Value), manifest.MaxValue)
	}
	return nil
}

func (s *Store) commit(ops []MetaOp) error {
	s.commits.Lock()
	defer s.commits.Unlock()
	if err := s.packs.sync(); err != nil || len(ops) == 0 {
		return err
	}
	ops = append(ops[:len(ops):len(ops)], MetaOp{Key: keyDurable, Value: s.packs.synced().encode()})
	err := s.manifest.Commit(ops...)
	if errors.Is(errs.Full(err), ErrNoSpace) && !errors.Is(err, errs.Failed) { // of a quota, perhaps
		s.space.release()
		err = s.manifest.Commit(ops...)
	}
	if errors.Is(err, errs.Failed) {
		return s.failed.set(err)
	}
	return errs.Full(err)
}

// synced is the place up to which all objects are on disk.
func (ps *packSet) synced() (at place) {
	packs := ps.all()
	ps.figures.Lock()
	defer ps.figures.Unlock()
	for _, p := range packs {
		at = place{p.id, p.synced}
		if p.synced < p.end {
			break
		}
	}
	return at
}

func (p place) encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, p.pack)
	return binary.LittleEndian.AppendUint64(b, uint64(p.off))
}

// durable is the place up to which all objects are on disk, by what was committed
// last.
func durable(m *manifest.Manifest) place {
	b, _ := m.Get(keyDurable)
	if len(b) != 16 {
		return place{}
	}
	return place{binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:]))}
}

// collections is how many collections have removed something.
func collections(m *manifest.Manifest) uint64 {
	b, _ := m.Get(keyCollections)
	if len(b) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// GetMeta returns a copy of the value that the last Commit gave the key, or
// ErrNotFound.
func (s *Store) GetMeta(key string) ([]byte, error) {
	if err := s.begin(false); err != nil {
		return nil, err
	}
	defer s.life.RUnlock()
	v, ok := s.manifest.Get(key)
	if !ok {
		return nil, fmt.Errorf("get metadata %q: %w", key, ErrNotFound)
	}
	return v, nil
}

// ScanMeta calls fn for every key that begins with prefix, in the order of the
// keys, until fn returns an error, which ScanMeta returns. fn may call the
// store, and must not change the value. Changes made meanwhile are not seen.
func (s *Store) ScanMeta(prefix string, fn func(key string, value []byte) error) error {
	if err := s.begin(false); err != nil {
		return err
	}
	defer s.life.RUnlock()
	return s.manifest.Scan(prefix, func(key string, value []byte) error {
		if key[0] == 0 {
			return nil
		}
		return fn(key, value)
	})
}
