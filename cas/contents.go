package cas

import (
	"bytes"
	"context"
	"fmt"
)

// Contents calls fn with every intact record of the packs. For an object, h is its hash and b its
// uncompressed bytes. For bytes in free space that are not all zero, h is the zero Hash and b these
// bytes. at describes the place of the record. Contents may also pass objects that are not in the
// index. fn must not keep b.
func (s *Store) Contents(ctx context.Context, fn func(at string, h Hash, b []byte) error) error {
	if err := s.beginCall(false); err != nil {
		return err
	}
	defer s.life.RUnlock()

	if err := s.gc.acquire(ctx, s.gc.running); err != nil {
		return err
	}
	defer s.gc.running.Release(1)

	for _, p := range s.packs.all() {
		if err := s.packContents(ctx, p, fn); err != nil {
			return fmt.Errorf("read pack %s: %w", p.name(), err)
		}
	}

	return nil
}

func (s *Store) packContents(ctx context.Context, p *pack, fn func(at string, h Hash, b []byte) error) error {
	f, err := s.packs.acquireFile(p)
	if err != nil {
		return err
	}
	defer s.packs.releaseFile(p)

	s.index.mu.Lock()
	end := p.end
	s.index.mu.Unlock()

	var plain, free []byte
	sc := &scan{r: f, id: p.id, from: packHeaderSize, to: end, bodies: true}
	return sc.run(ctx, func(it *item) error {
		at := fmt.Sprintf("pack %s at %d", p.name(), it.off)
		if it.damage != "" {
			return nil // Verify reports it
		}
		if it.isObject() {
			if plain, err = s.codec.expand(it.flags, it.plain, it.body(), plain[:0]); err != nil {
				return nil
			}
			return fn(at, it.hash, plain)
		}

		for off := it.off + headerSize; off < it.off+it.length; off += int64(len(free)) {
			n := min(scanBytes, it.off+it.length-off)
			free = append(free[:0], make([]byte, n)...)
			if m, err := readFull(f, free, off); err != nil {
				return err
			} else if free = free[:m]; m == 0 {
				return nil
			}
			if len(bytes.Trim(free, "\x00")) > 0 {
				if err := fn(at, Hash{}, free); err != nil {
					return err
				}
			}
		}

		return nil
	})
}
