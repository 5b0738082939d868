package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/amberfs/amberfs/internal/errs"
)

// ErrMalformed is wrapped by every decoding error.
var ErrMalformed = errs.New(errs.Damaged, "malformed object")

// Decoder reads values from a byte slice.
type Decoder struct {
	b   []byte
	off int
	err error
}

// NewDecoder reads from b, which must not change while the decoder or a slice
// returned by Raw or Blob is in use.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Remaining returns the number of bytes that were not read yet.
func (d *Decoder) Remaining() int { return len(d.b) - d.off }

// Offset returns the number of bytes that were read.
func (d *Decoder) Offset() int { return d.off }

// Finish returns the first error. Bytes that were not read are an error, too.
func (d *Decoder) Finish() error {
	if d.err == nil && d.off != len(d.b) {
		d.Fail("%d bytes too many", len(d.b)-d.off)
	}
	return d.err
}

// Fail records an error that the caller found, such as a value out of range.
// Only the first error is kept.
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: byte %d: %s", ErrMalformed, d.off, fmt.Sprintf(format, args...))
	}
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if d.err != nil {
		return 0
	}

	if d.off >= len(d.b) {
		d.Fail("cut short")
		return 0
	}

	v := d.b[d.off]
	d.off++

	return v
}

// Bool reads a byte that must be 0 or 1.
func (d *Decoder) Bool() bool {
	v := d.Byte()
	if v > 1 {
		d.Fail("%d is no truth value", v)
	}
	return v == 1
}

// Uvarint reads an unsigned number in its shortest form.
func (d *Decoder) Uvarint() uint64 {
	if d.err != nil {
		return 0
	}

	if d.off < len(d.b) && d.b[d.off] < 0x80 {
		v := d.b[d.off]
		d.off++
		return uint64(v)
	}

	v, n := binary.Uvarint(d.b[d.off:])
	switch {
	case n == 0:
		d.Fail("cut short")
		return 0
	case n < 0:
		d.Fail("number over 64 bits")
		return 0
	case d.b[d.off+n-1] == 0:
		d.Fail("number not in its shortest form")
		return 0
	}

	d.off += n

	return v
}

// Varint reads a signed number in zig-zag form.
func (d *Decoder) Varint() int64 {
	u := d.Uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

// Uint reads an unsigned number that must not be above limit.
func (d *Decoder) Uint(limit uint64) uint64 {
	v := d.Uvarint()
	if v > limit {
		d.Fail("%d is over the limit of %d", v, limit)
		return 0
	}
	return v
}

// Length reads a number of bytes, from 0 to 2^63-1.
func (d *Decoder) Length() int64 { return int64(d.Uint(1<<63 - 1)) }

// Count reads the number of items that follow, each at least itemBytes long.
// It fails if the rest of the input is too short for them, so that the caller
// does not allocate memory for a forged count.
func (d *Decoder) Count(itemBytes int) int {
	v := d.Uvarint()
	if v > uint64(d.Remaining()/itemBytes) {
		d.Fail("%d items in %d bytes", v, d.Remaining())
		return 0
	}
	return int(v)
}

// Raw returns the next n bytes. They alias the input.
func (d *Decoder) Raw(n int) []byte {
	if d.err != nil {
		return nil
	}

	if n < 0 || n > len(d.b)-d.off {
		d.Fail("cut short")
		return nil
	}

	v := d.b[d.off : d.off+n : d.off+n]
	d.off += n

	return v
}

// Blob reads a length and that many bytes. They alias the input.
func (d *Decoder) Blob() []byte {
	n := d.Count(1)
	return d.Raw(n)
}

// String reads a length and that many bytes, as a copy.
func (d *Decoder) String() string { return string(d.Blob()) }
