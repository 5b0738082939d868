package wire

import "encoding/binary"

// Encoder appends values to a growing byte slice. Its zero value is ready.
type Encoder struct{ b []byte }

// NewEncoder returns an encoder that appends to buf[:0], reusing its memory.
func NewEncoder(buf []byte) *Encoder { return &Encoder{b: buf[:0]} }

// Bytes returns the encoded bytes. They are valid until the next write or Reset.
func (e *Encoder) Bytes() []byte { return e.b }

// Len returns the number of encoded bytes.
func (e *Encoder) Len() int { return len(e.b) }

// Reset drops the encoded bytes and keeps the memory for later writes.
func (e *Encoder) Reset() { e.b = e.b[:0] }

// Byte appends one byte.
func (e *Encoder) Byte(v byte) { e.b = append(e.b, v) }

// Bool appends 0 or 1.
func (e *Encoder) Bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// Uvarint appends v in 1 to 10 bytes.
func (e *Encoder) Uvarint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

// Varint appends v in zig-zag form, so that small negative numbers are short, too.
func (e *Encoder) Varint(v int64) { e.b = binary.AppendVarint(e.b, v) }

// Raw appends p with no length.
func (e *Encoder) Raw(p []byte) { e.b = append(e.b, p...) }

// Blob appends the length of p, then p.
func (e *Encoder) Blob(p []byte) {
	e.Uvarint(uint64(len(p)))
	e.b = append(e.b, p...)
}

// String appends the length of s, then its bytes.
func (e *Encoder) String(s string) {
	e.Uvarint(uint64(len(s)))
	e.b = append(e.b, s...)
}
