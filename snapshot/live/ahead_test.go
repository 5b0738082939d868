package live

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// countingStore is an object store in memory that counts how often bytes of files are
// asked for.
type countingStore struct {
	mu      sync.Mutex
	objects map[cas.Hash][]byte
	data    map[cas.Hash]bool
	gets    int
	fault   bool // panic when bytes of files are asked for
}

func (s *countingStore) Put(kind cas.Kind, b []byte) (cas.Hash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := cas.Sum(b)
	s.objects[h] = bytes.Clone(b)
	s.data[h] = kind == cas.KindData
	return h, nil
}

func (s *countingStore) Get(h cas.Hash, dst []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.objects[h]
	if !ok {
		return dst, cas.ErrNotFound
	}
	if s.data[h] {
		if s.fault {
			panic("a fault in the store")
		}
		s.gets++
	}
	return append(dst[:0], b...), nil
}

func (s *countingStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets
}

// sealedForest is a forest that was loaded from a store, and its files in the order in
// which they are listed, with what is in them.
func sealedForest(t *testing.T) (*Forest, *countingStore, []NodeID, map[NodeID][]byte) {
	t.Helper()
	store := &countingStore{objects: map[cas.Hash][]byte{}, data: map[cas.Hash]bool{}}
	log, err := journal.Open("journal", journal.Options{FS: vfstest.NewMem(), SegmentSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	forest := func(root func(tx *Tx) (*tree.State, error)) *Forest {
		f := New(Options{
			Source: tree.NewSource(store, log, 1<<20), Log: log, Logger: slog.New(slog.DiscardHandler),
			ReadView: func(uint32) (*tree.State, error) { return nil, ErrStale },
		})
		if err := f.Update(true, func(tx *Tx) error {
			s, err := root(tx)
			if err == nil {
				tx.AddView(MainView, s)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := forest(func(tx *Tx) (*tree.State, error) { return tx.NewRoot(unix.S_IFDIR|0o755, 0, 0, 1), nil })
	texts := map[NodeID][]byte{}
	var fill func(dir NodeID, below int)
	fill = func(dir NodeID, below int) {
		for i := range 12 {
			if below > 0 && i%4 == 0 {
				a, err := f.Create(dir, fmt.Sprintf("d%d", i), Create{Mode: unix.S_IFDIR | 0o755})
				if err != nil {
					t.Fatal(err)
				}
				fill(a.ID, below-1)
			}
			a, err := f.Create(dir, fmt.Sprintf("f%d", i), Create{Mode: unix.S_IFREG | 0o644})
			if err != nil {
				t.Fatal(err)
			}
			texts[a.ID] = bytes.Repeat(fmt.Appendf(nil, "file %d\n", len(texts)), 300)
			if _, err := f.Write(a.ID, texts[a.ID], 0, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(Node(MainView, RootIno), 3)
	var id cas.Hash
	if err := f.Update(true, func(tx *Tx) error {
		s, err := tx.Capture(MainView)
		if err == nil {
			id, err = tree.Seal(context.Background(), f.src, &content.Sealer{Src: f.src.Files, Objects: store}, s)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f = forest(func(tx *Tx) (*tree.State, error) {
		tx.SetCounters(RootIno+1+2*uint64(len(texts)), 0)
		return tree.Load(tree.NewSource(store, log, 1<<20), id)
	})
	return f, store, listed(t, f, Node(MainView, RootIno)), texts
}

// listed are the files below a directory in the order in which they are listed.
func listed(t *testing.T, f *Forest, dir NodeID) (files []NodeID) {
	t.Helper()
	var entries []tree.Dirent
	if err := f.ReadDir(dir, 0, func(e tree.Dirent, _ uint64) bool {
		entries = append(entries, e)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type == unix.S_IFDIR {
			files = append(files, listed(t, f, Node(MainView, e.Ino))...)
		} else {
			files = append(files, Node(MainView, e.Ino))
		}
	}
	return files
}

func idle() bool { return false }

// read reads a whole file, and checks it.
func read(t *testing.T, f *Forest, id NodeID, want []byte) {
	t.Helper()
	got := make([]byte, 64<<10)
	n, err := f.ReadAt(id, got, 0)
	if err != nil || !bytes.Equal(got[:n], want) {
		t.Errorf("node %d: %d bytes, %v, not %d", id, n, err, len(want))
	}
}

// TestAhead reads a tree in the order in which it is listed: after the first files the
// bytes of nearly all are there before they are asked for, and nothing is expanded twice.
func TestAhead(t *testing.T) {
	f, store, files, texts := sealedForest(t)
	late := 0
	for _, id := range files {
		before := store.count()
		read(t, f, id, texts[id])
		late += store.count() - before
		f.Ahead(func() bool { return true })
		f.Ahead(idle)
		f.Ahead(idle)
	}
	if late > len(files)/20 {
		t.Errorf("%d of %d files had to be expanded when they were asked for", late, len(files))
	}
	if n := store.count(); n > len(files)+content.MaxAhead {
		t.Errorf("%d chunks were expanded for %d files", n, len(files))
	}
}

// TestAheadFault: a fault while a file is expanded ahead ends nothing and holds no lock.
func TestAheadFault(t *testing.T) {
	f, store, files, texts := sealedForest(t)
	for _, id := range files {
		read(t, f, id, texts[id])
		store.fault = true
		f.Ahead(idle)
		store.fault = false
	}
	if n := store.count(); n != len(files) {
		t.Errorf("%d chunks were expanded for %d files", n, len(files))
	}
}

// TestAheadAtRandom reads it in other orders, in which nothing can be foreseen.
func TestAheadAtRandom(t *testing.T) {
	for how, order := range map[string]func([]NodeID){
		"backwards": func(ids []NodeID) { slices.Reverse(ids) },
		"at random": func(ids []NodeID) {
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		},
	} {
		f, store, files, texts := sealedForest(t)
		order(files)
		for _, id := range files {
			read(t, f, id, texts[id])
			f.Ahead(idle)
			f.Ahead(idle)
		}
		if n := store.count(); n > len(files)+len(files)/50 {
			t.Errorf("%s: %d chunks were expanded for %d files", how, n, len(files))
		}
	}
}

// TestAheadBesideChanges reads by several while files are written and removed.
func TestAheadBesideChanges(t *testing.T) {
	f, _, files, texts := sealedForest(t)
	root := Node(MainView, RootIno)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for _, id := range files {
				read(t, f, id, texts[id])
				f.Ahead(idle)
			}
		})
	}
	all.Go(func() {
		for i := range 200 {
			a, err := f.Create(root, fmt.Sprintf("new%d", i), Create{Mode: unix.S_IFREG | 0o644})
			if err == nil {
				_, err = f.Write(a.ID, []byte("new"), 0, false)
			}
			if err == nil && i%2 == 0 {
				_, err = f.Unlink(root, fmt.Sprintf("new%d", i))
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
}
