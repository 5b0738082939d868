package cas

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Keys of the index begin with one byte that says what they are.
const (
	keyHead   = 'h' // → indexHead
	keyMark   = 'b' // hash → place at which the object was found damaged
	keyObject = 'o' // hash → place
	keyPack   = 'p' // pack id → packInfo
)

// indexHead is the version of the index, and the number of collections that it has
// seen. An index that has seen another number than the manifest is an older copy.
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
	binary.LittleEndian.PutUint32(b[16:], l.plain)
	binary.LittleEndian.PutUint32(b[20:], l.stored)
	b[24] = byte(l.kind)
	b[25] = l.flags
	return b
}

// decodeLoc refuses a place where no object can lie: the index may be forged.
func decodeLoc(b []byte) (loc, bool) {
	if len(b) != locSize {
		return loc{}, false
	}
	l := loc{
		pack:   binary.LittleEndian.Uint64(b[0:]),
		off:    int64(binary.LittleEndian.Uint64(b[8:])),
		plain:  binary.LittleEndian.Uint32(b[16:]),
		stored: binary.LittleEndian.Uint32(b[20:]),
		kind:   Kind(b[24]),
		flags:  b[25],
	}
	aligned := l.off >= packHeaderSize && l.off <= maxPackSize && l.off%recordAlign == 0
	return l, aligned && checkLengths(l.kind, l.flags, l.plain, l.stored) == nil
}

// States of a pack in the index.
const (
	packNormal   = 0
	packSweeping = 1 // keys are gone, perhaps not yet the records: scan it at the next gc
)

// A packInfo is what the index knows of a pack.
type packInfo struct {
	covered int64 // the index holds the records before this offset
	objects int64 // in the index at places in this pack
	plain   int64 // their bytes before compression
	stored  int64 // their bytes in the pack, with headers
	state   uint8
}

const packInfoSize = 33

func packKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{keyPack}, id)
}

func (i packInfo) encode() []byte {
	b := make([]byte, 0, packInfoSize)
	for _, v := range []int64{i.covered, i.objects, i.plain, i.stored} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return append(b, i.state)
}

func decodePackInfo(b []byte) (packInfo, bool) {
	if len(b) != packInfoSize {
		return packInfo{}, false
	}
	v := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return packInfo{covered: v(0), objects: v(1), plain: v(2), stored: v(3), state: b[32]}, true
}

// add counts an object in, remove out.
func (i *packInfo) add(l loc) {
	i.objects++
	i.plain += int64(l.plain)
	i.stored += l.size()
}

func (i *packInfo) remove(l loc) {
	i.objects--
	i.plain -= int64(l.plain)
	i.stored -= l.size()
}

// subtract takes the figures of other objects out.
func (i *packInfo) subtract(o packInfo) {
	i.objects -= o.objects
	i.plain -= o.plain
	i.stored -= o.stored
}

// packs reads what the index knows of all packs.
func (x *database) packs() (map[uint64]packInfo, error) {
	m := map[uint64]packInfo{}
	err := x.each([]byte{keyPack}, func(k, v []byte) error {
		i, ok := decodePackInfo(v)
		if !ok || len(k) != 9 {
			return x.unreadable(errIndexValue)
		}
		m[binary.BigEndian.Uint64(k[1:])] = i
		return nil
	})
	return m, err
}

// pack reads what the index knows of a pack; of one that it does not know, that
// it covers nothing.
func (x *database) pack(id uint64) (packInfo, error) {
	v, ok, err := x.value(packKey(id))
	if !ok {
		return packInfo{covered: packHeaderSize}, err
	}
	i, ok := decodePackInfo(v)
	if !ok {
		return packInfo{}, x.unreadable(errIndexValue)
	}
	return i, nil
}

// objects calls fn with every object and its place.
func (x *database) objects(fn func(Hash, loc)) error {
	return x.each([]byte{keyObject}, func(k, v []byte) error {
		l, ok := decodeLoc(v)
		if !ok || len(k) != 1+len(Hash{}) {
			return x.unreadable(errIndexValue)
		}
		fn(Hash(k[1:]), l)
		return nil
	})
}

// A batch is a set of changes. It becomes one transaction if it fits into one,
// otherwise several in the order of the calls.
type batch struct {
	x     *database
	txn   *badger.Txn
	size  int64               // bytes of the transaction
	check func(n int64) error // runs before every transaction: is there space?
	err   error
}

// entryOverhead is what an entry takes in a log beside its key and its value, in bytes.
const entryOverhead = 24

func (x *database) batch(check func(n int64) error) *batch {
	return &batch{x: x, txn: x.db.NewTransaction(true), check: check}
}

func (b *batch) do(key, value []byte, op func() error) {
	if b.err != nil {
		return
	}
	b.err = op()
	if errors.Is(b.err, badger.ErrTxnTooBig) {
		if b.err = b.write(); b.err == nil {
			b.txn, b.size = b.x.db.NewTransaction(true), 0
			b.err = op()
		}
	}
	b.size += int64(len(key) + len(value) + entryOverhead)
}

// set stores a value; the slices belong to the batch from now on.
func (b *batch) set(key, value []byte) {
	b.do(key, value, func() error { return b.txn.Set(key, value) })
}

// delete removes a key, which belongs to the batch from now on.
func (b *batch) delete(key []byte) { b.do(key, nil, func() error { return b.txn.Delete(key) }) }

func (b *batch) write() error {
	if b.check != nil {
		if err := b.check(b.size); err != nil {
			return err
		}
	}
	if err := b.x.markUnbacked(); err != nil {
		return noSpace(err)
	}
	return b.txn.Commit()
}

// commit makes everything durable.
func (b *batch) commit() error {
	defer b.discard()
	if b.err == nil {
		b.err = b.write()
	}
	if b.err != nil {
		return fmt.Errorf("write index: %w", b.err)
	}
	return nil
}

// discard ends a batch without writing it.
func (b *batch) discard() { b.txn.Discard() }
