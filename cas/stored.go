package cas

import (
	"errors"
	"fmt"
	"hash/crc32"
)

// A Stored is an object as it lies in a pack: compressed, if that paid. It can be
// copied to another place that knows how to Expand it.
type Stored struct {
	Kind  Kind
	Flags uint8 // how the bytes are compressed, bit 0: FORMAT.md, "Record"
	Plain int   // bytes when expanded
	Bytes []byte
}

// Stored returns an object without expanding it. What the disk returns is compared
// with the record's checksum. Errors are those of Get.
func (s *Store) Stored(h Hash) (rec Stored, err error) {
	err = s.locate(h, func(l loc) (err error) {
		rec, err = s.readStored(h, l)
		return err
	})
	return rec, err
}

func (s *Store) readStored(h Hash, l loc) (Stored, error) {
	p := s.packs.get(l.pack)
	if p == nil {
		return Stored{}, errors.New("the pack is missing")
	}
	f, err := s.packs.use(p)
	if err != nil {
		return Stored{}, err
	}
	raw := make([]byte, l.size())
	if err := readExactly(f, raw, l.off); err != nil {
		return Stored{}, err
	}
	hdr, err := decodeHeader(raw, l.pack, l.off)
	if err != nil {
		return Stored{}, err
	}
	if hdr.hash != h || hdr.size() != l.size() || crc32.Checksum(raw[headerSize:], crcTable) != hdr.crc {
		return Stored{}, errors.New("the record's checksum does not match")
	}
	return Stored{hdr.kind, hdr.flags, int(hdr.plain), raw[headerSize:][:hdr.stored:hdr.stored]}, nil
}

// An Expander expands objects that were copied from a store. It is safe for
// concurrent use.
type Expander struct{ codec *codec }

// NewExpander returns an Expander; Close it.
func NewExpander() (*Expander, error) {
	c, err := newCodec()
	return &Expander{c}, err
}

// Close lets go of what it holds.
func (e *Expander) Close() { e.codec.close() }

// Expand appends the plain bytes of the object h to dst[:0]. Errors: ErrDamaged if
// what is stored is not that object.
func (e *Expander) Expand(h Hash, rec Stored, dst []byte) ([]byte, error) {
	plain, err := e.plain(rec, dst)
	if err == nil && Sum(plain) != h {
		err = errHash
	}
	if err != nil {
		return dst[:0], fmt.Errorf("object %s: %w: %w", h, ErrDamaged, err)
	}
	return plain, nil
}

// Hash returns the hash of an object. Errors: ErrDamaged if it does not expand.
func (e *Expander) Hash(rec Stored) (Hash, error) {
	plain, err := e.plain(rec, nil)
	if err != nil {
		return Hash{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return Sum(plain), nil
}

func (e *Expander) plain(rec Stored, dst []byte) ([]byte, error) {
	if rec.Plain > MaxObject || rec.Flags&^flagZstd != 0 {
		return nil, errors.New("impossible length or compression")
	}
	return e.codec.expand(rec.Flags, uint32(rec.Plain), rec.Bytes, dst)
}
