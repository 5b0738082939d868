package remote

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
	"github.com/amberfs/amberfs/tests/must"
)

// requests counts the requests to a service that lists at most 1,000 keys with each request.
type requests struct {
	*clocked
	n atomic.Int64
}

func (q *requests) Put(ctx context.Context, key string, data []byte, o backend.PutOptions) error {
	q.n.Add(1)
	return q.clocked.Put(ctx, key, data, o)
}

func (q *requests) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	q.n.Add(1)
	return q.clocked.GetRange(ctx, key, off, n)
}

func (q *requests) Stat(ctx context.Context, key string) (backend.Info, error) {
	q.n.Add(1)
	return q.clocked.Stat(ctx, key)
}

func (q *requests) Delete(ctx context.Context, key string) error {
	q.n.Add(1)
	return q.clocked.Delete(ctx, key)
}

func (q *requests) DeleteAll(ctx context.Context, keys []string) error {
	q.n.Add(1)
	for _, key := range keys {
		if err := q.clocked.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (q *requests) List(ctx context.Context, prefix string, fn func(backend.Info) error) error {
	keys := 0
	err := q.clocked.List(ctx, prefix, func(i backend.Info) error { keys++; return fn(i) })
	q.n.Add(int64(max((keys+999)/1000, 1)))
	return err
}

// count returns the number of requests that fn makes.
func (q *requests) count(fn func()) int64 {
	before := q.n.Load()
	fn()
	return q.n.Load() - before
}

// putRef writes a ref with an object of its own, as an older program does: it writes no entry.
func putRef(t *testing.T, b backend.Backend, n int) *object.Ref {
	t.Helper()
	data := fmt.Append(nil, "object ", n)
	o := backend.ObjectOf(data)
	ref := &object.Ref{
		Version: object.Version, Name: fmt.Sprint("s", n), ID: cas.Sum(data).String(), Nonce: uuid.NewString(), Created: time.Unix(int64(n), 0),
		Objects: []backend.Object{o},
	}
	raw, err := ref.Encode()
	must.OK(t, err)
	must.OK(t, b.Put(t.Context(), o.Key(), data, backend.PutOptions{}))
	must.OK(t, b.Put(t.Context(), "ref/"+ref.Name, raw, backend.PutOptions{}))
	return ref
}

// names returns the names of the snapshots that another program finds.
func names(t *testing.T, b backend.Backend) (all []string) {
	t.Helper()
	must.OK(t, on(t, b, Options{}).Refs(t.Context(), func(name string, _ *object.Ref, err error) error {
		all = append(all, name)
		return err
	}))
	slices.Sort(all)
	return all
}

// TestRequests: on a remote with 10,000 snapshots, a listing and a collection make at most 10 requests each, also
// after some pushes and removals. A collection that removes objects lists all objects, and removes up to 1,000 with
// each request.
func TestRequests(t *testing.T) {
	const snapshots, most = 10_000, 10
	b := &requests{clocked: newClocked()}
	initRemote(t, on(t, b, Options{}))
	for n := range snapshots {
		putRef(t, b.clocked, n)
	}
	names(t, b) // writes the list
	gc := func() (c Collected) {
		r := on(t, b, Options{})
		if n := b.count(func() { c = collect(t, r) }); n > most {
			t.Errorf("a collection took %d requests", n)
		}
		return c
	}
	list := func(want int, extra int64) {
		t.Helper()
		var got []string
		if n := b.count(func() { got = names(t, b) }); n > 4+extra || len(got) != want {
			t.Errorf("a list of %d snapshots, want %d, took %d requests", len(got), want, n)
		}
	}
	list(snapshots, 0)
	if c := gc(); c.Snapshots != snapshots || c.Objects != snapshots || c.Waiting != 0 {
		t.Errorf("the collection: %+v", c)
	}
	w := newWorld()
	for _, name := range []string{"new1", "new2"} {
		_, err := on(t, b, Options{}).Push(t.Context(), w.push(name, w.tree(files(7, 2)), nil))
		must.OK(t, err)
	}
	const old, entries = 33, 35 // removed snapshots, and changed names
	for n := range old {
		must.OK(t, on(t, b, Options{}).Remove(t.Context(), fmt.Sprint("s", n)))
	}
	list(snapshots+2-old, entries+1)

	// The objects of removed snapshots are removed, and an object of a push that did not end.
	left := backend.ObjectOf([]byte("left"))
	must.OK(t, b.clocked.Put(t.Context(), left.Key(), []byte("left"), backend.PutOptions{}))
	removed := 0
	for range 300 {
		b.pass(25 * time.Hour)
		marks := len(b.list(seenPrefix)) + len(b.list(condemnedPrefix)) + len(b.list(removedPrefix))
		var c Collected
		n := b.count(func() { c = collect(t, on(t, b, Options{})) })

		// For each mark, a collection makes three requests: it reads the mark, writes it for the next stage, and
		// deletes it.
		if n > most+entries && c.Removed == 0 || n > int64(most+2*(snapshots/1000+1)+3*marks) {
			t.Errorf("a collection that removed %d objects took %d requests", c.Removed, n)
		}
		if removed += c.Removed; removed == old+1 {
			break
		}
	}
	if _, err := b.Get(t.Context(), left.Key()); removed != old+1 || err == nil {
		t.Errorf("%d objects were removed, want 34; the one that was left: %v", removed, err)
	}
	b.pass(25 * time.Hour)
	collect(t, on(t, b, Options{})) // deletes the last mark
	list(snapshots+2-old, 0)
	gc()
}

// TestRefWithoutEntry: a collection does not remove the object of a ref that is neither in an entry nor in the list.
// A scan finds this ref after a collection that had objects to remove.
func TestRefWithoutEntry(t *testing.T) {
	b := newClocked()
	r := on(t, b, Options{})
	r.maxUnlisted = 0
	initRemote(t, r)
	w := newWorld()
	_, err := r.Push(t.Context(), w.push("v1", w.tree(files(1, 3)), nil))
	must.OK(t, err)
	collect(t, r)
	if len(b.list(listKeyPrefix)) == 0 {
		t.Fatal("there is no list")
	}
	ref := putRef(t, b, 5)
	if got := names(t, b); len(got) != 1 {
		t.Fatalf("the list does not count: %q", got)
	}
	for range 6 {
		b.pass(25 * time.Hour)
		collect(t, r)
	}
	if _, err := b.Stat(t.Context(), ref.Objects[0].Key()); err != nil {
		t.Errorf("its object: %v", err)
	}
	if got := names(t, b); len(got) != 2 {
		t.Errorf("the snapshots are %q", got)
	}
}
