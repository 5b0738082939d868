package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

// everywhere runs a test on each available kind of remote.
func everywhere(t *testing.T, fn func(t *testing.T, url string)) {
	t.Run("directory", func(t *testing.T) { fn(t, "file://"+t.TempDir()) })
	t.Run("s3", func(t *testing.T) { fn(t, remotetest.S3Prefix(remotetest.S3(t), "x/y")) })
	t.Run("registry", func(t *testing.T) { fn(t, "oci://"+remotetest.Registry(t)+"/x/y") })
}

func TestPush(t *testing.T) {
	everywhere(t, func(t *testing.T, url string) {
		ctx := t.Context()
		r := openRemote(t, url, Options{})
		w := newWorld()
		all := files(1, 300)
		v1 := w.tree(all)
		if _, err := r.Push(ctx, w.push("v1", v1, nil)); !errors.Is(err, ErrNoRemote) {
			t.Fatalf("push to a place that is no remote: %v", err)
		}
		initRemote(t, r)
		_, err := r.Push(ctx, w.push("v1", v1, nil))
		must.OK(t, err)
		elsewhere := openRemote(t, url, Options{})
		s := w.check(t, elsewhere, "v1", v1)

		all[7] = []byte("changed")
		v2 := w.tree(all)
		done, err := elsewhere.Push(ctx, w.push("v2", v2, s))
		must.OK(t, err)
		if done.Objects != 1 || done.Bytes > 2000 {
			t.Errorf("a push of one changed file sent %d objects, %d bytes", done.Objects, done.Bytes)
		}
		w.check(t, openRemote(t, url, Options{}), "v2", v2)
		w.check(t, openRemote(t, url, Options{}), "v1", v1)

		if done, err = r.Push(ctx, w.push("v2", v2, s)); err != nil || !done.Unchanged {
			t.Errorf("the same once more: %+v, %v", done, err)
		}
		if _, err := r.Push(ctx, w.push("v1", v2, nil)); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), v1.String()[:12]) {
			t.Errorf("a name in use: %v", err)
		}
		w.check(t, openRemote(t, url, Options{}), "v1", v1)
		p := w.push("v1", v2, nil)
		p.Force = true
		_, err = r.Push(ctx, p)
		must.OK(t, err)
		w.check(t, openRemote(t, url, Options{}), "v1", v2)
		must.OK(t, r.Remove(ctx, "v2"))
		if _, err := r.Ref(ctx, "v2"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("after it was removed: %v", err)
		}
	})
}

// TestPushRequests: a push of a snapshot that the remote has makes one request. A push of few changes makes four,
// whatever the size of its base. The first push of a new process makes two more: it reads the format and the ref of
// the base.
func TestPushRequests(t *testing.T) {
	p := remotetest.NewProxy(t, remotetest.S3(t))
	url, c := remotetest.S3Prefix(p.URL, "requests"), newCache(t)
	r := openRemote(t, url, Options{Cache: c})
	initRemote(t, r)
	w := newWorld()
	var all [][]byte
	for i := range uint64(8000) {
		all = append(all, remotetest.Bytes(i, 500)) // together with the index, more than maxHeadDataBytes
	}
	v1 := w.tree(all)
	done, err := r.Push(t.Context(), w.push("v1", v1, nil))
	must.OK(t, err)
	count := func(what string, want int64, r *Remote, name string, id cas.Hash) {
		before, base := p.Requests.Load(), r.Snapshot(done.Ref)
		if done, err = r.Push(t.Context(), w.push(name, id, base)); err != nil {
			t.Fatal(err)
		}
		if n := p.Requests.Load() - before; n > want {
			t.Errorf("%s took %d requests", what, n)
		}
	}
	count("nothing", 1, r, "v1", v1)
	all[3] = []byte("changed")
	count("one file", 4, r, "v2", w.tree(all))
	all[5] = []byte("changed, too")
	v3 := w.tree(all)
	count("one file, later", 6, openRemote(t, url, Options{Cache: c}), "v3", v3)
	w.check(t, openRemote(t, url, Options{}), "v3", v3)
}

