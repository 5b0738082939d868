package control

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestContent(t *testing.T) {
	u := newUser(t)
	for _, size := range []int{0, 1, 1000, maxBlockSize, maxBlockSize + 1, 3 * maxBlockSize, 1 << 20} {
		var want []byte
		rnd := rand.New(rand.NewPCG(1, uint64(size)))
		for range size {
			want = append(want, byte(rnd.Uint32()))
		}
		written := func() *contentWriter {
			w := u.tree.cache.newContentWriter(u.tree.store.Main())
			for rest := want; len(rest) > 0; {
				p := rest[:min(len(rest), rnd.IntN(2*maxBlockSize)+1)]
				if n, err := w.Write(p); n != len(p) || err != nil {
					t.Fatal(n, err)
				}
				rest = rest[len(p):]
			}
			return w
		}
		w := written()
		c := &w.content
		if c.Size() != int64(size) || w.reservedBytes < int64(size) || w.tenant.chargedBytes != w.reservedBytes {
			t.Fatalf("%d of %d bytes, %d reserved", c.Size(), size, w.reservedBytes)
		}
		w.discard()
		u.accounts()
		got := make([]byte, size+10)
		if n := c.ReadAt(got, 0); n != size || !bytes.Equal(got[:n], want) {
			t.Errorf("%d of %d bytes are read back", n, size)
		}
		if n := c.ReadAt(got[:10], int64(size/2)); !bytes.Equal(got[:n], want[size/2:size/2+n]) {
			t.Errorf("from the middle: %d bytes", n)
		}
		if again := written(); !c.equal(&again.content) {
			t.Errorf("%d bytes, written again, differ", size)
		} else {
			again.discard()
		}
	}
}
