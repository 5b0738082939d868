package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/tests/must"
)

// Suite is what every backend passes. open returns one that is empty, or another
// one of the same place.
func Suite(t *testing.T, open func(t *testing.T) backend.Backend) {
	t.Run("objects", func(t *testing.T) { testObjects(t, open(t)) })
	t.Run("refs", func(t *testing.T) { testRefs(t, open(t)) })
	t.Run("race", func(t *testing.T) { testRace(t, open(t), open(t)) })
	t.Run("keys", func(t *testing.T) { testKeys(t, open(t)) })
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, open(t)) })
}

// Bytes returns n bytes that do not compress.
func Bytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(b)
	return b
}

func testObjects(t *testing.T, b backend.Backend) {
	ctx := t.Context()
	data := Bytes(1, 3<<20+17)
	key := backend.ObjectOf(data).Key()
	if _, err := b.Stat(ctx, key); !errors.Is(err, backend.ErrNotFound) {
		t.Fatalf("stat of an absent object: %v", err)
	}
	if _, err := b.GetRange(ctx, key, 0, 10); !errors.Is(err, backend.ErrNotFound) {
		t.Fatalf("read of an absent object: %v", err)
	}
	for range 2 { // a second time changes nothing
		must.OK(t, b.Put(ctx, key, data, backend.PutOptions{}))
	}
	if info, err := b.Stat(ctx, key); err != nil || info.Size != int64(len(data)) {
		t.Fatalf("stat: %+v, %v", info, err)
	}
	end := int64(len(data))
	for _, r := range [][2]int64{{0, 1}, {0, end}, {5, 1000}, {1 << 20, 1 << 20}, {end - 1, 1}, {end - 5, 100}, {end, 10}, {end + 7, 3}, {9, 0}} {
		got, err := b.GetRange(ctx, key, r[0], r[1])
		want := data[min(r[0], end):min(r[0]+r[1], end)]
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("range %v: %d bytes, %v; want %d", r, len(got), err, len(want))
		}
	}
	if b.IsRegistry() {
		return
	}
	if keys := list(t, b, "obj/"); !slices.Equal(keys, []string{key}) {
		t.Errorf("listed %q", keys)
	}
	for range 2 {
		must.OK(t, b.Delete(ctx, key))
	}
	if _, err := b.Stat(ctx, key); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("stat of a deleted object: %v", err)
	}
}

func list(t *testing.T, b backend.Backend, prefix string) (keys []string) {
	t.Helper()
	must.OK(t, b.List(t.Context(), prefix, func(i backend.Info) error { keys = append(keys, i.Key); return nil }))
	slices.Sort(keys)
	return keys
}

func testRefs(t *testing.T, b backend.Backend) {
	ctx := t.Context()
	absent := backend.PutOptions{IfAbsent: true}
	must.OK(t, b.Put(ctx, "ref/v1", []byte("one"), absent))
	if err := b.Put(ctx, "ref/v1", []byte("two"), absent); !errors.Is(err, backend.ErrChanged) {
		t.Fatalf("a second put if absent: %v", err)
	}
	if data, err := backend.Get(ctx, b, "ref/v1"); err != nil || string(data) != "one" {
		t.Fatalf("%q, %v", data, err)
	}
	must.OK(t, b.Put(ctx, "ref/v1", []byte("two"), backend.PutOptions{}))
	if data, err := backend.Get(ctx, b, "ref/v1"); err != nil || string(data) != "two" {
		t.Fatalf("%q, %v", data, err)
	}
	must.OK(t, b.Put(ctx, "ref/a.b-c_D", []byte("x"), backend.PutOptions{}))
	if keys := list(t, b, "ref/"); !slices.Equal(keys, []string{"ref/a.b-c_D", "ref/v1"}) {
		t.Errorf("listed %q", keys)
	}
	must.OK(t, b.Delete(ctx, "ref/v1"))
	if _, err := backend.Get(ctx, b, "ref/v1"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("deleted ref: %v", err)
	}
}

// testRace lets 32 writers want one key at once.
func testRace(t *testing.T, a, b backend.Backend) {
	if a.IsRegistry() {
		return // it has no conditional puts, and says so
	}
	both := []backend.Backend{a, b}
	for round := range 3 {
		race(t, both, fmt.Sprint("ref/race", round))
	}
}

func race(t *testing.T, both []backend.Backend, key string) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var winners []string
	for i := range 32 {
		wg.Go(func() {
			data := fmt.Sprintf("%s by %d", key, i)
			err := both[i%2].Put(t.Context(), key, []byte(data), backend.PutOptions{IfAbsent: true})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners = append(winners, data)
			} else if !errors.Is(err, backend.ErrChanged) {
				t.Errorf("a loser: %v", err)
			}
		})
	}
	wg.Wait()
	data, err := backend.Get(t.Context(), both[0], key)
	if len(winners) != 1 || err != nil || string(data) != winners[0] {
		t.Fatalf("%d winners of 32; the key holds %q, %v", len(winners), data, err)
	}
}

func testKeys(t *testing.T, b backend.Backend) {
	ctx := t.Context()
	for _, key := range []string{"", "x", "obj/", "obj/ff", "ref/", "ref/..", "ref/a/b", "ref/../../x", "/ref/a", "ref/a..b", "ref/.a", "refs/a", "ref/a\n"} {
		if err := b.Put(ctx, key, nil, backend.PutOptions{}); err == nil {
			t.Errorf("put of key %q succeeded", key)
		}
		if _, err := backend.Get(ctx, b, key); err == nil {
			t.Errorf("get of key %q succeeded", key)
		}
		if err := b.Delete(ctx, key); err == nil {
			t.Errorf("delete of key %q succeeded", key)
		}
	}
}

func testCancelled(t *testing.T, b backend.Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Put(ctx, "ref/v1", nil, backend.PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if _, err := backend.Get(ctx, b, "ref/v1"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
}
