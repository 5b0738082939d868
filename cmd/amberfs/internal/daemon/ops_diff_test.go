package daemon

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/amberfs/amberfs/snapshot/live"
)

func TestRendered(t *testing.T) {
	var r rendered
	var want []byte
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		p := make([]byte, rnd.IntN(4000))
		for i := range p {
			p[i] = byte(rnd.Uint32())
		}
		if n, err := r.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		want = append(want, p...)
	}
	if !bytes.Equal(bytes.Join(r.pieces, nil), want) {
		t.Error("other bytes")
	}
	if _, err := r.Write(make([]byte, maxRendered-len(want))); err != nil {
		t.Error(err)
	}
	if _, err := r.Write([]byte("x")); !errors.Is(err, live.ErrTooBig) {
		t.Error(err)
	}
}
