package cas

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestGCWithConcurrentPuts lets writers put new objects and old ones, some of
// them garbage until that moment, while collections run. What a writer got a hash
// for after begin must be there afterwards.
func TestGCWithConcurrentPuts(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	o := memOptions(t, fsys)
	s := openTest(t, dir, o)
	const objects = 600
	content := func(i int) []byte { return blob(uint64(i), 300+i*5) }
	for i := range objects {
		put(t, s, content(i))
	}
	root := map[int]bool{0: true, 7: true, 13: true}
	for round := range 4 {
		var wg sync.WaitGroup
		var on, stop atomic.Bool
		held := make([]map[int]bool, 3)
		begun := make(chan struct{})
		for w := range held {
			held[w] = map[int]bool{}
			rnd := rand.New(rand.NewPCG(uint64(round), uint64(w)))
			wg.Go(func() {
				for n := 0; !stop.Load(); n++ {
					after := on.Load()
					i := rnd.IntN(objects * 5 / 4)
					if n%3 == 0 {
						ok, err := s.Has(Sum(content(i)))
						if err != nil {
							t.Error(err)
							return
						}
						if !ok {
							continue
						}
					} else {
						if _, err := s.Put(KindData, content(i)); err != nil {
							t.Error(err)
							return
						}
					}
					if after {
						held[w][i] = true
					}
				}
			})
		}
		_, err := s.GC(context.Background(), false, func() { on.Store(true); close(begun) }, func(keep func(Hash) bool) error {
			<-begun
			for i := range root {
				keep(Sum(content(i)))
			}
			return nil
		}, nil)
		stop.Store(true)
		wg.Wait()
		must.OK(t, err)
		n := 0
		for _, h := range held {
			n += len(h)
			for i := range h {
				wantObject(t, s, content(i))
			}
		}
		for i := range root {
			wantObject(t, s, content(i))
		}
		verifyClean(t, s)
		t.Logf("round %d: %d objects held, %+v", round, n, s.Stats())
		if round == 1 {
			closeTest(t, s)
			s = openTest(t, dir, o)
		}
	}
}

// TestGCTouchesWhatPutFinds is the above without luck: the Put comes between mark
// and sweep.
func TestGCTouchesWhatPutFinds(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	put3, has3, gone := blob(1, 1000), blob(2, 1000), blob(3, 1000)
	for _, b := range [][]byte{put3, has3, gone} {
		put(t, s, b)
	}
	fresh := blob(4, 1000)
	res, err := s.GC(context.Background(), false, nil, func(func(Hash) bool) error {
		put(t, s, put3)
		put(t, s, fresh)
		if ok, err := s.Has(Sum(has3)); !ok || err != nil {
			t.Errorf("has: %v %v", ok, err)
		}
		return nil
	}, nil)
	must.OK(t, err)
	if res.RemovedObjects != 1 {
		t.Errorf("result %+v", res)
	}
	for _, b := range [][]byte{put3, has3, fresh} {
		wantObject(t, s, b)
	}
	wantMissing(t, s, Sum(gone))
}

func TestGCGivesSpaceBack(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	o := memOptions(t, fsys)
	s := openTest(t, dir, o)
	var keep [][]byte
	for i := range 120 {
		b := blob(uint64(2*i), 20_000)
		put(t, s, b)
		switch {
		case i < 40 && i%2 == 0, i >= 40 && i%15 == 0:
			keep = append(keep, b)
		}
	}
	before, packs := packBytes(t, s), s.packs.all()
	res := collectAllBut(t, s, keep)
	after := packBytes(t, s)
	live := int64(len(keep)) * 20_000
	if s.packs.get(packs[0].id) != nil {
		t.Errorf("no pack was emptied: %+v", res)
	}
	if freed := before - after; res.FreedBytes < freed*8/10 || res.FreedBytes > freed*12/10 {
		t.Errorf("result says %d bytes, the packs shrank by %d", res.FreedBytes, freed)
	}
	if after > live*3/2 {
		t.Errorf("packs take %d bytes for %d living", after, live)
	}
	// Again with nothing to do.
	if res := collectAllBut(t, s, keep); res.RemovedObjects != 0 || res.FreedBytes != 0 {
		t.Errorf("second collection: %+v", res)
	}
	// And everything, also from the pack that is appended to.
	collectAllBut(t, s, nil)
	if st := s.Stats(); st.Objects != 0 || st.PlainBytes != 0 || st.StoredBytes != 0 || packBytes(t, s) > 30_000 {
		t.Errorf("after removing everything: %+v", st)
	}
	for _, b := range keep {
		put(t, s, b)
		wantObject(t, s, b)
	}
	verifyClean(t, s)
}

