package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// dump tells everything about a tree that a program could see.
func dump(t *testing.T, s *snapshot.Store, st *tree.State) string {
	t.Helper()
	var b strings.Builder
	var inodes, bytes int64
	seen := map[uint64]bool{}
	err := st.Walk(context.Background(), s.Source(), func(at *tree.Path, n *tree.Inode) error {
		p := at.String()
		var content []byte
		if n.IsRegular() {
			content = make([]byte, n.Size())
			if got, err := n.Content.ReadAt(s.Source().Files, content, 0); err != nil || got != len(content) {
				return fmt.Errorf("%s: read %d of %d: %w", p, got, len(content), err)
			}
		}
		if !seen[n.Ino] {
			seen[n.Ino] = true
			inodes++
			if n.IsRegular() {
				bytes += n.Size()
			}
		}
		fmt.Fprintf(&b, "%s ino=%d mode=%o uid=%d nlink=%d links=%d size=%d blocks=%d mtime=%d ctime=%d xattrs=%v target=%s %x\n",
			p, n.Ino, n.Mode, n.UID, n.Nlink, len(n.Links), n.Size(), n.Blocks(), n.Mtime, n.Ctime, n.Xattrs, n.Target, content)
		return nil
	})
	must.OK(t, err)
	if inodes != st.Inodes || bytes != st.Bytes {
		t.Errorf("the tree has %d inodes and %d bytes, and counts %d and %d", inodes, bytes, st.Inodes, st.Bytes)
	}
	return b.String()
}

var passing = regexp.MustCompile(`(?m) (ino|ctime)=[0-9]+`)

// lasting is a dump without what a restore creates again.
func lasting(dump string) string { return passing.ReplaceAllString(dump, "") }

// portrait is all workspaces and snapshots of a store.
func portrait(t *testing.T, s *snapshot.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, w := range s.Workspaces() {
		st, err := w.State()
		must.OK(t, err)
		out[w.Name()] = dump(t, s, st)
		out["changes of "+w.Name()] = whose(t, w)
		for _, i := range append(w.List(), mustFind(t, w, "base")) {
			st, _, err := w.HoldState(i.Name)
			must.OK(t, err)
			out[fmt.Sprintf("%s@%s#%d", w.Name(), i.Name, i.Seq)] = dump(t, s, st)
			if i.Files != st.Inodes-1 || i.Bytes != st.Bytes {
				t.Errorf("%s has %d files and %d bytes, and is listed with %d and %d", i.Name, st.Inodes-1, st.Bytes, i.Files, i.Bytes)
			}
		}
	}
	return out
}

// sizes are those that a store counts as it goes: the bytes of all states, and those that
// each fork has of its own, counted since the last change.
func sizes(t *testing.T, s *snapshot.Store) map[string]int64 {
	t.Helper()
	total := int64(0)
	out := map[string]int64{}
	for _, w := range s.Workspaces() {
		st, err := w.State()
		must.OK(t, err)
		total += st.Bytes
		for _, i := range append(w.List(), mustFind(t, w, "base")) {
			total += i.Bytes
		}
		if w.IsFork() && !w.Parent().IsFork() {
			out[w.Name()], _ = w.Quota().Usage()
		}
	}
	if got := s.Main().Status().ReferencedBytes; got != total {
		t.Errorf("all states have %d bytes, and count %d", total, got)
	}
	return out
}

func mustFind(t *testing.T, w *snapshot.Workspace, name string) info.Info {
	t.Helper()
	i, err := w.Find(name)
	must.OK(t, err)
	return i
}

func compare(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			a, b := strings.Split(got[name], "\n"), strings.Split(want[name], "\n")
			for i := range max(len(a), len(b)) {
				x, y := "", ""
				if i < len(a) {
					x = a[i]
				}
				if i < len(b) {
					y = b[i]
				}
				if x != y {
					t.Fatalf("%s: %s differs in line %d:\n got %.300s\nwant %.300s", what, name, i, x, y)
				}
			}
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d states instead of %d", what, len(got), len(want))
	}
}

// walker makes random changes to a workspace.
type walker struct {
	t *testing.T
	r *rand.Rand
	s *snapshot.Store
	n int
	// halfway, if there is one, is called between two changes of one step.
	halfway func()
	noGC    bool // the history has none
}

