package live_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// A system is the store under test: all that the model test knows of package
// snapshot. Its journal and packs are in memory.
type system struct {
	dir  string // its index and its lock; the rest is in memory
	disk *vfstest.Mem
	s    *snapshot.Store
	f    *live.Forest
	held map[live.NodeID]bool // what the kernel has open
}

func newSystem(t testing.TB) (*system, error) {
	y := &system{dir: t.TempDir(), disk: vfstest.NewMem(), held: map[live.NodeID]bool{}}
	if err := y.open(false); err != nil {
		return nil, err
	}
	keepAll := `{"interval_seconds":0,"keep":{"auto":{},"turn":{},"actor":{},"pre-restore":{},"fork":{}}}`
	_, err := y.s.Main().PatchPolicy([]byte(keepAll), actors.Caller{})
	return y, err
}

func (y *system) open(takeover bool) (err error) {
	y.s, err = snapshot.Open(y.dir, snapshot.Options{Quiet: true, FS: placed{y.disk, y.dir}, Takeover: takeover})
	if err != nil {
		return err
	}
	y.f = y.s.Forest()
	y.f.Takeover.SetMount(live.Mount{IsHeld: func(id live.NodeID) bool { return y.held[id] }})
	return nil
}

// killed is the store as recovery finds it after kill -9 at this moment. If the connection to
// the kernel is taken over, what is open stays so.
func (y *system) killed(t testing.TB, takeover bool) (*system, error) {
	k := &system{dir: t.TempDir(), disk: y.disk.CrashClone(1, rand.New(rand.NewPCG(1, 1))), held: map[live.NodeID]bool{}}
	if takeover {
		k.held = maps.Clone(y.held)
	}
	return k, k.open(takeover)
}

func (y *system) close() error { return y.s.Close() }

// placed is a disk on which a store lies in the same place, whatever its directory.
type placed struct {
	*vfstest.Mem
	dir string
}

func (p placed) at(name string) string { return "/store" + strings.TrimPrefix(name, p.dir) }

func (p placed) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	return p.Mem.OpenFile(p.at(name), flag, perm)
}
func (p placed) Rename(from, to string) error            { return p.Mem.Rename(p.at(from), p.at(to)) }
func (p placed) Remove(name string) error                { return p.Mem.Remove(p.at(name)) }
func (p placed) ReadDir(name string) ([]vfs.Info, error) { return p.Mem.ReadDir(p.at(name)) }
func (p placed) MkdirAll(name string, perm fs.FileMode) error {
	return p.Mem.MkdirAll(p.at(name), perm)
}
func (p placed) SyncDir(name string) error          { return p.Mem.SyncDir(p.at(name)) }
func (p placed) Free(string) (int64, error)         { return 1 << 40, nil }
func (p placed) Total(string) (int64, error)        { return 1 << 40, nil }
func (p placed) Stat(name string) (vfs.Info, error) { return p.Mem.Stat(p.at(name)) }

// workspace is main, "", or a fork of it.
func (y *system) workspace(name string) (*snapshot.Workspace, error) {
	if name == "" {
		return y.s.Main(), nil
	}
	return y.s.Main().Forks().Named(name)
}

func (y *system) root(workspace string) (live.NodeID, error) {
	w, err := y.workspace(workspace)
	if err != nil {
		return 0, err
	}
	return w.Root(), nil
}

// snapshotRoot is the root directory of a snapshot.
func (y *system) snapshotRoot(workspace, name string) (live.NodeID, error) {
	w, err := y.workspace(workspace)
	if err != nil {
		return 0, err
	}
	i, err := w.Find(name)
	return live.Node(i.View, live.RootIno), err
}

func (y *system) capture(workspace, name string, request uint64) error {
	w, err := y.workspace(workspace)
	if err == nil {
		_, err = w.Capture(snapshot.CaptureOptions{Name: name, Caller: actors.Caller{Request: request}})
	}
	return err
}

func (y *system) drop(workspace, name string) error {
	w, err := y.workspace(workspace)
	if err == nil {
		_, err = w.Snapshots().DeleteAll([]string{name}, actors.Caller{})
	}
	return err
}

func (y *system) restore(workspace, name string, paths ...string) error {
	w, err := y.workspace(workspace)
	if err == nil {
		_, err = w.Restore(context.Background(), snapshot.RestoreOptions{Name: name, Paths: naming.BytePaths(paths)})
	}
	return err
}

