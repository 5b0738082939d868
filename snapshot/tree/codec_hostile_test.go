package tree

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// forger makes states of which every object has the right hash, and some make no
// sense.
type forger struct {
	r       *rand.Rand
	store   *countingStore
	hashes  []cas.Hash // of the state it starts from
	done    map[cas.Hash]cas.Hash
	changes int // still to make
}

// forge returns what an object becomes, and puts it and all below it into the store.
func (f *forger) forge(h cas.Hash) cas.Hash {
	if to, ok := f.done[h]; ok {
		return to
	}
	raw := slices.Clone(f.store.objects[h])
	if raw[0] > wire.KindRecord {
		return h // a chunk
	}
	for _, kid := range f.hashes {
		for at := bytes.Index(raw, kid[:]); at >= 0 && kid != h; {
			to := f.forge(kid)
			copy(raw[at:], to[:])
			next := bytes.Index(raw[at+len(to):], kid[:])
			if next < 0 {
				break
			}
			at += len(to) + next
		}
	}
	if f.changes > 0 && f.r.IntN(4) == 0 {
		f.changes--
		raw = f.change(raw)
	}
	to := must(f.store.Put(cas.KindTree, raw))
	f.done[h] = to
	return to
}

// change alters an object: by what it means if it is a page, else by its bytes.
func (f *forger) change(raw []byte) []byte {
	b, err := decodeBody(raw)
	if err == nil && f.r.IntN(4) > 0 {
		var e wire.Encoder
		switch {
		case b.leaf != nil:
			f.changeLeaf(b.leaf)
			check(encodeTableLeaf(&e, b.leaf, f.store))
			return e.Bytes()
		case b.ents != nil:
			d := &b.ents[f.r.IntN(len(b.ents))]
			switch f.r.IntN(3) {
			case 0:
				d.Ino = 1 + f.r.Uint64N(700)
			case 1:
				d.Type ^= 1 << (12 + f.r.IntN(typeBits))
			default:
				b.ents = b.ents[1:]
			}
		default:
			i, j := f.r.IntN(len(b.kids)), f.r.IntN(len(b.kids))
			if b.kids[j] != nil {
				b.kids[i] = b.kids[j]
				break
			}
			for _, k := range b.kids {
				if k != nil {
					k.n = f.r.IntN(1 << 20)
				}
			}
		}
		encodeBody(&e, b)
		return e.Bytes()
	}
	if len(raw) > 2 {
		if at := 2 + f.r.IntN(len(raw)-2); f.r.IntN(2) == 0 && at+32 <= len(raw) {
			h := f.hashes[f.r.IntN(len(f.hashes))]
			copy(raw[at:], h[:])
		} else {
			raw[at] ^= byte(1 << f.r.IntN(8))
		}
	}
	return raw
}

// changeLeaf alters an inode so that it encodes all the same.
func (f *forger) changeLeaf(l *tableLeaf) {
	for range 100 {
		i := f.r.IntN(tableFanout)
		if !l.has(i) || l.long&(1<<i) != 0 {
			continue
		}
		n, err := decodeInode(l.index*tableFanout+uint64(i), l.record(i))
		if err != nil {
			continue
		}
		switch f.r.IntN(5) {
		case 0:
			n.Nlink = f.r.Uint32N(4)
		case 1:
			n.Links = []Link{{1 + f.r.Uint64N(700), testName(f.r.IntN(20))}}
		case 2:
			n.Links = append(slices.Clip(n.Links), Link{1 + f.r.Uint64N(700), testName(f.r.IntN(20))})
		case 3:
			n.Mode ^= uint32(1) << (12 + f.r.IntN(4))
		default:
			if n.Dir.root != nil {
				n.Dir.root.n = 1 + f.r.IntN(1<<20)
			}
		}
		if n.IsRegular() || n.Content == nil {
			l.set(i, n)
		}
		return
	}
}

// TestHostileStates: whatever a state from elsewhere says, nothing hangs, panics or
// takes much memory, and what Affected finds no fault with can be used.
func TestHostileStates(t *testing.T) {
	rounds := 200
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		rounds = 10_000
	}
	f := newTestFS()
	dirs := []uint64{RootIno}
	for i := range 400 {
		dir := dirs[i%len(dirs)]
		if i%40 == 0 {
			dirs = append(dirs, f.create(dir, testName(i), unix.S_IFDIR|0o755))
			continue
		}
		f.write(f.create(dir, testName(i), unix.S_IFREG|0o644), 0, fmt.Sprint("content ", i))
	}
	for i := range 150 { // an inner page
		f.link(2+uint64(i%30)*2+1, RootIno, fmt.Sprint("link", i))
	}
	a := f.freeze()
	id := f.seal(t, a)
	objects := maps.Clone(f.store.objects)
	hashes := slices.SortedFunc(maps.Keys(objects), func(a, b cas.Hash) int { return bytes.Compare(a[:], b[:]) })
	good := 0
	for seed := range uint64(rounds) {
		f.store.objects = maps.Clone(objects)
		x := &forger{r: rand.New(rand.NewPCG(seed, 5)), store: f.store, hashes: hashes, done: make(map[cas.Hash]cas.Hash)}
		x.changes = 1 + x.r.IntN(3)
		forged := x.forge(id)
		missing := func(h cas.Hash) bool {
			_, ok := f.store.objects[h]
			return !ok
		}
		if useHostile(t, seed, f.source(), forged, id, missing) {
			good++
		}
	}
	t.Logf("%d of %d states have no fault", good, rounds)
}

// useHostile does with a forged state what a store does with one that was pulled,
// and reports whether Affected finds nothing wrong.
func useHostile(t *testing.T, seed uint64, src *Source, id, original cas.Hash, missing func(cas.Hash) bool) (good bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s, err := Load(src, id)
	if err != nil {
		return false
	}
	named := 0
	if err := s.Affected(ctx, src, Damage{missing, func(int64, int64) bool { return false }}, func(string) { named++ }); err != nil {
		t.Errorf("seed %d: verifying: %v", seed, err)
	}
	o := must(Load(src, original))
	walk := s.Walk(ctx, src, WalkOptions{}, func(_ *Path, n *Inode) error {
		if n.IsDir() {
			if err := n.Dir.List(src, 0, func(Dirent, uint64) bool { return true }); err != nil {
				return err
			}
		}
		_, err := n.Content.ReadAt(src.Files, make([]byte, min(n.Size(), 1<<20)), 0)
		return err
	})
	none := func(Change) error { return nil }
	there := Diff(ctx, src, o, s, DiffOptions{}, none)
	back := Diff(ctx, src, s, o, DiffOptions{}, none)
	mark := s.Mark(ctx, src, nil, false, func(cas.Hash) bool { return true })
	for what, err := range map[string]error{"walk": walk, "diff there": there, "diff back": back, "mark": mark} {
		if err != nil && (named == 0 && what != "mark" || ctx.Err() != nil) {
			t.Errorf("seed %d: %s fails, and verify named %d: %v", seed, what, named, err)
		}
	}
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapInuse > 300<<20 {
		t.Fatalf("seed %d: %d MiB are in use", seed, m.HeapInuse>>20)
	}
	return named == 0
}
