package cas

import "testing"

// TestAhead asks the disk once for each piece of a pack that is read from one end to
// the other, also by two at a time, and for nothing where reads lie anywhere.
func TestAhead(t *testing.T) {
	const size = 64 << 10
	at := func(pack uint64, off int64) loc { return loc{pack: pack, off: off} }
	var a ahead
	asked := map[uint64]int64{}
	for off := int64(0); off < 8<<20; off += size {
		for pack := uint64(1); pack <= 2; pack++ {
			n := a.next(at(pack, off))
			if off > 0 && off+n < asked[pack]-aheadSpan {
				t.Errorf("pack %d at %d: %d bytes, up to %d were asked for", pack, off, n, asked[pack])
			}
			if n > 0 {
				asked[pack] = off + n
			}
			if off > 0 && off+size > asked[pack] {
				t.Errorf("pack %d at %d: the disk was asked for what lies before %d", pack, off, asked[pack])
			}
		}
	}
	a = ahead{}
	for i := range int64(100) {
		if n := a.next(at(1, i*37%100<<20)); n != 0 {
			t.Fatalf("%d bytes at a place where nobody read", n)
		}
	}
}
