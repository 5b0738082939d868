package cas

import (
	"bytes"
	"testing"
)

func FuzzIndexValues(f *testing.F) {
	f.Add(encodeLoc(loc{pack: 1, off: 64, plainLen: 10, storedLen: 9, kind: KindData, flags: flagZstd}))
	f.Add(packInfo{indexedEnd: 64, objects: 2, plainBytes: 3, storedBytes: 4, state: packSweeping}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, ok := decodeLoc(b); ok && !bytes.Equal(encodeLoc(l), b) {
			t.Fatalf("%x is %+v, which is %x", b, l, encodeLoc(l))
		}
		if i, ok := decodePackInfo(b); ok && !bytes.Equal(i.encode(), b) {
			t.Fatalf("%x is %+v, which is %x", b, i, i.encode())
		}
	})
}

func FuzzPackHeader(f *testing.F) {
	f.Add(encodePackHeader(7), uint64(7))
	f.Add(encodePackHeaderVersion(7, 99), uint64(7))
	f.Add([]byte(packMagic), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, id uint64) {
		if checkPackHeader(b, id) == nil && !bytes.Equal(b[:packHeaderSize], encodePackHeader(id)) {
			t.Fatalf("%x was taken for the header of pack %x", b, id)
		}
	})
}
