package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
	"github.com/amberfs/amberfs/tests/must"
)

// A clocked backend keeps keys in memory. Their times are those of a clock that the test sets.
type clocked struct {
	mu   sync.Mutex
	now  time.Time
	keys map[string]entry
}

type entry struct {
	data []byte
	at   time.Time
}

func newClocked() *clocked {
	return &clocked{now: time.Unix(1e9, 0), keys: map[string]entry{}}
}

func (c *clocked) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clocked) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clocked) remove(key string) { _ = c.Delete(context.Background(), key) }

func (c *clocked) list(prefix string) (keys []string) {
	_ = c.List(context.Background(), prefix, func(i backend.Info) error { keys = append(keys, i.Key); return nil })
	return keys
}

func (c *clocked) Put(_ context.Context, key string, data []byte, o backend.PutOptions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.keys[key]; o.IfAbsent && there {
		return backend.ErrChanged
	}
	c.keys[key] = entry{slices.Clone(data), c.now}
	return nil
}

func (c *clocked) Get(_ context.Context, key string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.keys[key]
	if !ok {
		return nil, fmt.Errorf("%s: %w", key, backend.ErrNotFound)
	}
	return e.data, nil
}

func (c *clocked) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	b, err := c.Get(ctx, key)
	return b[min(off, int64(len(b))):min(off+n, int64(len(b)))], err
}

func (c *clocked) Stat(ctx context.Context, key string) (backend.Info, error) {
	_, err := c.Get(ctx, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.keys[key]
	return backend.Info{Key: key, Size: int64(len(e.data)), Modified: e.at}, err
}

func (c *clocked) List(_ context.Context, prefix string, fn func(backend.Info) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(c.keys)) {
		if e, ok := c.keys[k]; ok && strings.HasPrefix(k, prefix) {
			if err := fn(backend.Info{Key: k, Size: int64(len(e.data)), Modified: e.at, MD5: md5Sum(e.data)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *clocked) Delete(_ context.Context, key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.keys, key)
	return nil
}

func (c *clocked) IsRegistry() bool      { return false }
func (c *clocked) URL() string           { return "memory" }
func (c *clocked) CloseIdleConnections() {}

// on returns a remote that uses the backend of a test.
func on(t testing.TB, b backend.Backend, o Options) *Remote {
	t.Helper()
	r := openRemote(t, "file://"+t.TempDir(), o)
	r.b.CloseIdleConnections()
	r.b = b
	return r
}

func collect(t testing.TB, r *Remote) Collected {
	t.Helper()
	c, err := r.GC(context.Background())
	must.OK(t, err)
	return c
}

// TestGC: the objects of a removed snapshot are deleted two days after the first collection that found them unused,
// and not earlier. Objects that other snapshots need stay.
func TestGC(t *testing.T) {
	b := newClocked()
	r := on(t, b, Options{})
	initRemote(t, r)
	w := newWorld()
	all := files(1, 100)
	v1 := w.tree(all)
	_, err := r.Push(t.Context(), w.push("v1", v1, nil))
	must.OK(t, err)
	s := w.check(t, r, "v1", v1)
	for i := range all[:50] {
		all[i] = fmt.Append(nil, "new ", i)
	}
	v2 := w.tree(all)
	_, err = r.Push(t.Context(), w.push("v2", v2, s))
	must.OK(t, err)
	must.OK(t, w.check(t, r, "v2", v2).Hold(t.Context(), "reader"))
	must.OK(t, r.Remove(t.Context(), "v2"))
	step := func(hours int, removed int) {
		t.Helper()
		b.now = b.now.Add(time.Duration(hours) * time.Hour)
		if c := collect(t, r); c.Removed != removed {
			t.Fatalf("after %d hours: %+v", hours, c)
		}
	}
	step(1, 0)
	step(100, 0) // protected by a hold
	b.now = b.now.Add(holdTime)
	step(1, 0)  // written to a seen mark
	step(1, 0)  // too early
	step(25, 0) // written to a condemned mark
	step(1, 0)  // too early
	step(25, 1)
	w.check(t, r, "v1", v1)
	step(100, 0)
	b.now = b.now.Add(holdTime)
	if c := collect(t, r); c.Objects != 1 || c.Waiting != 0 || len(b.list("hold/")) != 0 {
		t.Errorf("at the end: %+v, %q", c, b.list("hold/"))
	}
}

func TestExpiry(t *testing.T) {
	b := newClocked()
	r := on(t, b, Options{})
	initRemote(t, r)
	w := newWorld()
	for name, expires := range map[string]time.Time{"over": time.Now().Add(-30 * time.Hour), "soon": time.Now().Add(-time.Hour), "never": {}} {
		p := w.push(name, w.tree([][]byte{[]byte(name)}), nil)
		p.Ref.Expires = expires
		_, err := r.Push(t.Context(), p)
		must.OK(t, err)
	}
	if c := collect(t, r); c.Expired != 1 || c.Snapshots != 2 {
		t.Errorf("%+v", c)
	}
	if _, err := r.Ref(t.Context(), "over"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("what is over: %v", err)
	}
}

// TestGCUnreadable: a collection that cannot read a ref removes nothing.
func TestGCUnreadable(t *testing.T) {
	b := newClocked()
	r := on(t, b, Options{})
	initRemote(t, r)
	b.keys["ref/strange"] = entry{data: []byte(`{"version":99}`), at: b.now}
	b.keys["obj/"+strings.Repeat("0", 64)] = entry{at: b.now}
	for range 5 {
		b.now = b.now.Add(25 * time.Hour)
		if _, err := r.GC(t.Context()); !errors.Is(err, object.ErrNewer) {
			t.Fatalf("%v", err)
		}
	}
	if len(b.keys) < 3 {
		t.Error("something was removed")
	}
}

// steps returns the number of steps of the model test.
func steps() int {
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		return 2000
	}
	return 200
}

// TestCollectionModel interleaves the requests of pushes, removals and collections, with hours between them.
// Whenever one of them has ended, all objects that a ref names must exist. By the clock of the test, a push takes at
// most 20 hours, which is less than stagePeriod.
func TestCollectionModel(t *testing.T) {
	o := Options{Cache: newCache(t), Timeout: -1}
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, rt, t, o, rapid.Bool().Draw(rt, "entries"))
		for range steps() {
			m.step()
		}
		for len(m.tasks) > 0 {
			m.run(0)
		}
		m.checkAll()
	})
}

