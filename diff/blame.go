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

// A Blame finds for each line of a file the version that added it, as `git blame` does. The caller
// calls AddVersion for each version, the oldest first, then Lines.
type Blame struct {
	Source *tree.Source
	Cache  *BlameCache // results of earlier comparisons; not nil
	// Memory is charged with the memory of two versions and of all different lines before they are
	// read; nil for no bounds.
	Memory *budget.Charge

	lineVersions []int       // for each line of node, the version that added it
	node         *tree.Inode // the newest version, nil if the file did not exist in it

	// lines and ids have the lines of node and their numbers, if loaded is set.
	loaded bool
	lines  [][]byte
	ids    []int32
	allIDs lineIDs // numbers of the lines of all versions

	largestMemory  int64 // bytes of memory of the largest version
	distinctMemory int64 // bytes of memory of allIDs
	chargedMemory  int64 // bytes that Memory is charged with
}

const (
	// loadedLineMemory is the estimated memory in bytes of a line of a version, without its text.
	loadedLineMemory = 80
	// knownLineMemory is the estimated memory in bytes of a line in Blame.allIDs, without its text.
	knownLineMemory = 80
)

// A BlameCache has the differences between versions of files, by pairKey.
type BlameCache struct {
	mu    sync.Mutex
	edits map[string][]edit
	count int // number of edits and keys, see maxCachedEdits
}

// maxCachedEdits is the maximum number of edits and keys in a BlameCache. Each takes 32 bytes.
const maxCachedEdits = 1 << 20

// put adds the edits of a pair to the cache. If the cache is full, put empties it first. It ignores long
// lists of edits.
func (c *BlameCache) put(key string, edits []edit) {
	if key == "" || len(edits) > maxCachedEdits/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.count += 1 + len(edits); c.edits == nil || c.count > maxCachedEdits {
		c.edits, c.count = make(map[string][]edit), 1+len(edits)
	}

	c.edits[key] = edits
}

// ErrNoText means that a file is not compared by lines.
var ErrNoText = errors.New("it is binary, or over 64 MiB")

// pairKey returns a key for the contents of two files. It returns "" if a file is not stored yet.
func pairKey(a, b *tree.Inode) string {
	var key string
	for _, n := range []*tree.Inode{a, b} {
		m := n.Content.SealedMap()
		if m == nil {
			return ""
		}
		key += m.Key()
	}

	return key
}

// AddVersion adds the next version of the file. n is nil if the file does not exist in this version.
func (b *Blame) AddVersion(ctx context.Context, n *tree.Inode, version int) error {
	if err := turns.Yield(ctx); err != nil {
		return err
	}

	// All lines of a file that did not exist before are new.
	if n == nil || !n.IsRegular() || b.node == nil {
		b.lineVersions, b.node, b.loaded = nil, nil, false
		if n == nil || !n.IsRegular() {
			return nil
		}
		if err := b.load(ctx, n); err != nil {
			return err
		}

		b.lineVersions = slices.Repeat([]int{version}, len(b.lines))

		return nil
	}

	edits, err := b.advanceTo(ctx, n)
	if err != nil {
		return err
	}

	// Lines outside of the edits keep their version.
	versions := make([]int, 0, len(b.lineVersions))
	next := 0 // the first line of the previous version that was not handled yet
	for _, e := range edits {
		versions = append(versions, b.lineVersions[next:e.a0]...)
		versions = append(versions, slices.Repeat([]int{version}, e.b1-e.b0)...)
		next = e.a1
	}

	b.lineVersions = append(versions, b.lineVersions[next:]...)

	return nil
}

// advanceTo makes n the newest version, and returns the differences between the previous version and n.
func (b *Blame) advanceTo(ctx context.Context, n *tree.Inode) ([]edit, error) {
	key := pairKey(b.node, n)
	b.Cache.mu.Lock()
	edits, ok := b.Cache.edits[key]
	b.Cache.mu.Unlock()

	if ok {
		b.node, b.loaded = n, false
		return edits, nil
	}

	if !b.loaded {
		if err := b.load(ctx, b.node); err != nil {
			return nil, err
		}
	}

	lines, ids := b.lines, b.ids
	if err := b.load(ctx, n); err != nil {
		return nil, err
	}

	edits, err := (&stepBudget{ctx, maxFileSteps}).compareLines(ids, b.ids)
	if errors.Is(err, errTooDifferent) {
		edits, err = []edit{{0, len(ids), 0, len(b.ids)}}, nil
	}
	if err != nil {
		return nil, err
	}

	edits = slideEdits(edits, lines, b.lines, ids, b.ids)
	b.Cache.put(key, edits)

	return edits, nil
}

// load reads n, which becomes the newest version, and numbers its lines.
func (b *Blame) load(ctx context.Context, n *tree.Inode) error {
	if n.Size() > maxTextSize {
		return ErrNoText
	}
	if err := b.charge(ctx, n); err != nil {
		return err
	}

	text, err := readBlob(b.Source, n, "")
	if err != nil {
		return err
	}
	if isBinary(text) {
		return ErrNoText
	}
	if b.allIDs == nil {
		b.allIDs = make(lineIDs)
	}

	b.node, b.loaded, b.lines = n, true, splitLines(text)
	before := len(b.allIDs)
	b.ids = b.allIDs.number(b.lines, func(l []byte) string { return string(l) })
	b.distinctMemory += int64(len(b.allIDs)-before) * (knownLineMemory + int64(len(text))/int64(max(1, len(b.lines))))

	return nil
}

// charge reserves the memory for n and its lines.
func (b *Blame) charge(ctx context.Context, n *tree.Inode) error {
	lines, r, buf := int64(1), blobReader(b.Source, n), make([]byte, 64<<10)

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

	b.largestMemory = max(b.largestMemory, n.Size()+loadedLineMemory*lines)
	need := 2*b.largestMemory + b.distinctMemory + n.Size() + knownLineMemory*lines
	if more := need - b.chargedMemory; more > 0 {
		b.chargedMemory = need
		return b.Memory.Add(ctx, more)
	}

	return nil
}

// Lines returns the lines of the newest version, and for each line the version that added it. It returns no lines
// if the file does not exist in the newest version.
func (b *Blame) Lines(ctx context.Context) (lines [][]byte, versions []int, err error) {
	if b.node == nil {
		return nil, nil, nil
	}
	if !b.loaded {
		err = b.load(ctx, b.node)
	}

	return b.lines, b.lineVersions, err
}