func (x *walker) node(w *snapshot.Workspace, dir bool) (live.NodeID, live.NodeID, string, bool) {
	f := x.s.Forest()
	at := w.Root()
	for {
		var names []tree.Dirent
		f.ReadDir(at, 0, func(e tree.Dirent, _ uint64) bool { names = append(names, e); return true })
		sort.Slice(names, func(i, j int) bool { return names[i].Name < names[j].Name })
		if dir && (len(names) == 0 || x.r.IntN(3) == 0) {
			return 0, at, "", true
		}
		if len(names) == 0 {
			return 0, 0, "", false
		}
		e := names[x.r.IntN(len(names))]
		id := live.Node(w.View(), e.Ino)
		if e.Type == unix.S_IFDIR && x.r.IntN(4) > 0 {
			at = id
			continue
		}
		if dir {
			return 0, at, "", true
		}
		return at, id, e.Name, true
	}
}

func (x *walker) step(w *snapshot.Workspace) error {
	r := x.r
	f := x.s.Forest().WithActor([]string{"a", "b", "c/1", ""}[r.IntN(4)])
	x.n++
	name := fmt.Sprintf("n%d", r.IntN(12))
	_, dir, _, _ := x.node(w, true)
	parent, id, old, ok := x.node(w, false)
	k := r.IntN(20)
	switch {
	case k < 3:
		_, err := f.Create(dir, name, live.NewNode{Mode: unix.S_IFDIR | 0o755, Caller: actors.Caller{UID: uint32(r.IntN(3))}})
		return err
	case k < 6:
		a, err := f.Create(dir, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			if x.halfway != nil {
				x.halfway()
			}
			_, err = f.Write(a.ID, []byte(fmt.Sprint("content ", x.n)), 0, false)
		}
		return err
	case k == 6:
		_, err := f.Create(dir, name, live.NewNode{Mode: unix.S_IFLNK | 0o777, Target: fmt.Sprint("to", x.n)})
		return err
	case !ok:
		return nil
	case k < 10:
		big := make([]byte, r.IntN(200_000))
		for i := range big {
			big[i] = byte(x.n + i/977)
		}
		_, err := f.Write(id, big, int64(r.IntN(300_000)), false)
		return err
	case k == 10:
		size := int64(r.IntN(200_000))
		_, err := f.SetAttr(id, live.SetAttr{Size: &size})
		return err
	case k == 11:
		mode := uint32(r.IntN(0o1000))
		_, err := f.SetAttr(id, live.SetAttr{Mode: &mode})
		return err
	case k == 12:
		_, err := f.Link(id, dir, name)
		return err
	case k < 15:
		var err error
		if _, err = f.Unlink(parent, old); errors.Is(err, errs.IsDir) {
			_, err = f.Rmdir(parent, old)
		}
		return err
	case k < 18:
		flags := []uint32{0, 0, 0, unix.RENAME_EXCHANGE, unix.RENAME_WHITEOUT}[r.IntN(5)]
		_, err := f.Rename(parent, old, dir, name, flags, actors.Caller{})
		return err
	case k == 18:
		return f.SetXattr(id, "user.x", []byte(fmt.Sprint(x.n)), 0, false)
	default:
		_, other, _, found := x.node(w, false)
		if !found {
			return nil
		}
		_, err := f.CopyRange(other, int64(r.IntN(1000)), id, int64(r.IntN(100_000)), int64(r.IntN(100_000)))
		return err
	}
}

func (x *walker) history() error {
	ctx, r := context.Background(), x.r
	ws := x.s.Workspaces()
	sort.Slice(ws, func(i, j int) bool { return ws[i].View() < ws[j].View() })
	w := ws[r.IntN(len(ws))]
	var name string
	if l := w.List(); len(l) > 0 {
		name = l[r.IntN(len(l))].Name
	}
	k := r.IntN(16)
	switch {
	case k < 5 || name == "":
		_, err := w.Capture(snapshot.CaptureOptions{})
		return err
	case k < 7:
		before, _, err := w.HoldState(name)
		if err != nil {
			return err
		}
		if _, err := w.Restore(ctx, snapshot.RestoreOptions{Name: name, Caller: actors.Caller{Actor: "r"}}); err != nil {
			return err
		}
		now, err := w.State()
		if err != nil {
			return err
		}
		compare(x.t, "after a restore of "+name, map[string]string{name: lasting(dump(x.t, x.s, now))}, map[string]string{name: lasting(dump(x.t, x.s, before))})
		return nil
	case k == 7:
		p := fmt.Sprintf("n%d", r.IntN(12))
		if r.IntN(2) == 0 {
			p += fmt.Sprintf("/n%d", r.IntN(12))
		}
		_, err := w.Restore(ctx, snapshot.RestoreOptions{Name: name, Paths: []naming.BytePath{naming.BytePath(p)}})
		return err
	case k == 8:
		return w.Snapshots().Delete(name, actors.Caller{})
	case k == 9 && len(ws) < 4:
		_, err := w.Forks().New(snapshot.ForkOptions{Snapshot: name, Name: fmt.Sprintf("f%d", x.n)})
		return err
	case k == 10 && w.IsFork():
		_, err := w.Parent().Forks().End(w.Name(), actors.Caller{})
		return err
	case k == 11 && w.IsFork():
		_, err := w.Parent().Forks().Merge(ctx, snapshot.MergeOptions{Fork: w.Name(), MergeRules: snapshot.MergeRules{Theirs: r.IntN(2) == 1}, Caller: actors.Caller{Actor: "m"}})
		return err
	case k == 12:
		return x.s.Checkpoint(ctx)
	case k == 13:
		_, err := w.Snapshots().WaitSealed(ctx, name)
		return err
	case k == 14 && !x.noGC:
		_, err := x.s.GC(ctx, nil)
		return err
	}
	return nil
}