// TestPushMeetsCollection runs a push, and a collection that is about to remove the objects of this push. One of the
// two is stopped after up to 19 requests, while the other one runs to its end.
func TestPushMeetsCollection(t *testing.T) {
	o := Options{Cache: newCache(t), Timeout: -1}
	for n, first := range []bool{true, false, true, false} {
		for turns := range 20 {
			m := newModel(t, nil, t, o, n < 2)
			p := m.w.push("v1", m.w.tree(files(1, 3)), nil)
			m.push(p)
			m.finish()
			m.remove("v1")
			for range 2 {
				m.collect()
				m.finish()
				m.pass(25 * time.Hour)
			}
			begin := []func(){m.collect, func() { m.push(p) }}
			if first {
				slices.Reverse(begin)
			}
			begin[0]()
			for range turns {
				if len(m.tasks) > 0 {
					m.run(0)
				}
			}
			begin[1]()
			m.finish()
			for len(m.tasks) > 0 {
				m.finish()
			}
		}
	}
}

// TestCollectionsMeet stops a collection after up to 29 requests. While it is stopped, another collection removes
// the same objects, and a push sends them again.
func TestCollectionsMeet(t *testing.T) {
	o := Options{Cache: newCache(t), Timeout: -1}
	for turns := range 60 {
		m := newModel(t, nil, t, o, turns%2 == 0)
		p := m.w.push("v1", m.w.tree(files(1, 3)), nil)
		m.push(p)
		m.finish()
		m.remove("v1")
		for range 2 {
			m.collect()
			m.finish()
			m.pass(25 * time.Hour)
		}
		m.collect()
		for range turns / 2 {
			if len(m.tasks) > 0 {
				m.run(0)
			}
		}
		m.collect()
		m.finish()
		m.push(p)
		m.finish()
		for len(m.tasks) > 0 {
			m.finish()
		}
		if len(m.b.list("ref/")) != 1 {
			t.Fatal("nothing was pushed")
		}
	}
}

