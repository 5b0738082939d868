package stores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// Walker makes random changes to a workspace.
type Walker struct {
	T *testing.T
	R *rand.Rand
	S *snapshot.Store
	N int // steps
	// Halfway, if there is one, is called between two changes of one step.
	Halfway func()
	NoGC    bool // the history has none
}

// Node returns a random inode below a workspace, its directory and name. With dir, it is a directory.
func (x *Walker) Node(w *snapshot.Workspace, dir bool) (live.NodeID, live.NodeID, string, bool) {
	f := x.S.Forest()
	at := w.Root()
	for {
		var names []tree.Dirent
		f.ReadDir(at, 0, func(e tree.Dirent, _ uint64) bool { names = append(names, e); return true })
		sort.Slice(names, func(i, j int) bool { return names[i].Name < names[j].Name })
		if dir && (len(names) == 0 || x.R.IntN(3) == 0) {
			return 0, at, "", true
		}
		if len(names) == 0 {
			return 0, 0, "", false
		}
		e := names[x.R.IntN(len(names))]
		id := live.Node(w.View(), e.Ino)
		if e.Type == unix.S_IFDIR && x.R.IntN(4) > 0 {
			at = id
			continue
		}
		if dir {
			return 0, at, "", true
		}
		return at, id, e.Name, true
	}
}

// Step makes a random change in a workspace.
func (x *Walker) Step(w *snapshot.Workspace) error {
	r := x.R
	f := x.S.Forest().WithActor([]string{"a", "b", "c/1", ""}[r.IntN(4)])
	x.N++
	name := fmt.Sprintf("n%d", r.IntN(12))
	_, dir, _, _ := x.Node(w, true)
	parent, id, old, ok := x.Node(w, false)
	k := r.IntN(20)
	switch {
	case k < 3:
		_, err := f.Create(dir, name, live.NewNode{Mode: unix.S_IFDIR | 0o755, Caller: actors.Caller{UID: uint32(r.IntN(3))}})
		return err
	case k < 6:
		a, err := f.Create(dir, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
		if err == nil {
			if x.Halfway != nil {
				x.Halfway()
			}
			_, err = f.Write(a.ID, []byte(fmt.Sprint("content ", x.N)), 0, false)
		}
		return err
	case k == 6:
		_, err := f.Create(dir, name, live.NewNode{Mode: unix.S_IFLNK | 0o777, Target: fmt.Sprint("to", x.N)})
		return err
	case !ok:
		return nil
	case k < 10:
		big := make([]byte, r.IntN(200_000))
		for i := range big {
			big[i] = byte(x.N + i/977)
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
		return f.SetXattr(id, "user.x", []byte(fmt.Sprint(x.N)), 0, false)
	default:
		_, other, _, found := x.Node(w, false)
		if !found {
			return nil
		}
		_, err := f.CopyRange(other, int64(r.IntN(1000)), id, int64(r.IntN(100_000)), int64(r.IntN(100_000)))
		return err
	}
}

// History makes a random operation on snapshots and forks.
func (x *Walker) History() error {
	ctx, r := context.Background(), x.R
	ws := Workspaces(x.S)
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
		Compare(x.T, "after a restore of "+name, map[string]string{name: Lasting(Dump(x.T, x.S, now))}, map[string]string{name: Lasting(Dump(x.T, x.S, before))})
		return nil
	case k == 7:
		p := fmt.Sprintf("n%d", r.IntN(12))
		if r.IntN(2) == 0 {
			p += fmt.Sprintf("/n%d", r.IntN(12))
		}
		_, err := w.Restore(ctx, snapshot.RestoreOptions{Name: name, Paths: []naming.BytePath{naming.BytePath(p)}})
		return err
	case k == 8:
		_, err := w.Snapshots().DeleteAll([]string{name}, actors.Caller{})
		return err
	case k == 9 && len(ws) < 4:
		_, err := w.Forks().New(snapshot.ForkOptions{Snapshot: name, Name: fmt.Sprintf("f%d", x.N)})
		return err
	case k == 10 && w.IsFork():
		_, err := w.Parent().Forks().End(w.Name(), actors.Caller{})
		return err
	case k == 11 && w.IsFork():
		_, err := w.Parent().Forks().Merge(ctx, snapshot.MergeOptions{Fork: w.Name(), MergeRules: snapshot.MergeRules{Theirs: r.IntN(2) == 1}, Caller: actors.Caller{Actor: "m"}})
		return err
	case k == 12:
		return x.S.Checkpoint(ctx)
	case k == 13:
		_, err := w.Snapshots().WaitSealed(ctx, name)
		return err
	case k == 14 && !x.NoGC:
		_, err := x.S.GC(ctx, nil)
		return err
	}
	return nil
}

// ErrAway is the error of a remote that is away.
var ErrAway = errors.New("it does not answer")

// Expected reports whether a step may end so. What is elsewhere is here then.
func Expected(err error) bool {
	var a *cas.AbsentError
	if errors.As(err, &a) {
		return a.Fetch(context.Background()) == nil
	}
	for _, e := range []error{nil, errs.Exist, errs.NotExist, errs.IsDir, errs.NotDir, errs.NotEmpty, errs.Invalid,
		errs.Perm, errs.TooBig, errs.NotSupported, threeway.ErrConflict, graft.ErrNoPath, errs.Busy, catalogue.ErrNotFound, errs.Invalid, ErrAway} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// KeepAll keeps snapshots from being removed between two looks at a store.
func KeepAll(t *testing.T, s *snapshot.Store) {
	t.Helper()
	p := policy.Default()
	p.Keep, p.IntervalSeconds, p.Forks.UnsharedBytes = policy.Keep{}, 0, 1<<40
	b, err := json.Marshal(p)
	must.OK(t, err)
	_, err = s.Main().PatchPolicy(b, actors.Caller{})
	must.OK(t, err)
}

// FromEnv returns a number in the environment.
func FromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
