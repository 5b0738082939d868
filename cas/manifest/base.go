package manifest

import (
	"bytes"
	"encoding/binary"
	"io"
	"sort"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/errs"
)

const (
	// blockSize is the number of bytes of entries after which a block of a base ends.
	blockSize = 128 << 10
	// maxBlockSize is the largest size in bytes of an expanded block.
	maxBlockSize = blockSize + MaxKey + MaxValue + 64
	// maxCachedBlocks is the number of expanded blocks that a base keeps.
	maxCachedBlocks = 8

	directoryMagic = 0x184D2A5A // the magic number of a frame that zstd decoders skip
	directoryEnd   = "amDX"     // the last bytes of a directory, after its length
)

// A base has the entries of the first record of a log. They stay compressed in memory, because few of
// them are read while a store is open. A base does not change.
type base struct {
	head   []byte // a zstd frame with the number of entries, which begins the body of the record
	blocks []block
	tail   []byte // a frame with the directory, which ends the body
	count  int
	bytes  int64 // of all keys and values

	mu     sync.Mutex                // guards cached
	cached map[int]map[string][]byte // entries of expanded blocks, by index of the block; at most maxCachedBlocks blocks
}

// A block is a zstd frame with entries that have neighbouring keys.
type block struct {
	first string // the first key
	count int
	bytes int64 // of the keys and values
	data  []byte
}

// blockDecoder expands blocks.
var blockDecoder = sync.OnceValue(func() *zstd.Decoder {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBlockSize))
	if err != nil {
		panic(err) // the options are wrong
	}
	return dec
})

// newBase returns the base with all entries of a state.
func newBase(enc *zstd.Encoder, s *state) (*base, error) {
	b := &base{head: enc.EncodeAll(binary.AppendUvarint(nil, uint64(s.count)), nil), count: s.count, bytes: s.bytes}
	var plain, frame []byte
	var next block
	var size int

	end := func() {
		frame = enc.EncodeAll(plain, frame[:0])
		next.data = bytes.Clone(frame)
		size += len(frame)
		b.blocks = append(b.blocks, next)
		plain, next = plain[:0], block{}
	}

	err := s.each("", func(key string, value []byte) error {
		if next.count == 0 {
			next.first = strings.Clone(key)
		}
		plain = append(appendOp(plain, Op{Key: key, Value: value}), value...)
		next.count++
		next.bytes += int64(len(key) + len(value))
		if len(plain) >= blockSize {
			end()
		}
		if size > maxBodySize {
			return errTooMuch
		}
		return nil
	})
	if next.count > 0 {
		end()
	}

	b.tail = encodeDirectory(b.blocks)

	return b, err
}

// write writes the body.
func (b *base) write(w io.Writer) error {
	_, err := w.Write(b.head)
	for i := 0; i < len(b.blocks) && err == nil; i++ {
		_, err = w.Write(b.blocks[i].data)
	}
	if err == nil {
		_, err = w.Write(b.tail)
	}

	return err
}

// encodeDirectory returns the frame with the directory of blocks.
func encodeDirectory(blocks []block) []byte {
	dir := binary.AppendUvarint(nil, uint64(len(blocks)))
	for _, k := range blocks {
		for _, n := range []int{len(k.data), k.count, int(k.bytes), len(k.first)} {
			dir = binary.AppendUvarint(dir, uint64(n))
		}
		dir = append(dir, k.first...)
	}

	dir = append(binary.LittleEndian.AppendUint32(dir, uint32(len(dir))), directoryEnd...)
	frame := binary.LittleEndian.AppendUint32(nil, directoryMagic)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(dir)))
	return append(frame, dir...)
}

// readBase returns the base that is encoded in body. It returns nil for a body that has no directory, because
// an earlier version wrote it.
func readBase(body []byte) *base {
	const frame, trailer = 8, 4 + len(directoryEnd)
	rest := len(body) - trailer
	if rest < frame || string(body[rest+4:]) != directoryEnd {
		return nil
	}

	n := int(binary.LittleEndian.Uint32(body[rest:]))
	begin := rest - n
	if n > rest-frame || binary.LittleEndian.Uint32(body[begin-frame:]) != directoryMagic || int(binary.LittleEndian.Uint32(body[begin-4:])) != n+trailer {
		return nil
	}

	b := &base{tail: body[begin-frame:]}
	dir := &fieldReader{b: body[begin:rest]}
	var lengths []int
	for range dir.number(n) {
		lengths = append(lengths, dir.number(maxBodySize))
		k := block{count: dir.number(maxBlockSize), bytes: int64(dir.number(maxBlockSize))}
		k.first = string(dir.field(MaxKey))
		b.blocks = append(b.blocks, k)
		b.count += k.count
		b.bytes += k.bytes
	}

	end := begin - frame // end of the block b.blocks[i]
	for i := len(b.blocks) - 1; i >= 0; i-- {
		k := &b.blocks[i]
		if lengths[i] > end || k.count == 0 || i > 0 && b.blocks[i-1].first >= k.first {
			return nil
		}
		k.data, end = body[end-lengths[i]:end:end], end-lengths[i]
	}

	b.head = body[:end:end]
	count, err := blockDecoder().DecodeAll(b.head, nil)
	if n, size := binary.Uvarint(count); err != nil || dir.err != nil || len(dir.b) > 0 || size != len(count) || n != uint64(b.count) {
		return nil
	}

	return b
}