// TestGCOfSmallObjects: between small objects there is no room for holes.
func TestGCOfSmallObjects(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	var keep [][]byte
	for i := range 3000 {
		b := blob(uint64(2*i), 150)
		put(t, s, b)
		if i%2 == 0 {
			keep = append(keep, b)
		}
	}
	before := packBytes(t, s)
	collectAllBut(t, s, keep)
	if after := packBytes(t, s); after > before*6/10 {
		t.Errorf("%d bytes before, %d after half the objects went", before, after)
	}
	for _, b := range keep {
		wantObject(t, s, b)
	}
	verifyClean(t, s)
	if res := collectAllBut(t, s, keep); res.RemovedObjects != 0 {
		t.Errorf("second collection: %+v", res)
	}
}

// TestGCLeavesLittleWaste: whatever part of small objects goes, what is left
// takes about what it would take alone.
func TestGCLeavesLittleWaste(t *testing.T) {
	for _, every := range []int{2, 3, 5, 10} { // one of so many goes
		s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
		alone := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
		var keep [][]byte
		for i := range 3000 {
			b := blob(uint64(2*i), 100+i%1900)
			put(t, s, b)
			if i%every != 0 {
				keep = append(keep, b)
				put(t, alone, b)
			}
		}
		collectAllBut(t, s, keep)
		if a, b := packBytes(t, s), packBytes(t, alone); a > b*11/10 {
			t.Errorf("one of %d gone: %d bytes, alone they take %d", every, a, b)
		}
		verifyClean(t, s)
	}
}

// noPunch is a disk without holes.
type noPunch struct{ vfs.FS }

type noPunchFile struct{ vfs.File }

func (n noPunch) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := n.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return noPunchFile{f}, nil
}

func (noPunchFile) Punch(int64, int64) error { return vfs.ErrNotSupported }

func TestGCWithoutHoles(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, noPunch{vfstest.NewMem()}))
	var keep [][]byte
	for i := range 60 {
		b := blob(uint64(2*i), 20_000)
		put(t, s, b)
		if i%10 == 0 {
			keep = append(keep, b)
		}
	}
	res := collectAllBut(t, s, keep)
	if res.FreedBytes == 0 {
		t.Errorf("result %+v", res)
	}
	for _, b := range keep {
		wantObject(t, s, b)
	}
	verifyClean(t, s)
}

func TestGCStops(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	b := blob(1, 1000)
	put(t, s, b)
	broken := errors.New("broken")
	if _, err := s.GC(context.Background(), false, nil, func(func(Hash) bool) error { return broken }, nil); !errors.Is(err, broken) {
		t.Errorf("gc whose mark failed: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err := s.GC(ctx, false, nil, func(func(Hash) bool) error { cancel(); return nil }, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled gc: %v", err)
	}
	wantObject(t, s, b)
}

// TestGCDescendsFromWhatIsPutAgain: an object that is put again while a
// collection runs is kept for that, but what it refers to is only kept if mark
// still comes by.
func TestGCDescendsFromWhatIsPutAgain(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	parent, child := blob(1, 500), blob(2, 500)
	put(t, s, child)
	put(t, s, parent)
	put(t, s, blob(3, 500))
	res, err := s.GC(context.Background(), false, func() { put(t, s, parent) }, func(keep func(Hash) bool) error {
		if keep(Sum(parent)) {
			keep(Sum(child))
		}
		if keep(Sum(parent)) {
			t.Error("the same object is named for the first time twice")
		}
		return nil
	}, nil)
	if err != nil || res.RemovedObjects != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	wantObject(t, s, parent)
	wantObject(t, s, child)
}

// TestPanicBeforeACollection leaves no turn taken.
func TestPanicBeforeACollection(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	err := guard.Do(func() error {
		_, err := s.BeginCollection(context.Background(), func(context.Context) error { panic("before") })
		return err
	})
	var p *guard.Panic
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	recorded := make(chan error, 1)
	go func() {
		r, err := s.BeginCollection(context.Background(), nil)
		if err == nil {
			r.Close()
		}
		recorded <- err
	}()
	must.OK(t, await.Receive(t, "the next turn", recorded))
	closeTest(t, s)
}

// TestCommitWhileAPackGoes: a pack that a commit is about to sync may be emptied and
// removed by a gc before it comes to it.
func TestCommitWhileAPackGoes(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	put(t, s, blob(1, 1000))
	p := s.packs.all()[0]
	end := p.end
	collectAllBut(t, s, nil)
	if s.packs.get(p.id) != nil {
		t.Fatal("the pack is still there")
	}
	if err := s.packs.syncPack(p, end); err != nil {
		t.Error(err)
	}
}
