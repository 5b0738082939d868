package cas

import (
	"bytes"
	"context"
	"fmt"
)

// EachRecord calls fn with every intact record of the packs. For an object, h is its hash and b its
// uncompressed bytes. A free record is passed in pieces, without the pieces that are all zero: h is then the
// zero Hash. place names the pack and the offset of the record, for messages. EachRecord may also pass objects
// that are not in the index. fn must not keep b.
func (s *Store) EachRecord(ctx context.Context, fn func(place string, h Hash, b []byte) error) error {
	if err := s.beginCall(false); err != nil {
		return err
	}
	defer s.lifeMu.RUnlock()

	if err := s.gc.acquire(ctx, s.gc.runLock); err != nil {
		return err
	}
	defer s.gc.runLock.Release(1)

	for _, p := range s.packs.all() {
		if err := s.eachRecordOf(ctx, p, fn); err != nil {
			return fmt.Errorf("read pack %s: %w", p.name(), err)
		}
	}

	return nil
}

func (s *Store) eachRecordOf(ctx context.Context, p *pack, fn func(place string, h Hash, b []byte) error) error {
	f, err := s.packs.acquireFile(p)
	if err != nil {
		return err
	}
	defer s.packs.releaseFile(p)

	s.index.mu.Lock()
	end := p.end
	s.index.mu.Unlock()

	var plain, free []byte
	sc := &scan{r: f, id: p.id, start: packHeaderSize, end: end, readBodies: true}
	return sc.run(ctx, func(it *item) error {
		place := fmt.Sprintf("pack %s at %d", p.name(), it.off)
		if it.damage != "" {
			return nil // damage is skipped here, because Verify reports it
		}
		if it.isObject() {
			if plain, err = s.codec.expand(it.flags, it.plainLen, it.body(), plain[:0]); err != nil {
				return nil
			}
			return fn(place, it.hash, plain)
		}

		for off := it.off + headerSize; off < it.off+it.length; off += int64(len(free)) {
			n := min(scanBytes, it.off+it.length-off)
			free = append(free[:0], make([]byte, n)...)
			if m, err := readUpTo(f, free, off); err != nil {
				return err
			} else if free = free[:m]; m == 0 {
				return nil
			}
			if len(bytes.Trim(free, "\x00")) > 0 {
				if err := fn(place, Hash{}, free); err != nil {
					return err
				}
			}
		}

		return nil
	})
}
