package diff

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Blame finds for each line of a file the version that brought it, as `git blame` does.
// Next takes the versions, the oldest first.
type Blame struct {
	Source *tree.Source
	Cache  *BlameCache // of earlier comparisons; not nil
	// Memory is charged with what two versions and all different lines take, before they are
	// read; nil for no bounds.
	Memory *budget.Charge

	from   []int // for each line its version
	node   *tree.Inode
	loaded bool // what follows is of node
	lines  [][]byte
	ids    []int32
	known  numbers

	largest, distinct, charged int64 // bytes of memory
}

// blamedLine is what a line takes beside its bytes in each of two versions, knownLine what a
// line takes that no version before had.
const (
	blamedLine = 80
	knownLine  = 80
)

// A BlameCache keeps how the lines of two contents differ.
type BlameCache struct {
	mu    sync.Mutex
	edits map[string][]edit
	count int
}

// maxBlamed is how many edits a BlameCache keeps, 32 bytes each.
const maxBlamed = 1 << 20

func (c *BlameCache) put(key string, edits []edit) {
	if key == "" || len(edits) > maxBlamed/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count += 1 + len(edits); c.edits == nil || c.count > maxBlamed {
		c.edits, c.count = make(map[string][]edit), 1+len(edits)
	}
	c.edits[key] = edits
}

// ErrNoText means that a file has no lines to speak of.
var ErrNoText = errors.New("it is binary, or over 64 MiB")

// pairKey identifies the contents of two files, "" if one is not stored yet.
func pairKey(a, b *tree.Inode) string {
	var key string
	for _, n := range []*tree.Inode{a, b} {
		m := n.Content.Sealed()
		if m == nil {
			return ""
		}
		key += m.Key()
	}
	return key
}

// Next takes the next version; nil if the file is gone.
func (b *Blame) Next(ctx context.Context, n *tree.Inode, version int) error {
	if err := turns.Yield(ctx); err != nil {
		return err
	}
	if n == nil || !n.IsRegular() || b.node == nil {
		b.from, b.node, b.loaded = nil, nil, false
		if n == nil || !n.IsRegular() {
			return nil
		}
		if err := b.load(ctx, n); err != nil {
			return err
		}
		b.from = slices.Repeat([]int{version}, len(b.lines))
		return nil
	}
	key := pairKey(b.node, n)
	b.Cache.mu.Lock()
	edits, ok := b.Cache.edits[key]
	b.Cache.mu.Unlock()
	if ok {
		b.node, b.loaded = n, false
	} else {
		if !b.loaded {
			if err := b.load(ctx, b.node); err != nil {
				return err
			}
		}
		was, ids := b.lines, b.ids
		if err := b.load(ctx, n); err != nil {
			return err
		}
		var err error
		edits, err = (&effort{ctx, fileCost}).compareLines(ids, b.ids)
		switch {
		case errors.Is(err, errTooDifferent):
			edits = []edit{{0, len(ids), 0, len(b.ids)}}
		case err != nil:
			return err
		}
		edits = slide(edits, was, b.lines, ids, b.ids)
		b.Cache.put(key, edits)
	}
	from := make([]int, 0, len(b.from))
	at := 0
	for _, e := range edits {
		from = append(from, b.from[at:e.a0]...)
		from = append(from, slices.Repeat([]int{version}, e.b1-e.b0)...)
		at = e.a1
	}
	b.from = append(from, b.from[at:]...)
	return nil
}

// load reads a version, and numbers its lines.
func (b *Blame) load(ctx context.Context, n *tree.Inode) error {
	if n.Size() > maxText {
		return ErrNoText
	}
	if err := b.charge(ctx, n); err != nil {
		return err
	}
	text, err := read(b.Source, n, "")
	if err != nil {
		return err
	}
	if isBinary(text) {
		return ErrNoText
	}
	if b.known == nil {
		b.known = make(numbers)
	}
	b.node, b.loaded, b.lines = n, true, splitLines(text)
	before := len(b.known)
	b.ids = b.known.of(b.lines, func(l []byte) string { return string(l) })
	b.distinct += int64(len(b.known)-before) * (knownLine + int64(len(text))/int64(max(1, len(b.lines))))
	return nil
}

// charge takes the memory for a version.
func (b *Blame) charge(ctx context.Context, n *tree.Inode) error {
	lines, r, buf := int64(1), reader(b.Source, n), make([]byte, 64<<10)
	for {
		got, err := r.Read(buf)
		lines += int64(bytes.Count(buf[:got], []byte{'\n'}))
		if err == io.EOF {
			break
		}
		if err = errors.Join(err, turns.Yield(ctx)); err != nil {
			return err
		}
	}
	b.largest = max(b.largest, n.Size()+blamedLine*lines)
	need := 2*b.largest + b.distinct + n.Size() + knownLine*lines
	if more := need - b.charged; more > 0 {
		b.charged = need
		return b.Memory.Add(ctx, more)
	}
	return nil
}

// Lines returns the lines of the newest version, and for each the version that brought it.
func (b *Blame) Lines(ctx context.Context) (lines [][]byte, from []int, err error) {
	if b.node == nil {
		return nil, nil, nil
	}
	if !b.loaded {
		err = b.load(ctx, b.node)
	}
	return b.lines, b.from, err
}
