package control

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
)

func TestContent(t *testing.T) {
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, size := range []int{0, 1, 1000, maxSmall, maxSmall + 1, 3 * maxSmall, 1 << 20} {
		w := &contentWriter{store: s}
		var want []byte
		rnd := rand.New(rand.NewPCG(1, uint64(size)))
		for len(want) < size {
			p := make([]byte, min(rnd.IntN(2*maxSmall)+1, size-len(want)))
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			if n, err := w.Write(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			want = append(want, p...)
		}
		c, err := w.content()
		if err != nil || c.Size() != int64(size) || (c.file == nil) != (size <= maxSmall) {
			t.Fatalf("%d of %d bytes, %v", c.Size(), size, err)
		}
		got := make([]byte, size+10)
		if n, err := c.ReadAt(got, 0); n != size || err != nil || !bytes.Equal(got[:n], want) {
			t.Errorf("%d of %d bytes are read back, %v", n, size, err)
		}
		if n, err := c.ReadAt(got[:10], int64(size/2)); err != nil || !bytes.Equal(got[:n], want[size/2:size/2+n]) {
			t.Errorf("from the middle: %d bytes, %v", n, err)
		}
		c.release()
	}
	w := &contentWriter{store: s, size: maxContent}
	if _, err := w.Write([]byte("x")); !errors.Is(err, errs.TooBig) {
		t.Error(err)
	}
}
