package diff

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
)

// A span is a hash of pieces of a file, and the number of bytes in all pieces with this hash.
type span struct {
	hash  uint32
	bytes uint32
}

// A spanSet is a file's fingerprint, sorted by hash, as git's hash_chars in diffcore-delta.c makes it.
// The file is split into pieces that end at a newline or after 64 bytes. Bytes after the last piece
// are not counted.
type spanSet []span

const (
	maxPieceSize = 64
	hashBase     = 107927
)

// spansOf returns the fingerprint of a file.
func spansOf(r io.Reader) (spanSet, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(binaryCheckSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	text := !isBinary(head)
	counts := make(map[uint32]uint32)
	var acc1, acc2, n uint32

	for {
		c, err := in.ReadByte()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}

		if text && c == '\r' { // git ignores the CR of a CRLF in texts
			if next, _ := in.Peek(1); len(next) > 0 && next[0] == '\n' {
				continue
			}
		}

		old := acc1
		acc1 = acc1<<7 ^ acc2>>25
		acc2 = acc2<<7 ^ old>>25
		acc1 += uint32(c)
		if n++; n < maxPieceSize && c != '\n' {
			continue
		}

		counts[(acc1+acc2*0x61)%hashBase] += n
		n, acc1, acc2 = 0, 0, 0
	}

	set := make(spanSet, 0, len(counts))
	for h, b := range counts {
		set = append(set, span{h, b})
	}

	slices.SortFunc(set, func(a, b span) int { return int(a.hash) - int(b.hash) })

	return set, nil
}

// commonBytes returns the number of bytes that s and d have in common.
func (s spanSet) commonBytes(d spanSet) int64 {
	var sum int64
	for len(s) > 0 && len(d) > 0 {
		switch {
		case s[0].hash < d[0].hash:
			s = s[1:]
		case s[0].hash > d[0].hash:
			d = d[1:]
		default:
			sum += int64(min(s[0].bytes, d[0].bytes))
			s, d = s[1:], d[1:]
		}
	}

	return sum
}

// similarity returns the similarity of a deletion and an addition, given by their indexes into files: the share of
// the larger file that is also in the smaller one, from 0 to maxScore. It may return 0 if the similarity is below
// minimum.
func (r *renamer) similarity(from, to, minimum int) (int, error) {
	if err := turns.Yield(r.ctx); err != nil {
		return 0, err
	}

	a, b := r.files[from], r.files[to]
	if !a.Before.IsRegular() || !b.After.IsRegular() {
		return 0, nil
	}

	sizeA, sizeB := Size(a.Before), Size(b.After)
	large := max(sizeA, sizeB)
	delta := large - min(sizeA, sizeB)
	// A file over maxTextSize is renamed only if it is equal.
	if large == 0 || large > maxTextSize || float64(large)*float64(maxScore-minimum) < float64(delta)*maxScore {
		return 0, nil
	}

	spansA, err := r.spansAt(from)
	if err != nil {
		return 0, err
	}

	spansB, err := r.spansAt(to)
	if err != nil {
		return 0, err
	}

	return int(spansA.commonBytes(spansB) * maxScore / large), nil
}

// spansAt returns the fingerprint of the file at index i, which it computes once. If there are maxSpans spans
// already, it returns nil: then the file is not similar to any file.
func (r *renamer) spansAt(i int) (spanSet, error) {
	if s, ok := r.spans[i]; ok {
		return s, nil
	}

	f := r.files[i]
	n := f.After
	if f.Status == Deleted {
		n = f.Before
	}
	if r.spanCount > maxSpans {
		return nil, nil
	}

	s, err := spansOf(blobReader(r.src, n))
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", f.Path, err)
	}

	r.spanCount += len(s)
	r.spans[i] = s

	return s, nil
}

// maxSpans is the maximum number of spans of one comparison. Each takes 8 bytes.
const maxSpans = 4 << 20

// binaryCheckSize is the number of first bytes that decide whether a file is text.
const binaryCheckSize = 8000

// isBinary reports whether git considers a file binary: its first bytes contain a NUL.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), binaryCheckSize)], 0) >= 0
}
