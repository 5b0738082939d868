package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Keys of the index begin with a byte for their type.
const (
	keyHead        = 'h' // → indexHead
	keyMark        = 'b' // hash → loc at which the object was found damaged
	keyObject      = 'o' // hash → loc
	keyPack        = 'p' // pack id → packInfo
	keyGenerations = 'g' // → hash of encodeGenerations, and the number of collections
	keyGeneration  = 'k' // number of a piece → the piece of encodeGenerations
)

// indexHead returns the value of keyHead: the version of the index, and the number of collections.
// An index whose number is smaller than the one in the manifest is an older copy.
func indexHead(collections uint64) []byte {
	return fmt.Appendf(nil, "amberfs index 5, %d", collections)
}

var errIndexValue = errors.New("malformed value in the index")

func objectKey(h Hash) []byte {
	k := make([]byte, 1+len(h))
	k[0] = keyObject
	copy(k[1:], h[:])
	return k
}

const locSize = 26

func encodeLoc(l loc) []byte {
	b := make([]byte, locSize)
	binary.LittleEndian.PutUint64(b[0:], l.pack)
	binary.LittleEndian.PutUint64(b[8:], uint64(l.off))
	binary.LittleEndian.PutUint32(b[16:], l.plainLen)
	binary.LittleEndian.PutUint32(b[20:], l.storedLen)
	b[24] = byte(l.kind)
	b[25] = l.flags
	return b
}

// decodeLoc decodes a loc. It returns false for a loc that no object can have, as in a forged index.
func decodeLoc(b []byte) (loc, bool) {
	if len(b) != locSize {
		return loc{}, false
	}
	l := loc{
		pack:      binary.LittleEndian.Uint64(b[0:]),
		off:       int64(binary.LittleEndian.Uint64(b[8:])),
		plainLen:  binary.LittleEndian.Uint32(b[16:]),
		storedLen: binary.LittleEndian.Uint32(b[20:]),
		kind:      Kind(b[24]),
		flags:     b[25],
	}

	aligned := l.off >= packHeaderSize && l.off <= maxPackSize && l.off%recordAlign == 0
	return l, aligned && checkLengths(l.kind, l.flags, l.plainLen, l.storedLen) == nil
}

// States of a pack in the index.
const (
	packNormal   = 0
	packSweeping = 1 // the pack may contain records that the index does not have: the next gc sweeps it
)

// A packInfo is the index's entry of a pack.
type packInfo struct {
	indexedEnd  int64 // the index has all records before this offset
	objects     int64 // number of objects that the index has in this pack
	plainBytes  int64 // their bytes before compression
	storedBytes int64 // their bytes in the pack, with headers and padding
	state       uint8 // packNormal or packSweeping
}

const packInfoSize = 33

func packKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyPack}, id)
}

func (i packInfo) encode() []byte {
	b := make([]byte, 0, packInfoSize)
	for _, v := range []int64{i.indexedEnd, i.objects, i.plainBytes, i.storedBytes} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return append(b, i.state)
}

func decodePackInfo(b []byte) (packInfo, bool) {
	if len(b) != packInfoSize {
		return packInfo{}, false
	}
	v := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return packInfo{indexedEnd: v(0), objects: v(1), plainBytes: v(2), storedBytes: v(3), state: b[32]}, true
}

// add adds an object to the counts.
func (i *packInfo) add(l loc) {
	i.objects++
	i.plainBytes += int64(l.plainLen)
	i.storedBytes += l.size()
}

// remove subtracts an object from the counts.
func (i *packInfo) remove(l loc) {
	i.objects--
	i.plainBytes -= int64(l.plainLen)
	i.storedBytes -= l.size()
}

// subtract subtracts the counts of o.
func (i *packInfo) subtract(o packInfo) {
	i.objects -= o.objects
	i.plainBytes -= o.plainBytes
	i.storedBytes -= o.storedBytes
}

// storedPackInfos reads the entries of all packs, by pack id.
func (x *locator) storedPackInfos() (map[uint64]packInfo, error) {
	m := map[uint64]packInfo{}
	err := x.db.Each([]byte{keyPack}, func(k, v []byte) error {
		i, ok := decodePackInfo(v)
		if !ok || len(k) != 9 {
			return x.db.MarkUnreadable(errIndexValue)
		}

		m[binary.BigEndian.Uint64(k[1:])] = i
		return nil
	})

	return m, err
}

// storedPackInfo reads the entry of a pack. If the index has no entry, it returns one that covers no records.
func (x *locator) storedPackInfo(id uint64) (packInfo, error) {
	v, ok, err := x.db.Get(packKey(id))
	if !ok {
		return packInfo{indexedEnd: packHeaderSize}, err
	}

	i, ok := decodePackInfo(v)
	if !ok {
		return packInfo{}, x.db.MarkUnreadable(errIndexValue)
	}

	return i, nil
}

// eachStoredObject calls fn with every object of the database and its place, in the order of the hashes.
func (x *locator) eachStoredObject(fn func(Hash, loc)) error {
	return x.db.Each([]byte{keyObject}, func(k, v []byte) error {
		l, ok := decodeLoc(v)
		if !ok || len(k) != 1+len(Hash{}) {
			return x.db.MarkUnreadable(errIndexValue)
		}

		fn(Hash(k[1:]), l)
		return nil
	})
}

// findStored looks an object up in the database.
func (x *locator) findStored(h Hash) (l loc, ok bool, err error) {
	v, ok, err := x.db.Get(objectKey(h))
	if !ok {
		return loc{}, false, err
	}
	if l, ok = decodeLoc(v); !ok {
		return loc{}, false, x.db.MarkUnreadable(errIndexValue)
	}

	return l, true, nil
}
