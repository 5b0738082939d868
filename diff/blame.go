package diff

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Blame finds for each line of a file the version that brought it, as `git blame` does.
// Next takes the versions, the oldest first.
type Blame struct {
	Source *tree.Source

	from  []int // for each line its version
	found bool  // there is a file, and what follows is of it
	lines [][]byte
	ids   []int32
	known map[string]int32 // the number of each line
}

// ErrNoText means that a file has no lines to speak of.
var ErrNoText = errors.New("it is binary, or over 64 MiB")

// Next takes the next version; nil if the file is gone.
func (b *Blame) Next(ctx context.Context, n *tree.Inode, version int) error {
	if err := turns.Yield(ctx); err != nil {
		return err
	}
	if n == nil || !n.IsRegular() {
		b.found = false
		return nil
	}
	had, was, ids := b.found, b.lines, b.ids
	if err := b.load(n); err != nil {
		return err
	}
	if !had {
		b.from = slices.Repeat([]int{version}, len(b.lines))
		return nil
	}
	edits, err := (&effort{ctx, fileCost}).compareLines(ids, b.ids)
	if errors.Is(err, errTooDifferent) {
		edits, err = []edit{{0, len(ids), 0, len(b.ids)}}, nil
	}
	if err != nil {
		return err
	}
	from := make([]int, 0, len(b.from))
	at := 0
	for _, e := range slide(edits, was, b.lines, ids, b.ids) {
		from = append(from, b.from[at:e.a0]...)
		for range e.b1 - e.b0 {
			from = append(from, version)
		}
		at = e.a1
	}
	b.from = append(from, b.from[at:]...)
	return nil
}

// load reads a version, and numbers its lines. Those that it begins and ends with like the
// version before are known.
func (b *Blame) load(n *tree.Inode) error {
	if n.Size() > maxText {
		return ErrNoText
	}
	text, err := read(b.Source, n, "")
	if err != nil {
		return err
	}
	if isBinary(text) {
		return ErrNoText
	}
	lines := splitLines(text)
	ids := make([]int32, len(lines))
	most := min(len(lines), len(b.lines))
	head, tail := 0, 0
	for ; head < most && bytes.Equal(lines[head], b.lines[head]); head++ {
		ids[head] = b.ids[head]
	}
	for ; tail < most-head && bytes.Equal(lines[len(lines)-1-tail], b.lines[len(b.lines)-1-tail]); tail++ {
		ids[len(ids)-1-tail] = b.ids[len(b.ids)-1-tail]
	}
	if b.known == nil {
		b.known = make(map[string]int32)
	}
	for i := head; i < len(lines)-tail; i++ {
		id, ok := b.known[string(lines[i])]
		if !ok {
			id = int32(len(b.known))
			b.known[string(lines[i])] = id
		}
		ids[i] = id
	}
	b.found, b.lines, b.ids = true, lines, ids
	return nil
}

// Lines returns the lines of the newest version, and for each the version that brought it.
func (b *Blame) Lines() (lines [][]byte, from []int) {
	if !b.found {
		return nil, nil
	}
	return b.lines, b.from
}