// graft merges the tree of a snapshot into a directory.
func (y *system) graft(workspace, name, dir string) error {
	w, err := y.workspace(workspace)
	if err != nil {
		return err
	}
	if _, err := w.Snapshots().WaitSealed(context.Background(), name); err != nil {
		return err
	}
	st, _, err := w.HoldState(name)
	if err == nil {
		_, err = w.Graft(context.Background(), snapshot.GraftOptions{Tree: st, Path: dir})
	}
	return err
}

// fork begins one at a snapshot of main, or at the present state.
func (y *system) fork(name, from string) error {
	_, err := y.s.Main().Forks().New(snapshot.ForkOptions{Name: name, Snapshot: from})
	return err
}

func (y *system) merge(fork string) error {
	_, err := y.s.Main().Forks().Merge(context.Background(), snapshot.MergeOptions{Fork: fork})
	return err
}

func (y *system) discard(fork string) error { return y.s.Main().Forks().Discard(fork, actors.Caller{}) }

func (y *system) seal(workspace, name string) error {
	w, err := y.workspace(workspace)
	if err == nil {
		_, err = w.Snapshots().WaitSealed(context.Background(), name)
	}
	return err
}

func (y *system) checkpoint() error { return y.s.Checkpoint(context.Background()) }

func (y *system) gc() error {
	_, err := y.s.GC(context.Background(), nil)
	return err
}

// open and release are what the kernel does with a file that a program has open.
func (y *system) hold(id live.NodeID) { y.held[id] = true }

func (y *system) release(id live.NodeID) {
	delete(y.held, id)
	y.f.Takeover.Forget(id)
}

// seen is what the forest shows of a tree.
type seen struct {
	list  listing
	exact listing // with times and inode numbers
	ids   map[string]live.NodeID
}

// look walks a tree as programs do.
func (y *system) look(root live.NodeID) (*seen, error) {
	out := &seen{listing{}, listing{}, map[string]live.NodeID{}}
	first := map[live.NodeID]string{}
	var walk func(path string, a live.Attr) error
	walk = func(path string, a live.Attr) error {
		e, err := y.entry(a)
		if err != nil {
			return fmt.Errorf("%q: %w", path, err)
		}
		if a.Mode&unix.S_IFMT != unix.S_IFDIR && a.Nlink > 1 {
			if _, ok := first[a.ID]; !ok {
				first[a.ID] = path
			}
			e.Same = first[a.ID]
		}
		out.list[path], out.ids[path] = e.String(), a.ID
		out.exact[path] = fmt.Sprintf("%v ino %d mtime %d blocks %d", e, a.ID.Ino(), a.Mtime, a.Blocks)
		if a.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		names, err := y.names(a.ID)
		for i := 0; err == nil && i < len(names); i++ {
			var child live.Attr
			if child, err = y.f.Lookup(a.ID, names[i]); err == nil {
				err = walk(strings.TrimPrefix(path+"/"+names[i], "/"), child)
			}
		}
		return err
	}
	a, err := y.f.GetAttr(root)
	if err != nil {
		return nil, err
	}
	return out, walk("", a)
}

func (y *system) names(dir live.NodeID) (names []string, err error) {
	err = y.f.ReadDir(dir, 0, func(e tree.Dirent, _ uint64) bool {
		names = append(names, e.Name)
		return true
	})
	// In the order of the model, so that the first name of a file is the same.
	slices.Sort(names)
	return names, err
}

func (y *system) entry(a live.Attr) (e fsmodel.Entry, err error) {
	e = fsmodel.Entry{Mode: a.Mode, Nlink: int(a.Nlink)}
	switch a.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Data, err = y.read(a.ID)
		if err == nil && int64(len(e.Data)) != a.Size {
			err = fmt.Errorf("%d bytes of a file of %d", len(e.Data), a.Size)
		}
	case unix.S_IFLNK:
		e.Target, err = y.f.Readlink(a.ID)
	}
	if err != nil {
		return e, err
	}
	names, err := y.f.ListXattr(a.ID)
	for i := 0; err == nil && i < len(names); i++ {
		var value []byte
		if value, err = y.f.GetXattr(a.ID, names[i]); err == nil {
			if e.Xattrs == nil {
				e.Xattrs = map[string]string{}
			}
			e.Xattrs[names[i]] = string(value)
		}
	}
	return e, err
}

// read reads a file to its end, with a read behind it.
func (y *system) read(id live.NodeID) ([]byte, error) {
	var out []byte
	buf := make([]byte, 128<<10)
	for {
		n, err := y.f.ReadAt(id, buf, int64(len(out)))
		if err != nil || n == 0 {
			return out, err
		}
		out = append(out, buf[:n]...)
	}
}
