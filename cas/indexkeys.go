package cas

import (
	"encoding/binary"
	"errors"

	"github.com/dgraph-io/badger/v4"
	"lukechampine.com/blake3"
)

// Keys of the index begin with one byte that says what they are.
const (
	keyVersion  = 'v' // → indexVersion
	keyObject   = 'o' // hash → place
	keyPack     = 'p' // pack id → packInfo
	keyMeta     = 'm' // metadata key → sequence, length, value or nothing
	keyWritten  = 'w' // number of a transaction modulo lastWritten → that number
	keyMetaPart = 'x' // digest of the metadata key, part number → part of a long value
)

const (
	indexVersion = "amberfs index 1"
	metaPart     = 32 << 10 // bytes; longer values are split, none may be over 64 KiB
)

// lastWritten is how many of the last transactions the index knows the numbers of.
const lastWritten = 256

func writtenKey(n uint64) []byte { return []byte{keyWritten, byte(n % lastWritten)} }

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
	binary.LittleEndian.PutUint32(b[16:], l.plain)
	binary.LittleEndian.PutUint32(b[20:], l.stored)
	b[24] = byte(l.kind)
	b[25] = l.flags
	return b
}

func decodeLoc(b []byte) (loc, bool) {
	if len(b) != locSize {
		return loc{}, false
	}
	return loc{
		pack:   binary.LittleEndian.Uint64(b[0:]),
		off:    int64(binary.LittleEndian.Uint64(b[8:])),
		plain:  binary.LittleEndian.Uint32(b[16:]),
		stored: binary.LittleEndian.Uint32(b[20:]),
		kind:   Kind(b[24]),
		flags:  b[25],
	}, true
}

// States of a pack in the index.
const (
	packNormal   = 0
	packSweeping = 1 // keys are gone, perhaps not yet the records: scan it at the next gc
	packDoomed   = 2 // nothing in it is wanted: remove the file
)

// A packInfo is what the index knows of a pack.
type packInfo struct {
	covered int64 // the index holds the records before this offset
	objects int64 // in the index at places in this pack
	plain   int64 // their bytes before compression
	stored  int64 // their bytes in the pack, with headers
	quick   int64 // those of them that Quick compressed
	seq     int64 // of a metadata pack: the highest sequence number in it
	state   uint8
}

const packInfoSize = 49

func packKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyPack}, id)
}

func (i packInfo) encode() []byte {
	b := make([]byte, 0, packInfoSize)
	for _, v := range []int64{i.covered, i.objects, i.plain, i.stored, i.quick, i.seq} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return append(b, i.state)
}

func decodePackInfo(b []byte) (packInfo, bool) {
	if len(b) != packInfoSize {
		return packInfo{}, false
	}
	v := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return packInfo{covered: v(0), objects: v(1), plain: v(2), stored: v(3), quick: v(4), seq: v(5), state: b[48]}, true
}

// add counts an object in, remove out.
func (i *packInfo) add(l loc) {
	i.objects++
	i.plain += int64(l.plain)
	i.stored += l.size()
	if l.flags&flagS2 != 0 {
		i.quick += l.size()
	}
}

func (i *packInfo) remove(l loc) {
	i.objects--
	i.plain -= int64(l.plain)
	i.stored -= l.size()
	if l.flags&flagS2 != 0 {
		i.quick -= l.size()
	}
}

// loose tells whether much of a pack could be compressed better.
func (i *packInfo) loose() bool { return i.quick > i.stored/8 }

// packs reads what the index knows of all packs.
func (x *index) packs() (map[uint64]packInfo, error) {
	m := map[uint64]packInfo{}
	err := x.each([]byte{keyPack}, true, func(k, v []byte) error {
		i, ok := decodePackInfo(v)
		if !ok || len(k) != 9 {
			return errIndexValue
		}
		m[binary.BigEndian.Uint64(k[1:])] = i
		return nil
	})
	return m, err
}

// pack reads what the index knows of a pack; of one that it does not know, that
// it covers nothing.
func (x *index) pack(id uint64) (packInfo, error) {
	v, err := x.value(packKey(id))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return packInfo{covered: packHeaderSize}, nil
	}
	if err != nil {
		return packInfo{}, x.unreadable(err)
	}
	i, ok := decodePackInfo(v)
	if !ok {
		return packInfo{}, x.unreadable(errIndexValue)
	}
	return i, nil
}

func metaKey(key string) []byte { return append([]byte{keyMeta}, key...) }

func metaPartKey(key string, part int) []byte {
	sum := blake3.Sum256([]byte(key))
	k := append([]byte{keyMetaPart}, sum[:16]...)
	return binary.BigEndian.AppendUint32(k, uint32(part))
}

func metaParts(n int) int {
	if n <= metaPart {
		return 0
	}
	return (n + metaPart - 1) / metaPart
}

// setMeta stores or deletes one entry; old is the one in the index, if any.
func (b *batch) setMeta(key string, e metaEntry, old metaEntry, had bool) {
	if had {
		for i := range metaParts(old.length) {
			b.delete(metaPartKey(key, i))
		}
	}
	if e.deleted {
		if had {
			b.delete(metaKey(key))
		}
		return
	}
	v := binary.LittleEndian.AppendUint64(nil, e.seq)
	v = binary.LittleEndian.AppendUint32(v, uint32(len(e.value)))
	n := metaParts(len(e.value))
	if n == 0 {
		v = append(v, e.value...)
	}
	for i := range n {
		b.set(metaPartKey(key, i), e.value[i*metaPart:min((i+1)*metaPart, len(e.value))])
	}
	b.set(metaKey(key), v)
}

// meta finds the metadata of a key, with its value if that is wanted.
func (x *index) meta(key string, value bool) (e metaEntry, ok bool, err error) {
	err = x.view(func(t *badger.Txn) error {
		i, err := t.Get(metaKey(key))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		ok = true
		return i.Value(func(v []byte) error {
			e, err = readMeta(t, key, v, value)
			return err
		})
	})
	if err != nil {
		return metaEntry{}, false, x.unreadable(err)
	}
	return e, ok, nil
}

func readMeta(t *badger.Txn, key string, v []byte, value bool) (metaEntry, error) {
	if len(v) < 12 {
		return metaEntry{}, errIndexValue
	}
	e := metaEntry{seq: binary.LittleEndian.Uint64(v), length: int(binary.LittleEndian.Uint32(v[8:]))}
	n := metaParts(e.length)
	if !value {
		return e, nil
	}
	e.value = append(make([]byte, 0, e.length), v[12:]...)
	for i := range n {
		item, err := t.Get(metaPartKey(key, i))
		if err != nil {
			return e, err
		}
		if err := item.Value(func(p []byte) error { e.value = append(e.value, p...); return nil }); err != nil {
			return e, err
		}
	}
	if len(e.value) != e.length {
		return e, errIndexValue
	}
	return e, nil
}
