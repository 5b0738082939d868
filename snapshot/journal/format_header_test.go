package journal

import (
	"bytes"
	"testing"
)

func FuzzHeader(f *testing.F) {
	f.Add(header{base: 4096, firstSeq: 7, durablePos: 64, nonce: 3}.encode())
	f.Add(make([]byte, segmentHeaderSize))
	f.Add([]byte(headerMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok, err := decodeHeader(b)
		if !ok || err != nil {
			return
		}
		if again, ok, err := decodeHeader(h.encode()); !ok || err != nil || again != h {
			t.Fatalf("%+v came back as %+v, %v, %v", h, again, ok, err)
		}
		if len(b) == segmentHeaderSize && !bytes.Equal(b[:16], h.encode()[:16]) {
			t.Fatal("another magic or version was taken")
		}
	})
}
