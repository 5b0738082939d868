package cas

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/amberfs/amberfs/internal/vfs"
)

// Get appends the object's bytes to dst[:0] and returns the result. The bytes
// are checked against the hash every time.
//
// Errors: ErrNotFound; a *Damage (errors.Is ErrDamaged) if the bytes on disk
// are not the object's; errs.Closed; an error of the disk.
func (s *Store) Get(h Hash, dst []byte) ([]byte, error) {
	err := s.withPlace(h, func(l loc) (err error) {
		dst, err = s.packs.read(s.codec, h, l, dst)
		return err
	})
	if err != nil {
		return dst[:0], err
	}
	return dst, nil
}

// A PlainPlace is the place of an object that is stored without compression.
type PlainPlace struct{ loc }

// PlainPlace returns the place of an object. It returns false if the object is compressed, or not in the store.
func (s *Store) PlainPlace(h Hash) (PlainPlace, bool) {
	if s.beginCall(false) != nil {
		return PlainPlace{}, false
	}
	defer s.lifeMu.RUnlock()

	l, ok, err := s.index.find(h)
	return PlainPlace{l}, ok && err == nil && l.flags&flagZstd == 0
}

// ReadPlain fills p with bytes of the object at a place, beginning at the offset off in the object. It
// reports whether it has filled p. It does not compare the bytes with the hash: after a gc they may be the
// bytes of another object.
func (s *Store) ReadPlain(place PlainPlace, p []byte, off int64) bool {
	if off+int64(len(p)) > int64(place.plainLen) || s.beginCall(false) != nil {
		return false
	}
	defer s.lifeMu.RUnlock()

	pack, f, err := s.packs.acquirePack(place.loc)
	if err != nil {
		return false
	}
	defer s.packs.releaseFile(pack)

	return readExactly(f, p, place.off+headerSize+off) == nil
}

// withPlace calls read with the place of an object. If read fails, withPlace looks the place up again
// and repeats read, because gc may have moved the object. If read finds damage twice at one place,
// withPlace marks the object as damaged.
func (s *Store) withPlace(h Hash, read func(l loc) error) error {
	if err := s.beginCall(false); err != nil {
		return err
	}
	defer s.lifeMu.RUnlock()

	var last loc

	for {
		l, ok, err := s.index.find(h)
		if err != nil {
			return fmt.Errorf("get object %s: %w", h, err)
		}
		if !ok {
			return fmt.Errorf("get object %s: %w", h, ErrNotFound)
		}

		err = read(l)
		switch {
		case err == nil:
			return nil
		case !l.samePlace(last):
			last = l
		case vfs.IsDamage(err):
			return s.index.reportDamage(h, l, err)
		default:
			return fmt.Errorf("get object %s: %w", h, err)
		}
	}
}

// acquirePack returns the pack of a place and its open file. The caller calls releaseFile.
func (ps *packSet) acquirePack(l loc) (*pack, vfs.File, error) {
	p := ps.get(l.pack)
	if p == nil {
		return nil, nil, errors.New("the pack is missing")
	}
	f, err := ps.acquireFile(p)
	return p, f, err
}

// read reads the object at a place into dst[:0], and compares it with its hash. It does not read the
// record's header: the index contains the same lengths, and the hash is a stronger check than the
// header's checksum.
func (ps *packSet) read(c *codec, h Hash, l loc, dst []byte) ([]byte, error) {
	p, f, err := ps.acquirePack(l)
	if err != nil {
		return nil, err
	}
	defer ps.releaseFile(p)

	if l.flags&flagZstd == 0 {
		dst = slices.Grow(dst[:0], int(l.plainLen))[:l.plainLen]
		err = readExactly(f, dst, l.off+headerSize)
	} else {
		bp := c.bufs.Get().(*[]byte)
		stored := slices.Grow((*bp)[:0], int(l.storedLen))[:l.storedLen]
		*bp = stored
		if err = readExactly(f, stored, l.off+headerSize); err == nil {
			dst, err = c.expand(l.flags, l.plainLen, stored, dst)
		}

		c.releaseBuffer(bp)
	}
	if err != nil {
		return nil, err
	}

	if Sum(dst) != h {
		return nil, errHashMismatch
	}

	return dst, nil
}

