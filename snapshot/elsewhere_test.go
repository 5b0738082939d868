package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// A place is what is on a remote: objects that were copied there, with all that is
// below each. It counts how often it is asked for one.
type place struct {
	mu      sync.Mutex
	objects map[cas.Hash][]byte
	near    map[cas.Hash]bool // those that were read
	gets    int
	away    bool
	fresh   bool // the next store is new, and begins empty
}

func newPlace() *place { return &place{objects: map[cas.Hash][]byte{}, near: map[cas.Hash]bool{}} }

func (p *place) HasAny() bool { return true }

func (p *place) Has(h cas.Hash) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.objects[h]
	return ok, nil
}

func (p *place) Get(h cas.Hash, dst []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gets++
	b, ok := p.objects[h]
	switch {
	case p.away:
		return dst[:0], errors.New("away")
	case !ok:
		return dst[:0], cas.ErrNotFound
	}
	p.near[h] = true
	return append(dst[:0], b...), nil
}

func (p *place) GetLocal(h cas.Hash, dst []byte) ([]byte, error) {
	p.mu.Lock()
	near := p.near[h]
	_, ok := p.objects[h]
	p.mu.Unlock()
	if near {
		return p.Get(h, dst)
	}
	if !ok {
		return dst[:0], cas.ErrNotFound
	}
	return dst[:0], &cas.AbsentError{Hash: h, Fetch: func(context.Context) error {
		_, err := p.Get(h, nil)
		return err
	}}
}

// push copies what a snapshot needs to the place.
func (p *place) push(t *testing.T, w *snapshot.Workspace, name string) info.Info {
	t.Helper()
	ctx, s := context.Background(), w.Store()
	x, err := w.Remotes().PreparePush(ctx, name)
	must.OK(t, err)
	defer x.Release()
	err = x.State.Mark(ctx, s.Source(), nil, false, func(h cas.Hash) bool {
		if ok, _ := p.Has(h); ok {
			return false
		}
		b, err := s.Object(h, nil)
		must.OK(t, err)
		p.mu.Lock()
		p.objects[h] = b
		p.mu.Unlock()
		return true
	})
	must.OK(t, err)
	return x.Info
}

