package live

import (
	"iter"
	"slices"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// packed is a list that may have millions of items, each encoded as what differs from the
// one before: as structs they would take ten times as much memory.
type packed[T any, P packable[T]] struct {
	parts [][]byte // of packedItems each
	last  wire.Encoder
	prev  T // the last item, a zero value at the begin of a part
	n     int
}

type packable[T any] interface {
	*T
	encode(e *wire.Encoder, prev *T)
	decode(d *wire.Decoder, prev *T) // of what encode wrote
}

const packedItems = 256

func (l *packed[T, P]) add(item P) {
	item.encode(&l.last, &l.prev)
	l.prev = *item
	if l.n++; l.n%packedItems == 0 {
		l.parts = append(l.parts, slices.Clone(l.last.Out()))
		l.last.Reset()
		l.prev = *new(T)
	}
}

// part returns the items of a part.
func (l *packed[T, P]) part(i int) iter.Seq[T] {
	return func(yield func(T) bool) {
		text := l.last.Out()
		if i < len(l.parts) {
			text = l.parts[i]
		}
		var prev T
		for d := wire.NewDecoder(text); d.Remaining() > 0; {
			var item T
			P(&item).decode(d, &prev)
			prev = item
			if !yield(item) {
				return
			}
		}
	}
}

// all returns the items and their numbers. They are the caller's.
func (l *packed[T, P]) all() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		n := 0
		for i := 0; i <= len(l.parts); i++ {
			for item := range l.part(i) {
				if !yield(n, item) {
					return
				}
				n++
			}
		}
	}
}

// backward is all from the end on.
func (l *packed[T, P]) backward() iter.Seq2[int, T] {
	return func(yield func(int, T) bool) {
		items, n := make([]T, 0, packedItems), l.n
		for i := len(l.parts); i >= 0; i-- {
			items = slices.AppendSeq(items[:0], l.part(i))
			for _, item := range slices.Backward(items) {
				if n--; !yield(n, item) {
					return
				}
			}
		}
	}
}

// encodeName writes a name as what it does not share with the one before.
func encodeName(e *wire.Encoder, name, prev string) {
	same := 0
	for same < min(len(name), len(prev)) && name[same] == prev[same] {
		same++
	}
	e.Uvarint(uint64(same))
	e.String(name[same:])
}

func decodeName(d *wire.Decoder, prev string) string {
	same := int(d.Uvarint())
	return prev[:same] + string(d.Blob())
}
