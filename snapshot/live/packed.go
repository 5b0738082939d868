package live

import (
	"iter"
	"slices"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// packed is a list that may have millions of items, encoded: as structs they would take
// several times as much memory.
type packed[T any, P packable[T]] struct {
	parts [][]byte // of packedItems each
	last  wire.Encoder
	n     int
}

type packable[T any] interface {
	*T
	encode(*wire.Encoder)
	decode(*wire.Decoder) // of what encode wrote
}

const packedItems = 256

func (l *packed[T, P]) add(item P) {
	item.encode(&l.last)
	if l.n++; l.n%packedItems == 0 {
		l.parts = append(l.parts, slices.Clone(l.last.Out()))
		l.last.Reset()
	}
}

// all returns the items and their numbers. They are the caller's.
func (l *packed[T, P]) all() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		n := 0
		for i := 0; i <= len(l.parts); i++ {
			for d := l.part(i); d.Remaining() > 0; n++ {
				var item T
				P(&item).decode(d)
				if !yield(n, item) {
					return
				}
			}
		}
	}
}

// backward is all from the end on.
func (l *packed[T, P]) backward() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		items, n := make([]T, 0, packedItems), l.n
		for i := len(l.parts); i >= 0; i-- {
			items = items[:0]
			for d := l.part(i); d.Remaining() > 0; {
				var item T
				P(&item).decode(d)
				items = append(items, item)
			}
			for _, item := range slices.Backward(items) {
				if n--; !yield(n, item) {
					return
				}
			}
		}
	}
}

func (l *packed[T, P]) part(i int) *wire.Decoder {
	if i < len(l.parts) {
		return wire.NewDecoder(l.parts[i])
	}
	return wire.NewDecoder(l.last.Out())
}
