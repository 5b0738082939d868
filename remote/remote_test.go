package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/object"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

func TestInit(t *testing.T) {
	everywhere(t, func(t *testing.T, url string) {
		var warned []string
		warn := func(s string) { warned = append(warned, s) }
		f, err := openRemote(t, url, Options{}).Init(t.Context(), nil, warn)
		must.OK(t, err)
		if f.ConditionalPuts != (len(warned) == 0) || f.ConditionalPuts == strings.HasPrefix(url, "oci:") {
			t.Errorf("%+v, warned %q", f, warned)
		}
		again, err := openRemote(t, url, Options{}).Init(t.Context(), nil, func(s string) { t.Error(s) })
		if err != nil || again.ConditionalPuts != f.ConditionalPuts {
			t.Errorf("a second time: %+v, %v", again, err)
		}
	})
}

// TestLyingService: Init warns about a service that ignores the condition of conditional writes. The remote works
// all the same.
func TestLyingService(t *testing.T) {
	endpoint := remotetest.Lying(t)
	r := openRemote(t, remotetest.S3Prefix(endpoint, "x"), Options{})
	var warned []string
	f, err := r.Init(t.Context(), nil, func(s string) { warned = append(warned, s) })
	must.OK(t, err)
	if f.ConditionalPuts || len(warned) != 1 || !strings.Contains(warned[0], "8 of 8") {
		t.Fatalf("%+v, warned %q", f, warned)
	}
	w := newWorld()
	id := w.tree(files(1, 50))
	_, err = r.Push(t.Context(), w.push("v1", id, nil))
	must.OK(t, err)
	w.check(t, r, "v1", id)
}

func TestForeignPlace(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "format"), []byte("PNG\n"), 0o644))
	r := openRemote(t, "file://"+dir, Options{})
	if _, err := r.Init(t.Context(), nil, nil); !errors.Is(err, ErrForeign) {
		t.Errorf("%v", err)
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "format"), []byte("amberfs remote 3\n{}"), 0o644))
	if _, err := r.Init(t.Context(), nil, nil); !errors.Is(err, object.ErrNewer) {
		t.Errorf("a newer remote: %v", err)
	}
}

// TestForeignPrefix: Init refuses a directory with objects of another program, because a collection would remove
// them.
func TestForeignPrefix(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, backend.ObjectOf([]byte("theirs")).Key())
	must.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.OK(t, os.WriteFile(file, []byte("theirs"), 0o644))
	r := openRemote(t, "file://"+dir, Options{})
	if _, err := r.Init(t.Context(), nil, nil); !errors.Is(err, ErrForeign) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "format")); err == nil {
		t.Error("it was set up")
	}
}

// TestCaseInsensitive: on a service that ignores the case of keys, a push does not replace a snapshot whose name
// differs only in case.
func TestCaseInsensitive(t *testing.T) {
	b := newClocked()
	r := on(t, folding{b}, Options{})
	initRemote(t, r)
	w := newWorld()
	one, two := w.tree(files(1, 3)), w.tree(files(2, 3))
	_, err := r.Push(t.Context(), w.push("v1", one, nil))
	must.OK(t, err)
	for _, force := range []bool{false, true} {
		p := w.push("V1", two, nil)
		p.Force = force
		if _, err := r.Push(t.Context(), p); !errors.Is(err, ErrExists) {
			t.Errorf("force %v: %v", force, err)
		}
	}
	w.check(t, r, "v1", one)
}

// folding is a backend that ignores the case of keys.
type folding struct{ *clocked }

func (f folding) Put(ctx context.Context, key string, data []byte, o backend.PutOptions) error {
	return f.clocked.Put(ctx, strings.ToLower(key), data, o)
}

func (f folding) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	return f.clocked.GetRange(ctx, strings.ToLower(key), off, n)
}

// FuzzFormat: decodeFormat returns a format or an error for any bytes.
func FuzzFormat(f *testing.F) {
	f.Add([]byte(formatLine + `{"version":1,"conditional":true}`))
	f.Add([]byte("amberfs remote 3\n{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if f, err := decodeFormat(raw); err == nil && f == nil {
			t.Error("neither")
		}
	})
}