func expected(err error) bool {
	var a *cas.AbsentError
	if errors.As(err, &a) {
		return a.Fetch(context.Background()) == nil
	}
	for _, e := range []error{nil, errs.Exist, errs.NotExist, errs.IsDir, errs.NotDir, errs.NotEmpty, errs.Invalid,
		errs.Perm, errs.TooBig, errs.NotSupported, threeway.ErrConflict, graft.ErrNoPath, errs.Busy, catalogue.ErrNotFound, errs.Invalid, errAway} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// keepAll keeps snapshots from being removed between two looks at a store.
func keepAll(t *testing.T, s *snapshot.Store) {
	t.Helper()
	p := policy.Default()
	p.Keep, p.IntervalSeconds, p.Forks.UnsharedBytes = policy.Keep{}, 0, 1<<40
	must.OK(t, s.Main().SetPolicy(p, actors.Caller{}))
}

// TestRecoveryComesToTheSame kills a store at many moments (it copies the
// directory and opens the copy) and compares everything.
func TestRecoveryComesToTheSame(t *testing.T) {
	seeds, rounds := fromEnv("SEEDS", 4), 12
	if !long {
		seeds, rounds = 1, 4
	}
	for i := 2 * fromEnv("SEED", 0); i < 2*seeds; i++ {
		seed, many := i/2, i%2*3 // 3: nearly every restore seals
		t.Run(fmt.Sprintf("%d,%d", seed, many), func(t *testing.T) {
			dir := t.TempDir()
			s, err := snapshot.Open(filepath.Join(dir, "store"), snapshot.Options{MaxJournaledSteps: many})
			must.OK(t, err)
			t.Cleanup(func() { s.Close() })
			keepAll(t, s)
			x := &walker{t: t, r: rand.New(rand.NewPCG(uint64(seed), 7)), s: s}
			for round := range rounds {
				for range 40 {
					ws := s.Workspaces()
					sort.Slice(ws, func(i, j int) bool { return ws[i].View() < ws[j].View() })
					if err := x.step(ws[x.r.IntN(len(ws))]); !expected(err) {
						t.Fatal(err)
					}
					if x.r.IntN(6) == 0 {
						if err := x.history(); !expected(err) {
							t.Fatal(err)
						}
					}
				}
				want := portrait(t, s)
				dead := filepath.Join(dir, fmt.Sprint("dead", round))
				must.CopyStore(t, dead, filepath.Join(dir, "store"))
				o, err := snapshot.Open(dead, snapshot.Options{Quiet: true})
				must.OK(t, err)
				compare(t, fmt.Sprint("round ", round), portrait(t, o), want)
				full := sizes(t, o) // counted for the first time
				for name, n := range sizes(t, s) {
					if n < full[name] {
						t.Errorf("round %d: fork %s has %d bytes of its own, and is taken to have %d at the most", round, name, full[name], n)
					}
				}
				await.True(t, "forks are counted as for the first time", func() bool { return maps.Equal(sizes(t, s), full) })
				must.OK(t, o.Close())
				if o, err = snapshot.Open(dead, snapshot.Options{Quiet: true}); err != nil {
					t.Fatal(err)
				}
				compare(t, fmt.Sprint("reopened in round ", round), portrait(t, o), want)
				o.Close()
				os.RemoveAll(dead)
			}
		})
	}
}
