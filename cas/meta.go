package cas

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/cas/manifest"
	"github.com/amberfs/amberfs/internal/errs"
)

// Keys of the store's own metadata. Keys of callers do not begin with a zero byte.
const (
	keyDurable     = "\x00durable"     // see syncedPlace
	keyCollections = "\x00collections" // number of collections that have removed objects
)

// Commit makes changes of the metadata, ops, durable. Before that, it makes all objects durable that were put
// before the call. After a power cut either all of ops or none are in effect. Metadata is never durable
// before the objects. GetMeta and ScanMeta see ops when Commit returns.
//
// Errors: ErrNoSpace (then none of ops is in effect); errs.ReadOnly; errs.Closed; an error of the
// disk. After a failed sync the content of the disk is unknown, so all later writes fail until the
// store is opened again.
func (s *Store) Commit(ops ...MetaOp) error {
	for _, op := range ops {
		if err := checkMeta(op); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	if s.o.NoCommit {
		return errs.ReadOnly
	}
	if err := s.beginCall(true); err != nil {
		return err
	}
	defer s.lifeMu.RUnlock()

	if err := s.commit(ops); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	// The commit is done. If the index could not be written, the next flush reports it.
	if err := s.index.flushIfDue(); err != nil {
		s.log.Warn("cannot write the index", "err", err)
	}

	return nil
}

// checkMeta returns an error for keys and values that callers must not commit.
func checkMeta(op MetaOp) error {
	if op.Key == "" || op.Key[0] == 0 || len(op.Key) > manifest.MaxKey {
		return fmt.Errorf("metadata key %q: want 1 to %d bytes, the first not zero", op.Key, manifest.MaxKey)
	}
	if len(op.Value) > manifest.MaxValue {
		return fmt.Errorf("value of %q: %d bytes are more than the %d allowed", op.Key, len(op.Value), manifest.MaxValue)
	}
	return nil
}

// commit syncs the packs, then commits ops and the place up to which the packs are synced. It does not
// check ops.
func (s *Store) commit(ops []MetaOp) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()

	if err := s.packs.sync(); err != nil || len(ops) == 0 {
		return err
	}

	ops = append(ops[:len(ops):len(ops)], MetaOp{Key: keyDurable, Value: s.packs.syncedPlace().encode()})
	err := s.manifest.Commit(ops...)
	if errors.Is(errs.WrapNoSpace(err), ErrNoSpace) && !errors.Is(err, errs.Failed) {
		// The disk has free space, as Manifest.Commit has checked, so a quota may be used up. The
		// reserve counts for the quota, too: without it, the second attempt may succeed.
		s.space.deleteReserve()
		err = s.manifest.Commit(ops...)
	}
	if errors.Is(err, errs.Failed) {
		return s.failure.set(err)
	}

	return errs.WrapNoSpace(err)
}

// syncedPlace returns the place before which all records are on disk: in the oldest pack that is not fully
// synced, or, if all packs are, in the newest one.
func (ps *packSet) syncedPlace() (synced place) {
	packs := ps.all()
	ps.locatorMu.Lock()
	defer ps.locatorMu.Unlock()

	for _, p := range packs {
		synced = place{p.id, p.syncedEnd}
		if p.syncedEnd < p.end {
			break
		}
	}

	return synced
}

// encode returns the value of keyDurable for a place.
func (p place) encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, p.pack)
	return binary.LittleEndian.AppendUint64(b, uint64(p.off))
}

// readCommittedEnd returns the place that the last commit wrote: all records before it are on disk.
func readCommittedEnd(m *manifest.Manifest) place {
	b, _, _ := m.Get(keyDurable)
	if len(b) != 16 {
		return place{}
	}
	return place{binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:]))}
}

// collectionCount returns the number of collections that have removed objects.
func collectionCount(m *manifest.Manifest) uint64 {
	b, _, _ := m.Get(keyCollections)
	if len(b) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// GetMeta returns a copy of the last committed value of a key, or ErrNotFound.
func (s *Store) GetMeta(key string) ([]byte, error) {
	if err := s.beginCall(false); err != nil {
		return nil, err
	}
	defer s.lifeMu.RUnlock()

	v, ok, err := s.manifest.Get(key)
	if err == nil && !ok {
		return nil, fmt.Errorf("get metadata %q: %w", key, ErrNotFound)
	}

	return v, err
}

// ScanMeta calls fn for every key that begins with prefix, in the order of the keys. If fn returns an
// error, ScanMeta ends and returns it. fn may call the store, but must not change or keep value. fn does not see
// changes that are committed while ScanMeta runs.
func (s *Store) ScanMeta(prefix string, fn func(key string, value []byte) error) error {
	if err := s.beginCall(false); err != nil {
		return err
	}
	defer s.lifeMu.RUnlock()
	return s.manifest.Scan(prefix, func(key string, value []byte) error {
		if key[0] == 0 {
			return nil // the store's own
		}
		return fn(key, value)
	})
}

// FreezeMeta returns a function that does the work of ScanMeta with the present metadata, even if the metadata has
// changed when the function is called. prefix is not empty.
func (s *Store) FreezeMeta(prefix string) (scan func(fn func(key string, value []byte) error) error) {
	return s.manifest.Freeze(prefix)
}
