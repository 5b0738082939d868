package remote

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/object"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

// A world is a store with objects that refer to other objects.
type world struct {
	mu      sync.Mutex
	objects map[cas.Hash]thing
}

type thing struct {
	kind cas.Kind
	body []byte
	kids []cas.Hash
}

func newWorld() *world { return &world{objects: map[cas.Hash]thing{}} }

func (w *world) put(kind cas.Kind, body []byte, kids ...cas.Hash) cas.Hash {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := cas.Sum(body)
	w.objects[h] = thing{kind, body, kids}
	return h
}

// tree stores a state with files, one record each, and returns its id. A page has the hashes of the objects to which
// it refers, 32 bytes each.
func (w *world) tree(files [][]byte) cas.Hash {
	var pages []cas.Hash
	for i := 0; i < len(files); i += 16 {
		var kids []cas.Hash
		for _, f := range files[i:min(i+16, len(files))] {
			kids = append(kids, w.put(cas.KindData, f))
		}
		pages = append(pages, w.page(kids))
	}
	return w.page(pages)
}

func (w *world) page(kids []cas.Hash) cas.Hash {
	body := []byte("page")
	for _, k := range kids {
		body = append(body, k[:]...)
	}
	return w.put(cas.KindTree, body, kids...)
}

// marker returns a function for PushOptions.Mark that walks over a state. get reads an object.
func marker(id cas.Hash, get func(cas.Hash) ([]byte, error)) func(context.Context, func(cas.Hash) bool) error {
	return func(ctx context.Context, keep func(cas.Hash) bool) error { return walk(ctx, id, get, keep) }
}

func walk(ctx context.Context, h cas.Hash, get func(cas.Hash) ([]byte, error), keep func(cas.Hash) bool) error {
	if !keep(h) {
		return ctx.Err()
	}
	b, err := get(h)
	if err != nil {
		return err
	}
	rest, isPage := strings.CutPrefix(string(b), "page")
	if !isPage {
		return nil
	}
	for ; len(rest) >= 32; rest = rest[32:] {
		if err := walk(ctx, cas.Hash([]byte(rest[:32])), get, keep); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) get(h cas.Hash) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.objects[h]
	if !ok {
		return nil, fmt.Errorf("%s: %w", h, cas.ErrNotFound)
	}
	return t.body, nil
}

func (w *world) stored(_ context.Context, h cas.Hash) (cas.StoredObject, error) {
	b, err := w.get(h)
	w.mu.Lock()
	defer w.mu.Unlock()
	return cas.StoredObject{Kind: w.objects[h].kind, PlainSize: len(b), Bytes: b}, err
}

// push returns the options for a push of a state of the world.
func (w *world) push(name string, id cas.Hash, base *Snapshot) PushOptions {
	p := PushOptions{
		Ref:  object.Ref{Name: name, ID: id.String(), Created: time.Unix(1, 0)},
		Mark: marker(id, w.get), ReadStored: w.stored,
	}
	if base != nil {
		p.Base = base.Ref.Name
	}
	return p
}

// files returns n files of 100 to 2,100 random bytes.
func files(seed uint64, n int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([][]byte, n)
	for i := range out {
		out[i] = remotetest.Bytes(r.Uint64(), 100+r.IntN(2000))
	}
	return out
}

func openRemote(t testing.TB, url string, o Options) *Remote {
	t.Helper()
	if o.Cache == nil {
		o.Cache = newCache(t)
	}
	r, err := Open(url, o)
	must.OK(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func newCache(t testing.TB) *cache.Cache {
	t.Helper()
	return cache.New(t.TempDir(), 1<<30)
}

// newRemote sets up a remote in a directory.
func newRemote(t testing.TB, recipients ...string) *Remote {
	t.Helper()
	r := openRemote(t, "file://"+t.TempDir(), Options{})
	initRemote(t, r, recipients...)
	return r
}

func initRemote(t testing.TB, r *Remote, recipients ...string) {
	t.Helper()
	_, err := r.Init(context.Background(), recipients, func(s string) { t.Log(s) })
	must.OK(t, err)
}

// load reads a snapshot and all of its objects.
func load(t testing.TB, r *Remote, name string) (*Snapshot, map[cas.Hash][]byte) {
	t.Helper()
	ctx := context.Background()
	ref, err := r.Ref(ctx, name)
	must.OK(t, err)
	s := r.Snapshot(ref)
	all := map[cas.Hash][]byte{}
	get := func(h cas.Hash) ([]byte, error) { return s.Get(ctx, h, nil) }
	err = walk(ctx, s.Ref.StateHash(), get, func(h cas.Hash) bool {
		b, err := get(h)
		if err != nil {
			t.Fatalf("snapshot %s: %v", name, err)
		}
		all[h] = b
		return true
	})
	must.OK(t, err)
	return s, all
}

// check compares the objects of a snapshot on a remote with those in the world.
func (w *world) check(t testing.TB, r *Remote, name string, id cas.Hash) *Snapshot {
	t.Helper()
	s, all := load(t, r, name)
	if s.Ref.StateHash() != id {
		t.Fatalf("%s is %s, not %s", name, s.Ref.StateHash(), id)
	}
	n := 0
	err := walk(context.Background(), id, w.get, func(h cas.Hash) bool {
		n++
		if string(all[h]) != string(w.objects[h].body) {
			t.Fatalf("object %s of %s is another one", h, name)
		}
		return true
	})
	if err != nil || n == 0 {
		t.Fatalf("%d objects, %v", n, err)
	}
	return s
}
