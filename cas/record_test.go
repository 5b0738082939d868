package cas

import (
	"bytes"
	"context"
	"testing"

	"lukechampine.com/blake3"

	"github.com/amberfs/amberfs/tests/must"
)

// FuzzScan gives a pack of arbitrary bytes to the scanner and what it finds to
// the decoders. Nothing may panic, the items must cover the range, and an intact
// object must have the bytes that its hash says.
func FuzzScan(f *testing.F) {
	c := newCodec()
	s := &Store{codec: c}
	const id = 1<<32 | 5
	var pack []byte
	add := func(kind Kind, plain []byte) {
		h, bp := c.buildRecord(kind, Sum(plain), plain)
		h.encode(*bp, id, int64(len(pack)))
		pack = append(pack, *bp...)
	}
	add(KindData, blob(0, 100))
	add(KindTree, blob(1, 500))
	free := header{kind: kindFree, storedLen: 2}
	b := make([]byte, 2*recordAlign)
	free.encode(b, id, int64(len(pack)))
	pack = append(pack, b...)
	f.Add(pack)
	f.Add(pack[:len(pack)-30])
	f.Add(pack[64:])
	f.Add([]byte{})
	for i := 0; i < len(pack); i += 50 {
		b := bytes.Clone(pack)
		b[i] ^= 0x10
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		at := int64(0)
		sc := &scan{r: bytes.NewReader(b), id: id, end: int64(len(b)), readBodies: true}
		err := sc.run(context.Background(), func(it *item) error {
			if it.off != at || it.length <= 0 || it.off+it.length > int64(len(b)) {
				t.Fatalf("item at %d of %d bytes, want one at %d", it.off, it.length, at)
			}
			at += it.length
			if it.damage != "" || it.kind == kindFree {
				return nil
			}
			if err := s.codec.checkBody(it); err == nil {
				plain, err := c.expand(it.flags, it.plainLen, it.body(), nil)
				if err != nil || Sum(plain) != it.hash {
					t.Fatalf("an intact record has other bytes: %v", err)
				}
			}
			return nil
		})
		if err != nil || at != int64(len(b)) {
			t.Fatalf("the scan ended at %d of %d: %v", at, len(b), err)
		}
	})
}

// TestRecordsOfAnotherPlaceAreNoRecords: an object may hold the bytes of a pack.
func TestRecordsOfAnotherPlaceAreNoRecords(t *testing.T) {
	h := header{kind: KindData, plainLen: 5, storedLen: 5}
	b := make([]byte, headerSize)
	h.encode(b, 7, 640)
	_, err := decodeHeader(b, 7, 640)
	must.OK(t, err)
	if _, err := decodeHeader(b, 7, 704); err == nil {
		t.Error("accepted at another offset")
	}
	if _, err := decodeHeader(b, 8, 640); err == nil {
		t.Error("accepted in another pack")
	}
}

func TestLocSet(t *testing.T) {
	s := placeSet{}
	var n int64
	for i := int64(1); i < 20_000; i++ {
		p := place{uint64(i % 3), i * i % 100_003 * recordAlign}
		had := s.has(p)
		if i%2 == 0 {
			s.setFound(p)
		}
		if !had {
			n++
		}
		if first := s.setMarked(p); first == had {
			t.Fatalf("has and add of %v agree", p)
		}
		if s.setFound(p); !s.has(p) || s.setMarked(p) {
			t.Fatalf("%v is not in the set", p)
		}
	}
	if got := s.count(0) + s.count(1) + s.count(2); got != n {
		t.Errorf("%d places of %d", got, n)
	}
	if s.has(place{9, 64}) {
		t.Error("a place of another pack is in the set")
	}
}

// TestSum compares with another implementation, on both sides of the ends of blocks, chunks and groups of chunks.
func TestSum(t *testing.T) {
	const chunk = 1 << 10
	b := blob(0, 800*chunk+777)
	lengths := []int{len(b)}
	for n := 1; n < len(b); n += n/3 + 1 {
		lengths = append(lengths, n)
	}
	for n := chunk; n < len(b); n += chunk {
		lengths = append(lengths, n-1, n, n+1)
	}
	for _, n := range lengths {
		if got := Sum(b[:n]); got != blake3.Sum256(b[:n]) {
			t.Fatalf("%d bytes: %s", n, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Sum(b[:100_000]) }); n > 0.5 {
		t.Errorf("%v allocations", n)
	}
}

func TestHashText(t *testing.T) {
	h := Sum([]byte("x"))
	got, err := ParseHash(h.String())
	if err != nil || got != h || h.IsZero() || !(Hash{}).IsZero() {
		t.Fatalf("%v %v", got, err)
	}
	for _, bad := range []string{"", "12", h.String() + "0", "zz" + h.String()[2:]} {
		if _, err := ParseHash(bad); err == nil {
			t.Errorf("%q was taken for a hash", bad)
		}
	}
	// The empty input's BLAKE3, from the official test vectors.
	if Sum(nil).String() != "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" {
		t.Errorf("hash of nothing: %s", Sum(nil))
	}
}