// TestLateCollection: a collection that has run for longer than maxRunTime removes nothing.
func TestLateCollection(t *testing.T) {
	b := newClocked()
	c := &gcRun{r: on(t, b, Options{}), objectSizes: map[string]int64{"x": 1}, startedAt: time.Now().Add(-maxRunTime - time.Minute)}
	if err := c.removeObjects(t.Context(), []string{"x"}); err == nil || c.result.Removed != 0 {
		t.Errorf("%v, %+v", err, c.result)
	}
}

// A model runs tasks, each of which waits for a turn before each of its requests.
type model struct {
	rapid.TB
	draw   *rapid.T
	b      *clocked
	w      *world
	tasks  []*task
	reader *Remote

	entries bool // each change of a ref has an entry
}

type task struct {
	ask   chan turn
	end   chan error
	began time.Time // by the service's clock
	push  bool
}

// A turn allows one request of a task. It ends when the request was answered.
type turn struct{ granted, ended chan struct{} }

// A waiting backend waits for a turn before each request.
type waiting struct {
	*clocked
	ask chan turn
}

// wait returns when the turn begins. The caller calls end.
func (w waiting) wait() (end func()) {
	t := turn{make(chan struct{}), make(chan struct{})}
	w.ask <- t
	<-t.granted
	return func() { close(t.ended) }
}

func (w waiting) Put(ctx context.Context, key string, data []byte, o backend.PutOptions) error {
	defer w.wait()()
	return w.clocked.Put(ctx, key, data, o)
}

func (w waiting) GetRange(ctx context.Context, key string, off, n int64) ([]byte, error) {
	defer w.wait()()
	return w.clocked.GetRange(ctx, key, off, n)
}

func (w waiting) Stat(ctx context.Context, key string) (backend.Info, error) {
	defer w.wait()()
	return w.clocked.Stat(ctx, key)
}

func (w waiting) List(ctx context.Context, prefix string, fn func(backend.Info) error) error {
	defer w.wait()()
	return w.clocked.List(ctx, prefix, fn)
}

func (w waiting) Delete(ctx context.Context, key string) error {
	defer w.wait()()
	return w.clocked.Delete(ctx, key)
}

func newModel(tb rapid.TB, draw *rapid.T, t *testing.T, o Options, entries bool) *model {
	m := &model{TB: tb, draw: draw, b: newClocked(), w: newWorld(), entries: entries}
	m.reader = m.remote(m.b, o)
	if !entries {
		must.OK(t, m.b.Put(t.Context(), "format", []byte(formatLine+`{"version":1,"conditional":true}`), backend.PutOptions{}))
	}
	initRemote(t, m.reader)
	return m
}

// remove removes a snapshot. On a remote without entries it deletes the ref itself, as a person or an older program
// does.
func (m *model) remove(name string) {
	if !m.entries {
		m.b.remove("ref/" + name)
	} else if err := m.reader.Remove(context.Background(), name); !errors.Is(err, backend.ErrNotFound) {
		must.OK(m, err)
	}
}

// remote returns a remote on a backend. It shares the options and the expander with the first remote, because they
// are expensive to make.
func (m *model) remote(b backend.Backend, o Options) *Remote {
	r := &Remote{b: b, o: o}
	r.health = healthTracker{probe: r.probe, report: func(bool, time.Time) {}}
	r.health.makeContexts()
	if m.reader != nil {
		r.expander, r.o = m.reader.expander, m.reader.o
	}
	return r
}

func (m *model) start(push bool, fn func(r *Remote) error) {
	t := &task{ask: make(chan turn), end: make(chan error, 1), began: m.b.time(), push: push}
	r := m.remote(waiting{m.b, t.ask}, Options{})
	m.tasks = append(m.tasks, t)
	go func() { t.end <- fn(r) }()
}

