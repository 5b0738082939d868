package snapshot

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
)

// TestPostponed: a large file that was written since the checkpoint before is not sealed
// by one beside writers. If it goes, so does its journal, unsealed; if it stays, the next
// one seals it.
func TestPostponed(t *testing.T) {
	s := quietStore(t)
	const size = 80 << 20 // more than a segment of the journal
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(rand.Uint32())
	}
	write := func(name string) {
		t.Helper()
		a, err := s.forest.Create(s.Main().Root(), name, live.Create{Mode: unix.S_IFREG | 0o644})
		if err != nil {
			t.Fatal(err)
		}
		for off := int64(0); off < size; off += int64(len(block)) {
			for i := 0; i < len(block); i += 4096 {
				block[i+int(off>>20)]++ // no two chunks are the same
			}
			if _, err := s.forest.Write(a.ID, block, off, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkpoint := func() (sealed int64) {
		t.Helper()
		before := s.cas.Stats().Bytes
		if err := s.checkpoint(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		return s.cas.Stats().Bytes - before
	}
	write("gone")
	before := s.cas.Stats().Bytes
	c, err := s.beginCheckpoint(true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.forest.Unlink(s.Main().Root(), "gone"); err != nil {
		t.Fatal(err)
	}
	if err := s.commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.finish(c); err != nil {
		t.Fatal(err)
	}
	if n := s.cas.Stats().Bytes - before; n > 1<<20 {
		t.Errorf("%d bytes sealed of a file that was removed", n)
	}
	if n := s.log.Size(); n < size {
		t.Errorf("the journal keeps %d bytes, without those that the checkpoint refers to", n)
	}
	if grown := s.grown(); grown > 1<<20 {
		t.Errorf("recovery has %d bytes of journal to read", grown)
	}
	write("kept")
	if n := checkpoint(); n > 1<<20 {
		t.Errorf("%d bytes sealed", n)
	}
	if n := s.log.Size(); n > 3*size/2 {
		t.Errorf("the journal keeps %d bytes, also those of a file that was removed", n)
	}
	if n := checkpoint(); n < size {
		t.Errorf("%d bytes sealed of a file that stays", n)
	}
	if n := s.log.Size(); n > size {
		t.Errorf("the journal keeps %d bytes, and all is sealed", n)
	}
}

// TestPostponeMost: files that are there are sealed when they come to so much that the
// journal had better do without them.
func TestPostponeMost(t *testing.T) {
	s := quietStore(t)
	a, err := s.forest.Create(s.Main().Root(), "f", live.Create{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.forest.Write(a.ID, make([]byte, 2<<20), 0, false); err != nil {
		t.Fatal(err)
	}
	if err := s.forest.Update(true, func(tx *live.Tx) error {
		c := &checkpoint{floor: live.NoPos}
		for most, want := range map[int64]int{2 << 20: 0, 2<<20 + 1: 1} {
			if n := len(s.young(tx, c, most)[live.MainView]); n != want {
				t.Errorf("of 2 MiB, %d allowed, %d files are postponed", most, n)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestPostponedRecovers changes large files at random, with captures, forks and
// checkpoints in between, kills the store (it copies the directory) and compares.
func TestPostponedRecovers(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { (&postponer{r: rand.New(rand.NewPCG(seed, 1))}).run(t) })
	}
}

type postponer struct {
	r     *rand.Rand
	s     *Store
	views []*Workspace
	files map[live.NodeID][]byte // what each holds
	names map[live.NodeID]string
}

func (p *postponer) run(t *testing.T) {
	p.s = quietStore(t)
	p.views = []*Workspace{p.s.Main()}
	p.files, p.names = map[live.NodeID][]byte{}, map[live.NodeID]string{}
	postponed := 0
	for step := range 160 {
		if err := p.change(step); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if step%20 != 19 {
			continue
		}
		postpone := step%80 != 79
		if err := p.s.forest.Update(true, func(tx *live.Tx) error {
			if !postpone {
				return nil
			}
			for _, young := range p.s.young(tx, &checkpoint{}, postponeMost) {
				postponed += len(young)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := p.s.checkpoint(t.Context(), postpone); err != nil {
			t.Fatal(err)
		}
		p.compare(t, p.s)
		for range 5 {
			step += 1000
			if err := p.change(step); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		dead := filepath.Join(t.TempDir(), "dead")
		if out, err := exec.Command("cp", "-a", "--sparse=always", p.s.dir, dead).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
		o, err := Open(dead, Options{Quiet: true})
		if err != nil {
			t.Fatal(err)
		}
		p.compare(t, o)
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if postponed == 0 {
		t.Error("no checkpoint postponed anything")
	}
}

// compare looks at all files of a store, and at what it counts.
func (p *postponer) compare(t *testing.T, s *Store) {
	t.Helper()
	sums := map[uint32]int64{}
	for id, want := range p.files {
		a, err := s.forest.GetAttr(id)
		if err != nil {
			t.Fatal(err)
		}
		if here, err := p.s.forest.GetAttr(id); err != nil || a != here {
			t.Fatalf("%v: %+v, and %+v before (%v)", id, a, here, err)
		}
		got := make([]byte, len(want)+1)
		if n, err := s.forest.ReadAt(id, got, 0); err != nil || !bytes.Equal(got[:n], want) {
			t.Fatalf("%v: %d bytes read, %d written (%v), and they differ", id, n, len(want), err)
		}
		sums[id.View()] += int64(len(want))
	}
	for _, w := range s.Workspaces() {
		st, err := w.State()
		if err != nil {
			t.Fatal(err)
		}
		if st.Bytes != sums[w.View()] {
			t.Fatalf("%s: %d bytes counted, %d there", w.Name(), st.Bytes, sums[w.View()])
		}
	}
}

// change makes a random one.
func (p *postponer) change(step int) error {
	r, f := p.r, p.s.forest
	ids := slices.Sorted(maps.Keys(p.files))
	k := r.IntN(30)
	if len(ids) < 3 || k < 3 && len(ids) < 8 {
		w := p.views[r.IntN(len(p.views))]
		name := fmt.Sprint("f", step)
		a, err := f.Create(w.Root(), name, live.Create{Mode: unix.S_IFREG | 0o644})
		p.files[a.ID], p.names[a.ID] = nil, name
		return err
	}
	id := ids[r.IntN(len(ids))]
	switch {
	case k < 6:
		_, err := f.Unlink(live.Node(id.View(), live.RootIno), p.names[id])
		f.Forget(id)
		delete(p.files, id)
		return err
	case k == 6:
		_, err := p.views[r.IntN(len(p.views))].Capture(CaptureOptions{})
		return err
	case k == 7 && len(p.views) < 3:
		w, err := p.s.Main().Fork(ForkOptions{Name: fmt.Sprint("w", step)})
		if err != nil {
			return err
		}
		p.views = append(p.views, w)
		for _, id := range ids {
			if id.View() == live.MainView {
				c := live.Node(w.View(), id.Ino())
				p.files[c], p.names[c] = bytes.Clone(p.files[id]), p.names[id]
			}
		}
		return nil
	case k == 8:
		size := r.Int64N(4 << 20)
		p.resize(id, size)
		_, err := f.SetAttr(id, live.SetAttr{Size: &size})
		return err
	case k == 9:
		off, n := r.Int64N(3<<20), r.Int64N(1<<20)+1
		if size := int64(len(p.files[id])); off < size {
			clear(p.files[id][off:min(off+n, size)])
		}
		return f.Fallocate(id, off, n, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
	case k == 10:
		from := ids[r.IntN(len(ids))]
		if from == id {
			return nil
		}
		soff, doff := r.Int64N(1<<20), r.Int64N(1<<20)
		n, err := f.CopyRange(from, soff, id, doff, r.Int64N(2<<20)+1)
		if n > 0 {
			p.write(id, p.files[from][soff:soff+n], doff)
		}
		return err
	}
	data := make([]byte, r.IntN(700<<10)+1)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	off := r.Int64N(2 << 20)
	p.write(id, data, off)
	_, err := f.Write(id, data, off, false)
	return err
}

func (p *postponer) resize(id live.NodeID, size int64) {
	b := make([]byte, size)
	copy(b, p.files[id])
	p.files[id] = b
}

func (p *postponer) write(id live.NodeID, data []byte, off int64) {
	if end := off + int64(len(data)); end > int64(len(p.files[id])) {
		p.resize(id, end)
	}
	copy(p.files[id][off:], data)
}