// eachInBlock calls fn for the entries of a block. It expands the block into the memory of plain, and returns
// that memory for the next call, which overwrites key and value.
func (b *base) eachInBlock(i int, plain []byte, fn func(key, value []byte) error) ([]byte, error) {
	k := b.blocks[i]
	plain, err := blockDecoder().DecodeAll(k.data, plain[:0])
	if err != nil {
		return plain, damagedError(err)
	}

	r := &fieldReader{b: plain}
	var last []byte
	count, size := 0, int64(0)

	for ; len(r.b) > 0 && r.err == nil; count++ {
		kind := r.number(1)
		key, value := r.field(MaxKey), r.field(MaxValue)
		if r.err != nil {
			break
		}
		if kind != 0 || bytes.Compare(key, last) <= 0 || count == 0 && string(key) != k.first {
			return plain, damagedError(nil)
		}
		if i+1 < len(b.blocks) && string(key) >= b.blocks[i+1].first {
			return plain, damagedError(nil)
		}
		size += int64(len(key) + len(value))
		last = key
		if err := fn(key, value); err != nil {
			return plain, err
		}
	}
	if r.err != nil || count != k.count || size != k.bytes {
		return plain, damagedError(nil)
	}

	return plain, nil
}

// damagedError returns the errs.Damaged error of a block that cannot be read, though the checksum of its
// record is intact.
func damagedError(err error) error {
	return errs.New(errs.Damaged, "the manifest: %w", malformedError(err))
}

// findBlock returns the index of the block in which a key would be, -1 if the key is before all blocks.
func (b *base) findBlock(key string) int {
	return sort.Search(len(b.blocks), func(i int) bool { return b.blocks[i].first > key }) - 1
}

// get returns the value of a key, which the caller must not change.
func (b *base) get(key string) (value []byte, ok bool, err error) {
	if b == nil {
		return nil, false, nil
	}
	i := b.findBlock(key)
	if i < 0 {
		return nil, false, nil
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	entries, ok := b.cached[i]
	if !ok {
		entries = make(map[string][]byte, b.blocks[i].count)
		if _, err := b.eachInBlock(i, nil, func(key, value []byte) error {
			entries[string(key)] = value
			return nil
		}); err != nil {
			return nil, false, err
		}

		for old := range b.cached {
			if len(b.cached) >= maxCachedBlocks {
				delete(b.cached, old)
			}
		}
		if b.cached == nil {
			b.cached = make(map[int]map[string][]byte)
		}
		b.cached[i] = entries
	}

	value, ok = entries[key]
	return value, ok, nil
}

// each calls fn for the entries whose keys begin with prefix, in the order of the keys. fn must not keep
// value.
func (b *base) each(prefix string, fn func(key string, value []byte) error) error {
	if b == nil {
		return nil
	}

	var plain []byte
	var err error
	for i := max(0, b.findBlock(prefix)); i < len(b.blocks) && b.blocks[i].first[:min(len(prefix), len(b.blocks[i].first))] <= prefix; i++ {
		if plain, err = b.eachInBlock(i, plain, func(key, value []byte) error {
			if !bytes.HasPrefix(key, []byte(prefix)) {
				return nil
			}
			return fn(string(key), value)
		}); err != nil {
			return err
		}
	}

	return nil
}

// A fieldReader reads numbers and fields. After an error all results are zero.
type fieldReader struct {
	b   []byte
	err error
}

func (r *fieldReader) number(limit int) int {
	n, size := binary.Uvarint(r.b)
	if r.err != nil || size <= 0 || n > uint64(limit) {
		r.b, r.err = nil, errMalformed
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

// field reads a length and a field of that length.
func (r *fieldReader) field(limit int) []byte {
	n := r.number(limit)
	if n > len(r.b) {
		r.b, r.err = nil, errMalformed
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}