// run lets a task make its next request. If the task has ended, run removes it from the tasks.
func (m *model) run(i int) {
	t := m.tasks[i]
	select {
	case turn := <-t.ask:
		close(turn.granted)
		<-turn.ended
	case err := <-t.end:
		m.tasks = slices.Delete(m.tasks, i, i+1)
		if err != nil && !errors.Is(err, ErrExists) && !errors.Is(err, backend.ErrNotFound) {
			m.Fatalf("a task: %v", err)
		}
		m.checkAll()
	}
}

func (m *model) step() {
	switch n := rapid.IntRange(0, 19).Draw(m.draw, "step"); {
	case n < 3 && len(m.tasks) < 4:
		m.startPush()
	case n == 3 && len(m.tasks) < 4:
		m.collect()
	case n < 6: // a collection without interruption
		m.collect()
		m.finish()
	case n == 6 || n == 7:
		if m.entries && len(m.tasks) < 4 {
			name := m.name()
			m.start(true, func(r *Remote) error { return r.Remove(context.Background(), name) })
		} else {
			m.remove(m.name())
		}
	case n == 8:
		m.pass(time.Duration(rapid.IntRange(1, 30).Draw(m.draw, "hours")) * time.Hour)
	case n == 9 && len(m.tasks) < 3: // a push and a collection at the same time
		m.pass(25 * time.Hour)
		m.collect()
		m.startPush()
	case n == 10:
		m.pass(25 * time.Hour)
	case len(m.tasks) > 0:
		m.run(rapid.IntRange(0, len(m.tasks)-1).Draw(m.draw, "task"))
	}
}

func (m *model) name() string { return fmt.Sprint("v", rapid.IntRange(0, 1).Draw(m.draw, "name")) }

func (m *model) collect() {
	m.start(false, func(r *Remote) error { _, err := r.GC(context.Background()); return err })
}

// pass advances the clock. It first runs the tasks that would take too long by then.
func (m *model) pass(d time.Duration) {
	for i := 0; i < len(m.tasks); {
		t := m.tasks[i]
		if limit := map[bool]time.Duration{true: 20 * time.Hour, false: maxRunTime}[t.push]; m.b.time().Add(d).Sub(t.began) > limit {
			m.run(i)
			continue
		}
		i++
	}
	m.b.pass(d)
}

// startPush starts a push of one of few states under one of few names, so that several pushes use the same objects
// and names.
func (m *model) startPush() {
	id := m.w.tree([][]byte{[]byte("same"), fmt.Append(nil, "file ", rapid.IntRange(0, 1).Draw(m.draw, "content"))})
	p := m.w.push(m.name(), id, nil)
	p.Force = true
	if rapid.Bool().Draw(m.draw, "on a base") {
		p.Base = m.name()
	}
	m.push(p)
}

func (m *model) push(p PushOptions) {
	m.start(true, func(r *Remote) error { _, err := r.Push(context.Background(), p); return err })
}

// finish runs the newest task to its end.
func (m *model) finish() {
	for n := len(m.tasks); n == len(m.tasks); {
		m.run(n - 1)
	}
}

// checkAll checks that the remote has the objects of every ref, and that a scan finds exactly the refs on the
// remote.
func (m *model) checkAll() {
	v, err := m.reader.scanRefs(context.Background(), false)
	must.OK(m, err)
	refs := m.b.list("ref/")
	if len(refs) != len(v.refs) {
		m.Fatalf("%d snapshots are seen, and there are %q", len(v.refs), refs)
	}
	for _, key := range refs {
		ref, err := m.reader.Ref(context.Background(), strings.TrimPrefix(key, "ref/"))
		must.OK(m, err)
		if seen, ok := v.refs[ref.Name]; !ok || seen.ref.Nonce != ref.Nonce || !slices.Equal(seen.ref.Objects, ref.Objects) {
			m.Fatalf("%s is seen as %+v, and is %+v", key, seen.ref, ref)
		}
		for _, o := range ref.Objects {
			if _, err := m.b.Stat(context.Background(), o.Key()); err != nil {
				m.Fatalf("%s lacks an object: %v", key, err)
			}
		}
	}
}
