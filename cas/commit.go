package cas

import (
	"fmt"
	"slices"
)

// A metaLog is the end of the newest metadata pack.
type metaLog struct {
	pack *pack // nil until there is something to write
	seq  uint64

	incomplete bool     // packs lack metadata that the index has
	missing    []uint64 // packs that are not there; the index keeps them in mind until then

	copied   int64 // bytes of the copy
	uncopied int64 // bytes of records that were written since
}

// Commit makes everything that was put before the call durable, and then ops,
// all of them or, if the power fails meanwhile, none. Metadata is never durable
// before the objects. GetMeta and ScanMeta see it when Commit returns.
//
// Errors: ErrNoSpace (nothing of ops happened); ErrReadOnly; ErrClosed; an error
// of the disk. If the disk fails to sync, all later writes fail until the store
// is opened again, for nobody knows then what is on disk.
func (s *Store) Commit(ops ...MetaOp) error {
	for _, op := range ops {
		if err := checkMetaKey(op.Key); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if len(op.Value) > MaxMetaValue {
			return fmt.Errorf("commit: value of %q: %d bytes are more than the %d allowed", op.Key, len(op.Value), MaxMetaValue)
		}
	}
	if err := s.begin(true); err != nil {
		return err
	}
	defer s.life.done()
	if err := s.commit(ops); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (s *Store) commit(ops []MetaOp) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if err := s.syncObjects(); err != nil {
		return err
	}
	if len(ops) == 0 {
		return nil
	}
	m := s.durable()
	seq := s.meta.seq + 1
	for _, op := range ops {
		e := metaItem{key: op.Key, metaEntry: metaEntry{seq: seq, deleted: op.Delete}}
		if !op.Delete {
			e.value = slices.Clone(op.Value)
			e.length = len(e.value)
		}
		m.entries = append(m.entries, e)
	}
	if err := s.appendMeta(kindMeta, seq, m); err != nil {
		return err
	}
	if s.meta.uncopied >= max(metaCopyEvery, s.meta.copied) {
		s.copyMeta()
	}
	s.mu.Lock()
	full := s.overfull()
	s.mu.Unlock()
	if full {
		// The commit is done; that the index lags behind is for the next flush
		// to tell.
		if err := s.flushFull(); err != nil {
			s.log.Warn("cannot write the index", "err", err)
		}
	}
	return nil
}

// durable returns an empty batch that states up to where objects are on disk.
func (s *Store) durable() *metaBatch {
	packs := s.packs.all(roleObjects)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &metaBatch{}
	for _, p := range packs {
		m.durablePack, m.durableOff = p.id, p.synced
		if p.synced < p.end {
			break
		}
	}
	return m
}

// appendMeta makes a metadata record durable and its entries visible. commitMu
// is held.
func (s *Store) appendMeta(kind Kind, seq uint64, m *metaBatch) error {
	body := m.encode()
	if len(body) > MaxObject {
		return fmt.Errorf("%d bytes of metadata at once are more than the %d allowed", len(body), MaxObject)
	}
	if err := s.failure(); err != nil {
		return err
	}
	h, bp := s.codec.build(kind, Sum(body), body, seq, small)
	defer s.codec.release(bp)
	rec := *bp
	if err := s.space.forMeta(int64(len(rec))); err != nil {
		return err
	}
	p := s.meta.pack
	if p == nil {
		var err error
		if p, err = s.packs.create(roleMeta); err != nil {
			return noSpace(err)
		}
		s.meta.pack = p
	}
	off := p.end
	h.encode(rec, p.id, off)
	if err := s.writeRecord(p, rec, off); err != nil {
		return err
	}
	if err := s.syncPack(p, off+int64(len(rec))); err != nil {
		return err
	}
	s.meta.seq = max(s.meta.seq, seq)
	s.meta.uncopied += int64(len(rec))
	s.mu.Lock()
	defer s.mu.Unlock()
	p.end = off + int64(len(rec))
	p.info.seq = int64(s.meta.seq)
	p.dirty = true
	s.fresh.bytes += int64(len(rec))
	for _, e := range m.entries {
		s.fresh.metas[e.key] = e.metaEntry
	}
	return nil
}