// FuzzMarks: marks and holds that an attacker has written do not make a collection remove an object that a ref
// names.
func FuzzMarks(f *testing.F) {
	f.Add([]byte(`["`+strings.Repeat("a", 64)+`"]`), []byte(`{"objects":[]}`))
	f.Add([]byte(`["../format"]`), []byte(`{"objects":[{"name":"x","size":-1}]}`))
	f.Fuzz(func(t *testing.T, marks, holds []byte) {
		b := newClocked()
		dir, err := os.MkdirTemp("", "fuzz") // the name of t.TempDir has a #, which a URL cannot have
		must.OK(t, err)
		defer os.RemoveAll(dir)
		r := openRemote(t, "file://"+dir, Options{})
		r.b = b
		initRemote(t, r)
		w := newWorld()
		id := w.tree(files(1, 3))
		_, err = r.Push(t.Context(), w.push("v1", id, nil))
		must.OK(t, err)
		for key, raw := range map[string][]byte{"gc/seen-x": marks, "gc/condemned-y": marks, "hold/z": holds} {
			must.OK(t, b.Put(t.Context(), key, raw, backend.PutOptions{}))
		}
		for range 3 {
			b.pass(25 * time.Hour)
			_, _ = r.GC(t.Context())
		}
		w.check(t, r, "v1", id)
	})
}

// pushed returns a remote with the snapshot v1, behind a proxy.
func pushed(t *testing.T) (*remotetest.Proxy, string, *world, cas.Hash) {
	p := remotetest.NewProxy(t, remotetest.S3(t))
	url := remotetest.S3Prefix(p.URL, "x")
	r := openRemote(t, url, Options{})
	initRemote(t, r)
	w := newWorld()
	id := w.tree(files(9, 100))
	_, err := r.Push(t.Context(), w.push("v1", id, nil))
	must.OK(t, err)
	return p, url, w, id
}

// TestFlippedBytes: a reader does not get bytes that were changed by the network.
func TestFlippedBytes(t *testing.T) {
	p, url, w, id := pushed(t)
	flipped := 0
	for n := range 12 {
		o := Options{Cache: newCache(t)}
		r := openRemote(t, url, o)
		for range n {
			p.Disturb(remotetest.Untouched)
		}
		p.Disturb(remotetest.Flipped)
		ref, err := r.Ref(t.Context(), "v1")
		if err != nil {
			flipped++
			continue
		}
		s := r.Snapshot(ref)
		for h, want := range w.objects {
			if got, err := s.Get(t.Context(), h, nil); err == nil && string(got) != string(want.body) {
				t.Fatalf("wrong bytes of %s were served", h)
			} else if err != nil {
				flipped++
			}
		}
	}
	t.Log(flipped, "errors")
	w.check(t, openRemote(t, url, Options{}), "v1", id)
}

// TestLostCache: if the cache is removed or damaged, objects are fetched again. No snapshot counts as damaged
// because of the cache.
func TestLostCache(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	must.OK(t, err)
	for _, recipients := range [][]string{nil, {key.Recipient().String()}} {
		dir := filepath.Join(t.TempDir(), "cache")
		url := "file://" + t.TempDir()
		remote := func() *Remote {
			return openRemote(t, url, Options{Cache: cache.New(dir, 1<<30), Identities: []age.Identity{key}})
		}
		r, w := remote(), newWorld()
		initRemote(t, r, recipients...)
		id := w.tree(files(1, 500))
		_, err = r.Push(t.Context(), w.push("v1", id, nil))
		must.OK(t, err)
		zero := func() {
			blocks, _ := filepath.Glob(dir + "/??/*")
			for _, b := range blocks {
				fi, err := os.Stat(b)
				must.OK(t, err)
				must.OK(t, os.WriteFile(b, make([]byte, fi.Size()), 0o600))
			}
		}
		for what, lose := range map[string]func(){
			"removed": func() { os.RemoveAll(dir) },
			"zeroed":  zero,
			"in the way": func() {
				os.RemoveAll(dir)
				_ = os.WriteFile(dir, nil, 0o600)
			},
		} {
			s := w.check(t, r, "v1", id)
			lose()
			for h, want := range w.objects {
				if got, err := s.Get(t.Context(), h, nil); err != nil || string(got) != string(want.body) {
					t.Fatalf("%s: %s: %v", what, h, err)
				}
			}
			lose()
			w.check(t, remote(), "v1", id)
			lose()
			sum, err := remote().Verify(t.Context(), true, func(name string, err error) { t.Errorf("%s: %s: %v", what, name, err) }, nil)
			if err != nil || sum.Damaged != 0 {
				t.Errorf("%s: verify: %+v, %v", what, sum, err)
			}
			os.RemoveAll(dir)
		}
	}
}