// TestManyPushes: after many pushes, each on top of the previous one, the numbers of indexes and objects are
// limited, and all snapshots can be read.
func TestManyPushes(t *testing.T) {
	r := newRemote(t)
	w := newWorld()
	all := files(2, 500)
	var s *Snapshot
	for i := range 4 * maxIndexes {
		all[i*7%500] = fmt.Append(nil, "change ", i)
		name, id := fmt.Sprint("v", i), w.tree(all)
		done, err := r.Push(t.Context(), w.push(name, id, s))
		must.OK(t, err)
		s = w.check(t, r, name, id)
		if n := len(done.Ref.Indexes); n > maxIndexes {
			t.Fatalf("%d indexes", n)
		}
		if n := len(done.Ref.Objects); n > 2*maxIndexes {
			t.Fatalf("%d objects", n)
		}
	}
}

// TestPushesInRandomHistories: whatever the base of a push, another program can read the whole snapshot from the
// remote.
func TestPushesInRandomHistories(t *testing.T) {
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		url := "file://" + t.TempDir()
		r, w := openRemote(t, url, Options{}), newWorld()
		initRemote(t, r)
		all, kept := files(seed, 80), map[string]cas.Hash{}
		for i := range 30 {
			switch k := rnd.IntN(len(all)); rnd.IntN(4) {
			case 0:
				all = slices.Insert(all, k, fmt.Append(nil, "new ", i))
			case 1:
				all = slices.Delete(all, k, k+1)
			case 2:
				all[k] = all[rnd.IntN(len(all))]
			default:
				all = files(rnd.Uint64N(3), 60+rnd.IntN(40))
			}
			names := append(slices.Sorted(maps.Keys(kept)), "")
			var base *Snapshot
			if name := names[rnd.IntN(len(names))]; name != "" {
				ref, err := r.Ref(t.Context(), name)
				must.OK(t, err)
				if base = r.Snapshot(ref); rnd.IntN(3) == 0 { // the base is removed during the push, or before it
					must.OK(t, r.Remove(t.Context(), name))
					delete(kept, name)
				}
			}
			name := fmt.Sprint("v", i)
			kept[name] = w.tree(all)
			if _, err := r.Push(t.Context(), w.push(name, kept[name], base)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for name, id := range kept {
			w.check(t, openRemote(t, url, Options{}), name, id)
		}
	}
}

func TestLargePush(t *testing.T) {
	r := newRemote(t)
	w := newWorld()
	all := make([][]byte, 40)
	for i := range all {
		all[i] = remotetest.Bytes(uint64(i+1), 2<<20)
	}
	id := w.tree(all)
	var progress int64
	p := w.push("v1", id, nil)
	p.Progress = func(parts, of int, sent int64) {
		progress = sent
		if parts <= 0 || parts > of {
			t.Errorf("%d of %d parts", parts, of)
		}
	}
	done, err := r.Push(t.Context(), p)
	must.OK(t, err)
	for _, o := range done.Ref.Objects {
		if o.Size > maxObjectSize {
			t.Errorf("an object of %d bytes", o.Size)
		}
	}
	if done.Objects != 4 || progress != done.Bytes || done.Bytes < 80<<20 {
		t.Errorf("%+v, progress %d", done, progress)
	}
	w.check(t, r, "v1", id)
	must.OK(t, r.Remove(t.Context(), "v1"))
	// Objects that were sent before are not sent again.
	if done, err = r.Push(t.Context(), w.push("v2", id, nil)); err != nil || done.Objects != 1 {
		t.Errorf("once more: %+v, %v", done, err)
	}
}

func TestEncrypted(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	must.OK(t, err)
	dir := t.TempDir()
	r := openRemote(t, "file://"+dir, Options{Identities: []age.Identity{key}})
	initRemote(t, r, key.Recipient().String())
	w := newWorld()
	const secret = "a line that nobody else may read"
	all := append(files(3, 100), []byte(strings.Repeat(secret, 100)))
	v1 := w.tree(all)
	_, err = r.Push(t.Context(), w.push("v1", v1, nil))
	must.OK(t, err)
	s := w.check(t, openRemote(t, r.URL(), Options{Identities: []age.Identity{key}}), "v1", v1)
	all[0] = []byte("changed")
	v2 := w.tree(all)
	_, err = r.Push(t.Context(), w.push("v2", v2, s))
	must.OK(t, err)
	w.check(t, openRemote(t, r.URL(), Options{Identities: []age.Identity{key}}), "v2", v2)
	if _, err := openRemote(t, r.URL(), Options{}).Ref(t.Context(), "v1"); !errors.Is(err, errs.Perm) {
		t.Errorf("without the key: %v", err)
	}
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if strings.Contains(string(b), secret) || strings.Contains(string(b), v1.String()) {
			t.Errorf("%s tells the secret", p)
		}
		return err
	})
	must.OK(t, err)
}

