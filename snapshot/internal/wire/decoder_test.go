package wire

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

func TestRoundTrip(t *testing.T) {
	nums := []uint64{0, 1, 127, 128, 16383, 16384, math.MaxUint32, math.MaxUint64}
	ints := []int64{0, -1, 1, 63, -64, 64, math.MaxInt64, math.MinInt64}
	e := NewEncoder(nil)
	for _, v := range nums {
		e.Uvarint(v)
	}
	for _, v := range ints {
		e.Varint(v)
	}
	e.Byte(7)
	e.Bool(true)
	e.Bool(false)
	e.Raw([]byte("raw"))
	e.Blob([]byte("blob"))
	e.String("string")

	d := NewDecoder(e.Bytes())
	for _, v := range nums {
		if got := d.Uvarint(); got != v {
			t.Errorf("Uvarint = %d, want %d", got, v)
		}
	}
	for _, v := range ints {
		if got := d.Varint(); got != v {
			t.Errorf("Varint = %d, want %d", got, v)
		}
	}
	if got := d.Byte(); got != 7 {
		t.Errorf("Byte = %d", got)
	}
	if !d.Bool() || d.Bool() {
		t.Error("Bool differs")
	}
	if got := d.Raw(3); string(got) != "raw" {
		t.Errorf("Raw = %q", got)
	}
	if got := d.Blob(); string(got) != "blob" {
		t.Errorf("Blob = %q", got)
	}
	if got := d.String(); got != "string" {
		t.Errorf("String = %q", got)
	}
	must.OK(t, d.Finish())
}

func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		in   []byte
		read func(*Decoder)
	}{
		"empty byte":          {nil, func(d *Decoder) { d.Byte() }},
		"empty number":        {nil, func(d *Decoder) { d.Uvarint() }},
		"number cut short":    {[]byte{0x80}, func(d *Decoder) { d.Uvarint() }},
		"number not shortest": {[]byte{0x80, 0}, func(d *Decoder) { d.Uvarint() }},
		"number over 64 bits": {bytes.Repeat([]byte{0xff}, 11), func(d *Decoder) { d.Uvarint() }},
		"bool of 2":           {[]byte{2}, func(d *Decoder) { d.Bool() }},
		"raw too long":        {[]byte{1}, func(d *Decoder) { d.Raw(2) }},
		"raw negative":        {[]byte{1}, func(d *Decoder) { d.Raw(-1) }},
		"blob too long":       {[]byte{2, 1}, func(d *Decoder) { d.Blob() }},
		"count too high":      {[]byte{2, 1, 1, 1}, func(d *Decoder) { d.Count(2) }},
		"over the limit":      {[]byte{5}, func(d *Decoder) { d.Uint(4) }},
		"length over int64":   {[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, func(d *Decoder) { d.Length() }},
		"bytes left":          {[]byte{1}, func(d *Decoder) {}},
	} {
		d := NewDecoder(tc.in)
		tc.read(d)
		if err := d.Finish(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", name, err)
		}
	}
}

func TestErrorSticks(t *testing.T) {
	d := NewDecoder([]byte{1, 2, 3})
	d.Raw(9)
	first := d.Err()
	if d.Byte() != 0 || d.Uvarint() != 0 || d.Raw(1) != nil || d.String() != "" {
		t.Error("a read after an error returned something")
	}
	d.Fail("later")
	if d.Err() != first {
		t.Error("a later error replaced the first")
	}
}

// FuzzVarint checks that whatever decodes encodes to the same bytes again.
func FuzzVarint(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0x80, 1})
	f.Add([]byte{0x80, 0})
	f.Add(bytes.Repeat([]byte{0xff}, 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDecoder(b)
		v := d.Uvarint()
		if d.Err() != nil {
			return
		}
		e := NewEncoder(nil)
		e.Uvarint(v)
		if !bytes.Equal(e.Bytes(), b[:d.Offset()]) {
			t.Fatalf("% x decodes to %d, which encodes to % x", b[:d.Offset()], v, e.Bytes())
		}
	})
}
