package cas

import (
	"errors"
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
	if s.copyDue(false) {
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

// appendMeta makes a batch of metadata durable and its entries visible. commitMu is
// held.
func (s *Store) appendMeta(kind Kind, seq uint64, m *metaBatch) error {
	if err := s.failure(); err != nil {
		return err
	}
	p := s.meta.pack
	if p == nil {
		if err := s.space.forMeta(packHeaderSize); err != nil {
			return err
		}
		var err error
		if p, err = s.packs.create(roleMeta); err != nil {
			return noSpace(err)
		}
		s.meta.pack = p
	}
	end, err := s.writeBatch(p, kind, seq, m)
	if err != nil {
		return err
	}
	s.meta.seq = max(s.meta.seq, seq)
	s.meta.uncopied += end - p.end
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh.bytes += end - p.end
	p.end = end
	p.info.seq = int64(s.meta.seq)
	p.dirty = true
	for _, e := range m.entries {
		s.fresh.metas[e.key] = e.metaEntry
	}
	return nil
}

// writeBatch writes the records of a batch to the end of a pack, and returns where
// they end. The last one is written when the others are durable, so that it never is
// without them. If anything fails, the pack is as it was.
func (s *Store) writeBatch(p *pack, kind Kind, seq uint64, m *metaBatch) (end int64, err error) {
	end = p.end
	parts := m.split(s.o.metaRecord)
	defer func() {
		if err != nil && end > p.end {
			err = s.cutBack(p, err)
		}
	}()
	for i, part := range parts {
		k := kindPart
		if i == len(parts)-1 {
			k = kind
		}
		if i > 0 && k == kind {
			if err := s.syncPack(p, p.end); err != nil {
				return end, err
			}
		}
		n, err := s.writeMeta(p, end, k, seq, part)
		if err != nil {
			return end, err
		}
		end += n
	}
	return end, s.syncPack(p, end)
}

// writeMeta writes one record and returns its length.
func (s *Store) writeMeta(p *pack, off int64, kind Kind, seq uint64, m *metaBatch) (int64, error) {
	body := m.encode()
	if len(body) > MaxObject {
		return 0, fmt.Errorf("%d bytes of metadata at once are more than the %d allowed", len(body), MaxObject)
	}
	h, bp := s.codec.build(kind, Sum(body), body, seq, small)
	defer s.codec.release(bp)
	rec := *bp
	if err := s.space.forMeta(int64(len(rec))); err != nil {
		return 0, err
	}
	h.encode(rec, p.id, off)
	return int64(len(rec)), s.writeRecord(p, rec, off)
}

// cutBack takes away what a batch that failed has written.
func (s *Store) cutBack(p *pack, cause error) error {
	f, err := s.packs.use(p)
	if err == nil {
		defer s.packs.done(p)
		err = f.Truncate(p.end)
	}
	if err != nil {
		return s.fail(errors.Join(cause, err))
	}
	return cause
}