// TestDamagedHere: a push of a snapshot that is damaged in the local store fails, and writes no ref.
func TestDamagedHere(t *testing.T) {
	r := newRemote(t)
	w := newWorld()
	all := files(4, 50)
	id := w.tree(all)
	p := w.push("v1", id, nil)
	bad := cas.Sum(all[20])
	p.ReadStored = func(ctx context.Context, h cas.Hash) (cas.StoredObject, error) {
		if h == bad {
			return cas.StoredObject{}, cas.ErrDamaged
		}
		return w.stored(ctx, h)
	}
	if _, err := r.Push(t.Context(), p); !errors.Is(err, cas.ErrDamaged) {
		t.Fatalf("push: %v", err)
	}
	if _, err := r.Ref(t.Context(), "v1"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the ref: %v", err)
	}
}

// TestDisturbedPush: if an answer to a push is lost, cut off or an error, the push succeeds, or it fails and writes
// no wrong ref. The next push succeeds.
func TestDisturbedPush(t *testing.T) {
	p := remotetest.NewProxy(t, remotetest.S3(t))
	w := newWorld()
	all := files(5, 100)
	id := w.tree(all)
	for n := range 6 {
		for _, fault := range []remotetest.Fault{remotetest.Busy, remotetest.Lost, remotetest.Cut} {
			r := openRemote(t, remotetest.S3Prefix(p.URL, fmt.Sprintf("d%d-%d", n, fault)), Options{})
			initRemote(t, r)
			for range n {
				p.Disturb(remotetest.Untouched)
			}
			p.Disturb(fault)
			if _, err := r.Push(t.Context(), w.push("v1", id, nil)); err != nil {
				t.Logf("fault %d at request %d: %v", fault, n, err)
				if _, err := r.Push(t.Context(), w.push("v1", id, nil)); err != nil {
					t.Fatalf("after fault %d at request %d: %v", fault, n, err)
				}
			}
			w.check(t, r, "v1", id)
		}
	}
}

func TestPull(t *testing.T) {
	everywhere(t, func(t *testing.T, url string) {
		r := openRemote(t, url, Options{})
		initRemote(t, r)
		w := newWorld()
		all := files(6, 400)
		id := w.tree(all)
		_, err := r.Push(t.Context(), w.push("v1", id, nil))
		must.OK(t, err)
		s := w.check(t, openRemote(t, url, Options{}), "v1", id)
		here := newWorld()
		// This page is garbage: the objects to which it refers are missing.
		b, _ := w.get(id)
		here.put(cas.KindTree, b)
		var last, total int64
		pull := PullOptions{
			Mark: marker(id, func(h cas.Hash) ([]byte, error) { return s.Get(t.Context(), h, nil) }),
			Has:  func(h cas.Hash) (bool, error) { _, err := here.get(h); return err == nil, nil },
			Put: func(k cas.Kind, b []byte) (cas.Hash, error) {
				if rest, ok := strings.CutPrefix(string(b), "page"); ok {
					for ; len(rest) >= 32; rest = rest[32:] {
						if _, err := here.get(cas.Hash([]byte(rest[:32]))); err != nil {
							t.Error("a page is put before what it names")
						}
					}
				}
				return here.put(k, b), nil
			},
			Progress: func(d, all int64) { last, total = d, all },
		}
		must.OK(t, s.Pull(t.Context(), pull))
		if len(here.objects) != len(w.objects) || last != total || total == 0 {
			t.Errorf("%d objects of %d, %d bytes of %d", len(here.objects), len(w.objects), last, total)
		}
	})
}
