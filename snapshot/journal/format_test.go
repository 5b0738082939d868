package journal

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"testing"
)

func putCRC(b []byte) {
	binary.LittleEndian.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))
}

// The bytes on disk, forever.
func TestFormatBytes(t *testing.T) {
	h := header{base: 0x1122334455, firstSeq: 77, durablePos: 0x0102030405, nonce: 0xa1a2a3a4a5a6a7a8}
	copy(h.id[:], "0123456789abcdef")
	got := hex.EncodeToString(h.encode())
	want := "616d6265726a6e6c" + "02000000" + "00000000" + "5544332211000000" + "4d00000000000000" +
		"0504030201000000" + "30313233343536373839616263646566" + "a8a7a6a5a4a3a2a1"
	if got[:len(want)] != want {
		t.Errorf("segment header:\n got %s\nwant %s", got[:len(want)], want)
	}
	if got[len(got)-8:] != "22ae5588" {
		t.Errorf("checksum of the header: %s", got[len(got)-8:])
	}
	b := make([]byte, recordHeaderSize)
	putRecordHead(b, recordHead{length: 5, typ: 9, seq: 78, durablePos: 0x0102030405, payloadCRC: crc([]byte("hello"))}, h.seed())
	if got, want := hex.EncodeToString(b), "05000000090000004e0000000000000005040302010000004cbb719a34b2c80b"; got != want {
		t.Errorf("record header:\n got %s\nwant %s", got, want)
	}
	d, ok, err := decodeHeader(h.encode())
	if !ok || err != nil || d != h {
		t.Errorf("decoded header: %+v %v %v", d, ok, err)
	}
	if _, ok := getRecordHead(b, h.seed()+1, 1<<40); ok {
		t.Error("a record of another segment was accepted")
	}
}
