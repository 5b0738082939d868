package content

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/amberfs/amberfs/cas"
)

// rotten is a log of which some bytes are damaged.
type rotten struct {
	*byteLog
	from, to int64
	err      error
}

func (l *rotten) ReadAt(p []byte, pos, _ int64) error {
	if pos < l.to && l.from < pos+int64(len(p)) {
		return l.err
	}
	return l.byteLog.ReadAt(p, pos, 0)
}

type rot struct{ lost bool }

func (e rot) Error() string { return "rotten" }
func (e rot) Lost() bool    { return e.lost }

// TestSealDamaged: what is damaged before it is sealed is lost alone; a disk that
// fails to read makes a seal fail, and the next one tries again.
func TestSealDamaged(t *testing.T) {
	for _, size := range []int64{3000, 300_000, 3_000_000} {
		for _, at := range []int64{0, size / 3, size - 1} {
			b := newBench()
			data := b.noise(size)
			c := New(1)
			b.write(t, c, 0, data)
			pos := int64(len(b.log.b)) - size + at
			log := &rotten{b.log, pos, pos + 1, rot{false}}
			b.src = NewSource(b.store, log, 8<<20)
			var lost int64
			b.z = &Sealer{Src: b.src, Objects: b.store, Workers: 2, OnDamage: func(n int64) { lost += n }}
			if _, err := b.z.Seal(context.Background(), c); !errors.Is(err, log.err) {
				t.Fatalf("the disk cannot be read, and sealing says: %v", err)
			}
			log.err = rot{true}
			base := b.seal(t, c)
			if base.Size != size || lost == 0 || lost > damageBlock {
				t.Fatalf("sealed as %d bytes, %d of them lost; want %d, a block lost", base.Size, lost, size)
			}
			log.from, log.to = 0, 0
			for off := int64(0); off < size; off += 1000 {
				p := make([]byte, min(1000, size-off))
				_, err := c.ReadAt(b.src, p, off)
				in := off < min(size, (at/damageBlock+1)*damageBlock) && off+int64(len(p)) > at/damageBlock*damageBlock
				if in != errors.Is(err, cas.ErrNotFound) || !in && (err != nil || !bytes.Equal(p, data[off:off+int64(len(p))])) {
					t.Fatalf("%d bytes, damaged at %d: reading at %d: %v", size, at, off, err)
				}
			}
		}
	}
}