var errHashMismatch = errors.New("the bytes do not have the object's hash")

// clearMark removes the mark of an object that was read without error from the marked place.
func (x *locator) clearMark(h Hash, l loc) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b, ok := x.damageMarks[h]; ok && b.samePlace(l) {
		x.unmarkDamaged(h)
	}
}

// reportDamage marks an object as damaged and returns the error for the reader. It logs the first
// report of an object.
func (x *locator) reportDamage(h Hash, l loc, cause error) error {
	e := &Damage{Hash: h, Kind: l.kind, Pack: packName(l.pack), Offset: l.off, Length: l.size(), Reason: cause.Error()}
	x.mu.Lock()
	first := x.markDamaged(h, l)
	x.mu.Unlock()
	if !first {
		return e
	}

	x.log.Error("damage found", "object", h, "pack", e.Pack, "offset", l.off, "reason", cause)
	if err := x.saveMarks(); err != nil { // the next flush tries again
		x.log.Warn("cannot write down which object is damaged", "object", h, "err", err)
	}

	return e
}

// A StoredObject is an object in the form in which a pack stores it: compressed, if that saves space. Push
// sends this form to a remote, and an Expander turns it into the object's bytes.
type StoredObject struct {
	Kind      Kind
	Flags     uint8 // how the bytes are compressed, bit 0: FORMAT.md, "Record"
	PlainSize int   // number of uncompressed bytes
	Bytes     []byte
}

// GetStored returns an object without expanding it. It checks the record's checksum, but not the hash. It
// returns the same errors as Get.
func (s *Store) GetStored(h Hash) (rec StoredObject, err error) {
	err = s.withPlace(h, func(l loc) (err error) {
		rec, err = s.packs.readStored(h, l)
		return err
	})
	return rec, err
}

// readStored reads the record at a place and checks its checksum.
func (ps *packSet) readStored(h Hash, l loc) (StoredObject, error) {
	p, f, err := ps.acquirePack(l)
	if err != nil {
		return StoredObject{}, err
	}
	defer ps.releaseFile(p)

	raw := make([]byte, l.size())
	if err := readExactly(f, raw, l.off); err != nil {
		return StoredObject{}, err
	}

	hdr, err := decodeHeader(raw, l.pack, l.off)
	if err != nil {
		return StoredObject{}, err
	}
	if hdr.hash != h || hdr.size() != l.size() || crc32.Checksum(raw[headerSize:], crcTable) != hdr.crc {
		return StoredObject{}, errors.New("the record's checksum does not match")
	}

	return StoredObject{hdr.kind, hdr.flags, int(hdr.plainLen), raw[headerSize:][:hdr.storedLen:hdr.storedLen]}, nil
}

// An Expander expands objects that were copied from a store. It is safe for
// concurrent use.
type Expander struct{ codec *codec }

// NewExpander returns an Expander. The caller closes it.
func NewExpander() *Expander { return &Expander{newCodec()} }

// Close releases the decoder. The Expander must not be used afterwards.
func (e *Expander) Close() { e.codec.close() }

// Expand appends the plain bytes of the object h to dst[:0]. It returns ErrDamaged if rec is not that
// object.
func (e *Expander) Expand(h Hash, rec StoredObject, dst []byte) ([]byte, error) {
	plain, err := e.expand(h, rec, dst)
	if err != nil {
		return dst[:0], fmt.Errorf("object %s: %w: %w", h, ErrDamaged, err)
	}
	return plain, nil
}

func (e *Expander) expand(h Hash, rec StoredObject, dst []byte) ([]byte, error) {
	plain, err := e.ExpandUnchecked(rec, dst)
	if err != nil {
		return nil, err
	}
	if Sum(plain) != h {
		return nil, errHashMismatch
	}
	return plain, nil
}

// ExpandUnchecked appends the plain bytes of an object to dst[:0]. It does not compare them with a hash.
func (e *Expander) ExpandUnchecked(rec StoredObject, dst []byte) ([]byte, error) {
	if rec.PlainSize > MaxObject || rec.Flags&^flagZstd != 0 {
		return nil, errors.New("impossible length or compression")
	}
	return e.codec.expand(rec.Flags, uint32(rec.PlainSize), rec.Bytes, dst)
}