func openWith(t *testing.T, dir string, p *place, start *snapshot.StartSnapshot) *snapshot.Store {
	t.Helper()
	s, err := snapshot.Open(dir, snapshot.Options{Connect: func(c snapshot.ConnectArgs) (tree.RemoteObjects, *snapshot.StartSnapshot, error) {
		if c.Empty != (start != nil || p.fresh) {
			t.Errorf("it is the first time: %v", c.Empty)
		}
		p.fresh = false
		return p, start, nil
	}})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func startOf(t *testing.T, i info.Info) *snapshot.StartSnapshot {
	t.Helper()
	h, err := cas.ParseHash(i.ID)
	must.OK(t, err)
	return &snapshot.StartSnapshot{ID: h, Info: i}
}

func stateDump(t *testing.T, w *snapshot.Workspace, name string) string {
	t.Helper()
	st, _, err := w.HoldState(name)
	must.OK(t, err)
	return stores.Dump(t, w.Store(), st)
}

// A store that begins with a pushed snapshot has its files, takes changes, and goes
// on after it was closed, collected and verified; what is only elsewhere stays there.
func TestStartElsewhere(t *testing.T) {
	ctx, p := context.Background(), newPlace()
	a := open(t, t.TempDir())
	for i := range 300 {
		write(t, a, a.Main().Root(), fmt.Sprint("f", i), strings.Repeat(fmt.Sprint("line ", i, "\n"), 200))
	}
	_, err := a.Main().Capture(snapshot.CaptureOptions{Name: "v1", Message: "hello"})
	must.OK(t, err)
	info := p.push(t, a.Main(), "v1")
	all := stateDump(t, a.Main(), "v1")

	dir := t.TempDir()
	s := openWith(t, dir, p, startOf(t, info))
	if p.gets > 20 {
		t.Errorf("opening read %d objects", p.gets)
	}
	check := func() {
		t.Helper()
		for _, name := range []string{"v1", "base"} {
			if got := stateDump(t, s.Main(), name); got != all {
				t.Errorf("%s is another tree", name)
			}
		}
		want(t, "untouched", read(t, s, s.Main().Root(), "f7"), strings.Repeat("line 7\n", 200))
	}
	check()
	i := stores.Find(t, s.Main(), "v1")
	want(t, "info", fmt.Sprintf("%v %s %s %d", i.ID == info.ID, i.Message, i.Kind, i.Files), "true hello pull 300")
	write(t, s, s.Main().Root(), "f3", "mine")
	write(t, s, s.Main().Root(), "new", "also mine")
	_, err = s.Main().Capture(snapshot.CaptureOptions{Name: "v2"})
	must.OK(t, err)
	_, err = s.Main().Snapshots().WaitSealed(ctx, "v2")
	must.OK(t, err)
	for range 2 {
		_, err := s.GC(ctx, nil)
		must.OK(t, err)
		before := p.gets
		r, err := s.Verify(ctx, nil)
		if err != nil || !r.OK() {
			t.Fatalf("%+v, %v", r, err)
		}
		if p.gets-before > 20 {
			t.Errorf("verify read %d objects from elsewhere", p.gets-before)
		}
		if n := s.CAS().Stats().Objects; n == 0 || n > 60 {
			t.Errorf("%d objects are in the store", n)
		}
		want(t, "f3", read(t, s, s.Main().Root(), "f3"), "mine")
		check()
		must.OK(t, s.Close())
		s = openWith(t, dir, p, nil)
	}
	want(t, "new", read(t, s, s.Main().Root(), "new"), "also mine")
}

// What another party wrote down of a snapshot is refused where nothing here can be so.
func TestStartRefused(t *testing.T) {
	p, a := newPlace(), open(t, t.TempDir())
	_, err := a.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	pushed := p.push(t, a.Main(), "v1")
	for what, spoil := range map[string]func(*info.Info){
		"path":     func(i *info.Info) { i.Name = "../../x" },
		"control":  func(i *info.Info) { i.Name = "create" },
		"no name":  func(i *info.Info) { i.Name = "" },
		"message":  func(i *info.Info) { i.Message = strings.Repeat("m", naming.MaxDescriptionBytes+1) },
		"too long": func(i *info.Info) { i.Name = strings.Repeat("n", 200) },
	} {
		bad := pushed
		spoil(&bad)
		_, err := snapshot.Open(t.TempDir(), snapshot.Options{Connect: func(c snapshot.ConnectArgs) (tree.RemoteObjects, *snapshot.StartSnapshot, error) {
			return p, startOf(t, bad), nil
		}})
		if !errors.Is(err, errs.Invalid) && !errors.Is(err, errs.NameTooLong) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Who lists a directory waits for its names alone; what is in it is fetched when it is
// looked up.
func TestListElsewhere(t *testing.T) {
	p := newPlace()
	a := open(t, t.TempDir())
	for i := range 2000 {
		write(t, a, a.Main().Root(), fmt.Sprint("f", i), "")
	}
	_, err := a.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	s := openWith(t, t.TempDir(), p, startOf(t, p.push(t, a.Main(), "v1")))
	f, root := s.Forest(), s.Main().Root()
	list := func() (names, known int) {
		t.Helper()
		for after, more := uint64(0), true; more; {
			err := cas.Retry(t.Context(), func() error {
				more = false
				return f.ReadDirPlus(root, after, func(_ tree.Dirent, a *live.Attr, cookie uint64) bool {
					names, after, more = names+1, cookie, true
					if a != nil {
						known++
					}
					return true
				})
			})
			must.OK(t, err)
		}
		return names, known
	}
	if names, known := list(); names != 2000 || known > 1000 {
		t.Errorf("%d names, %d with attributes", names, known)
	}
	for i := range 2000 {
		err := cas.Retry(t.Context(), func() error { _, err := f.Lookup(root, fmt.Sprint("f", i)); return err })
		must.OK(t, err)
	}
	if names, known := list(); names != 2000 || known != 2000 {
		t.Errorf("%d names, %d with attributes", names, known)
	}
}

// A snapshot that was pulled into the store stays readable when the remote is away,
// also after a collection.
func TestPulledStays(t *testing.T) {
	ctx, p := context.Background(), newPlace()
	a := open(t, t.TempDir())
	for i := range 200 {
		write(t, a, a.Main().Root(), fmt.Sprint("f", i), fmt.Sprint("content ", i))
	}
	_, err := a.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	pushed := p.push(t, a.Main(), "v1")
	dir := t.TempDir()
	p.fresh = true
	s := openWith(t, dir, p, nil)
	done := s.BeginImport()
	for _, b := range p.objects {
		_, err := s.CAS().Put(cas.KindTree, b)
		must.OK(t, err)
	}
	must.OK(t, s.CAS().Commit())
	got, err := s.Main().Remotes().AddPulled(pushed, startOf(t, pushed).ID, actors.Caller{UID: 7})
	done()
	if err != nil || got.ID != pushed.ID || got.Kind != info.KindPull || got.UID != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := s.Main().Remotes().AddPulled(pushed, startOf(t, pushed).ID, actors.Caller{}); !errors.Is(err, errs.Exist) {
		t.Errorf("pulled twice under one name: %v", err)
	}
	p.away = true
	for range 2 {
		_, err = s.GC(ctx, nil)
		must.OK(t, err)
		if stateDump(t, s.Main(), "v1") != stateDump(t, a.Main(), "v1") {
			t.Error("another tree")
		}
		must.OK(t, s.Close())
		s = openWith(t, dir, p, nil)
	}
}

// Two stores that go on from one snapshot give the same numbers to different files.
// Whatever is then pulled, compared, restored, forked and promoted crosswise comes
// out as it would from one store: walker.history compares each restore.
func TestDivergedStores(t *testing.T) {
	seeds := uint64(stores.FromEnv("SEEDS", 2))
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { diverged(t, seed) })
	}
}

func diverged(t *testing.T, seed uint64) {
	ctx, p := context.Background(), newPlace()
	r := rand.New(rand.NewPCG(seed, 16))
	base := open(t, t.TempDir())
	x := &stores.Walker{T: t, R: r, S: base}
	work := func(x *stores.Walker, n int) {
		t.Helper()
		for range n {
			if err := x.Step(x.S.Main()); !stores.Expected(err) {
				t.Fatal(err)
			}
		}
	}
	work(x, 100)
	_, err := base.Main().Capture(snapshot.CaptureOptions{Name: "start"})
	must.OK(t, err)
	info := p.push(t, base.Main(), "start")
	var both [2]*stores.Walker
	for i := range both {
		s := openWith(t, t.TempDir(), p, startOf(t, info))
		stores.KeepAll(t, s)
		both[i] = &stores.Walker{T: t, R: r, S: s, N: 1000 * (i + 1)}
	}
	for round := range 2 {
		for i, x := range both {
			work(x, 40)
			name := fmt.Sprintf("s%d-%d", i, round)
			_, err := x.S.Main().Capture(snapshot.CaptureOptions{Name: name})
			must.OK(t, err)
			info := p.push(t, x.S.Main(), name)
			other := both[1-i].S
			_, err = other.Main().Remotes().AddPulled(info, startOf(t, info).ID, actors.Caller{})
			must.OK(t, err)
			if stateDump(t, other.Main(), name) != stateDump(t, x.S.Main(), name) {
				t.Fatalf("%s is another tree after it was pulled", name)
			}
			cross(t, other, name)
		}
		for _, x := range both {
			for range 10 {
				if err := x.History(); !stores.Expected(err) {
					t.Fatal(err)
				}
				work(x, 3)
			}
		}
	}
	for _, x := range both {
		before := stores.Portrait(t, x.S)
		if r, err := x.S.Verify(ctx, nil); err != nil || !r.OK() {
			t.Fatalf("%+v, %v", r, err)
		}
		stores.Compare(t, "after a verification", stores.Portrait(t, x.S), before)
	}
}

// cross restores a snapshot of another store over this one's present, forks it, and
// takes the fork's files over.
func cross(t *testing.T, s *snapshot.Store, name string) {
	t.Helper()
	ctx, w := context.Background(), s.Main()
	there := stores.Lasting(stateDump(t, w, name))
	_, err := w.Forks().New(snapshot.ForkOptions{Snapshot: name, Name: "of-" + name})
	must.OK(t, err)
	f, err := w.Forks().Named("of-" + name)
	must.OK(t, err)
	write(t, s, f.Root(), "only-in-the-fork", name)
	res, err := w.Restore(ctx, snapshot.RestoreOptions{Name: name})
	must.OK(t, err)
	if got := stores.Lasting(presentDump(t, w)); got != there {
		t.Fatalf("restored %s:\n%.2000s\nnot\n%.2000s", name, got, there)
	}
	_, err = w.Forks().Merge(ctx, snapshot.MergeOptions{Fork: "of-" + name, MergeRules: snapshot.MergeRules{Theirs: true}})
	must.OK(t, err)
	if got, want := names(presentDump(t, w)), names(presentDump(t, f)); got != want {
		t.Fatalf("promoted %s:\n%s\nnot\n%s", name, got, want)
	}
	_, err = w.Forks().End("of-"+name, actors.Caller{})
	must.OK(t, err)
	if res.Undo != "" {
		_, err = w.Restore(ctx, snapshot.RestoreOptions{Name: res.Undo})
		must.OK(t, err)
	}
}

func presentDump(t *testing.T, w *snapshot.Workspace) string {
	t.Helper()
	st, err := w.State()
	must.OK(t, err)
	return stores.Dump(t, w.Store(), st)
}

// names are the paths and contents of a dump.
func names(dump string) string {
	var b strings.Builder
	for line := range strings.Lines(dump) {
		f := strings.Fields(line)
		fmt.Fprintln(&b, f[0], f[2], f[len(f)-1])
	}
	return b.String()
}