// TestAwayAndBack: while the remote does not answer, cached objects can be read, and reads of others fail soon. When
// it answers again, all objects can be read.
func TestAwayAndBack(t *testing.T) {
	p, url, w, id := pushed(t)
	noted := make(chan bool, 100)
	r := openRemote(t, url, Options{})
	ref, err := r.Ref(t.Context(), "v1")
	must.OK(t, err)
	s := r.Snapshot(ref)
	b, err := s.Get(t.Context(), id, nil)
	must.OK(t, err)
	p.SetAway(true)
	again, err := s.Get(t.Context(), id, nil)
	if err != nil || string(again) != string(b) {
		t.Errorf("what is cached: %v", err)
	}
	cold := openRemote(t, url, Options{Timeout: 10 * time.Second, ReportAway: func(away bool, _ time.Time) { noted <- away }})
	index := s.index.Load()
	s = cold.Snapshot(s.Ref)
	s.index.Store(index)
	await.True(t, "it is known to be away", func() bool {
		if _, err := s.Get(t.Context(), id, nil); !errors.Is(err, backend.ErrAway) {
			t.Fatalf("what is not: %v", err)
		}
		return !cold.AwaySince().IsZero()
	})
	const reads = 1000
	requests := p.Requests.Load()
	for range reads {
		if _, err := s.Get(t.Context(), id, nil); !errors.Is(err, backend.ErrAway) {
			t.Fatal(err)
		}
	}
	if n := p.Requests.Load() - requests; n > reads/10 { // otherwise each read would make a request, and wait for ten seconds
		t.Errorf("%d reads of a remote that is away sent %d requests", reads, n)
	}
	p.SetAway(false)
	await.True(t, "it is back", func() bool { _, err := s.Get(t.Context(), id, nil); return err == nil })
	w.check(t, cold, "v1", id)
	if !cold.AwaySince().IsZero() {
		t.Error("it is still thought away")
	}
	if away, back := <-noted, !<-noted; !away || !back || len(noted) > 0 {
		t.Errorf("noted: away %v, back %v, and %d more", away, back, len(noted))
	}
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	r := openRemote(t, "file://"+dir, Options{})
	initRemote(t, r)
	w := newWorld()
	for i := range 3 {
		id := w.tree(files(uint64(20+i), 50))
		_, err := r.Push(t.Context(), w.push(fmt.Sprint("v", i), id, nil))
		must.OK(t, err)
	}
	verify := func(deep bool) (bad []string) {
		t.Helper()
		r := openRemote(t, "file://"+dir, Options{})
		var done, total int64
		v, err := r.Verify(t.Context(), deep, func(name string, err error) { bad = append(bad, name) },
			func(d, all int64) { done, total = d, all })
		if err != nil || v.Snapshots != 3 || v.Damaged != len(bad) {
			t.Fatalf("%+v, %v", v, err)
		}
		if done != total || total != v.Bytes {
			t.Errorf("it told of %d of %d bytes, where %d were looked at", done, total, v.Bytes)
		}
		return bad
	}
	if bad := verify(true); bad != nil {
		t.Fatalf("damaged: %q", bad)
	}
	ref, err := r.Ref(t.Context(), "v1")
	must.OK(t, err)
	file := filepath.Join(dir, ref.Objects[0].Key())
	b, err := os.ReadFile(file)
	must.OK(t, err)
	b[1000] ^= 1
	must.OK(t, os.WriteFile(file, b, 0o644))
	if bad := verify(false); bad != nil {
		t.Errorf("one flipped bit is not seen without reading: %q", bad)
	}
	if bad := verify(true); fmt.Sprint(bad) != "[v1]" {
		t.Errorf("one flipped bit: %q", bad)
	}
	must.OK(t, os.Remove(file))
	if bad := verify(false); fmt.Sprint(bad) != "[v1]" {
		t.Errorf("an object that is gone: %q", bad)
	}
}
