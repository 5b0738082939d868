package model_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

var limits = fsmodel.Limits{Files: 30, Size: 100 << 10}

// A world is a mounted store and what must be in it.
type world struct {
	mount      *harness.Mount
	workspaces map[string]*workspace // by directory relative to the mount, "" is main
	names      int                   // given to snapshots and forks so far
}

// A workspace is what main or a fork must hold.
type workspace struct {
	fs    *fsmodel.FS
	snaps map[string]*captured
}

// captured is a state that was captured: what the model had, and what the
// mount showed, times and holes included.
type captured struct {
	fs   *fsmodel.FS
	tree harness.Tree
}

func newWorld(t testing.TB, rt *rapid.T) *world {
	w := &world{mount: harness.New(t), workspaces: map[string]*workspace{}}
	w.workspaces[""] = &workspace{fs: fsmodel.New(), snaps: map[string]*captured{}}
	return w
}

// draws lets the property test choose, and so shrink, what is random.
type draws struct{ t *rapid.T }

func (d draws) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(d.t, "n") }

func key(t *rapid.T, what string, keys []string) string {
	if len(keys) == 0 {
		t.Skip("no " + what)
	}
	return rapid.SampledFrom(keys).Draw(t, what)
}

func (w *world) pick(t *rapid.T) (string, *workspace) {
	at := key(t, "workspace", slices.Sorted(maps.Keys(w.workspaces)))
	return at, w.workspaces[at]
}

func (w *world) pickSnap(t *rapid.T) (at string, ws *workspace, name string, c *captured) {
	at, ws = w.pick(t)
	name = key(t, "snapshot", slices.Sorted(maps.Keys(ws.snaps)))
	return at, ws, name, ws.snaps[name]
}

func (w *world) newName(prefix string) string {
	w.names++
	return fmt.Sprintf("%s%d", prefix, w.names)
}

func (w *world) dir(at string) string { return w.mount.Path(at) }

func (w *world) control(at, name string) string { return w.mount.Path(at, ".snapshots", name) }

// change performs some operations; each must end as the model says.
func (w *world) change(t *rapid.T) {
	at, ws := w.pick(t)
	for range rapid.IntRange(1, 12).Draw(t, "operations") {
		op := fsmodel.Random(draws{t}, ws.fs, limits)
		got, want := op.Do(w.dir(at)), op.Apply(ws.fs)
		if !errors.Is(got, want) {
			t.Fatalf("in %q: %v: got %v, want %v", at, op, got, want)
		}
	}
}

func (w *world) capture(t *rapid.T) {
	at, ws := w.pick(t)
	name := w.newName("v")
	if rapid.Bool().Draw(t, "by mkdir") {
		must.OK(t, os.Mkdir(w.control(at, name), 0o755))
	} else {
		must.OK(t, os.WriteFile(w.control(at, "create"), []byte(name+" a message\n"), 0o644))
	}
	ws.snaps[name] = w.now(t, at)
}

// now is the present state of a workspace.
func (w *world) now(t *rapid.T, at string) *captured {
	return &captured{fs: w.workspaces[at].fs.Clone(), tree: walk(t, w.dir(at))}
}

// look compares one snapshot with what was captured.
func (w *world) look(t *rapid.T) {
	at, _, name, c := w.pickSnap(t)
	same(t, fmt.Sprintf("snapshot %s of %q", name, at), c.tree, walk(t, w.control(at, name)))
}

func (w *world) restore(t *rapid.T) {
	at, ws, name, c := w.pickSnap(t)
	before := w.now(t, at)
	if rapid.Bool().Draw(t, "by renaming") {
		must.OK(t, os.Rename(w.control(at, "restore"), w.control(at, "restore@"+name)))
	} else {
		must.OK(t, os.WriteFile(w.control(at, "restore"), []byte(name+"\n"), 0o644))
	}
	ws.fs = c.fs.Clone()
	same(t, "after restoring "+name, c.tree, walk(t, w.dir(at)))
	if unlike(before.tree, c.tree) { // else the undo point stays
		same(t, "the undo point of restoring "+name, before.tree, walk(t, w.control(at, "undo")+"/"))
	}
}

// unlike reports whether two trees differ in more than the times of directories.
func unlike(a, b harness.Tree) bool {
	return harness.Compare(withoutTimes(a), withoutTimes(b)) != ""
}

var mtime = regexp.MustCompile(` mtime=\S+`)

func withoutTimes(t harness.Tree) harness.Tree {
	out := maps.Clone(t)
	for path, line := range t {
		if strings.HasPrefix(line, "mode=40") {
			out[path] = mtime.ReplaceAllString(line, "")
		}
	}
	return out
}

// undo restores, and undoes that.
func (w *world) undo(t *rapid.T) {
	at, _, name, c := w.pickSnap(t)
	before := w.now(t, at)
	if !unlike(before.tree, c.tree) {
		return // undo would undo an earlier restore
	}
	must.OK(t, os.WriteFile(w.control(at, "restore"), []byte(name+"\n"), 0o644))
	must.OK(t, os.Rename(w.control(at, "restore"), w.control(at, "restore@undo")))
	same(t, "after undoing the restore of "+name, before.tree, walk(t, w.dir(at)))
}

// restorePath brings one entry of the root back.
func (w *world) restorePath(t *rapid.T) {
	at, ws, name, c := w.pickSnap(t)
	old, now := c.fs.List(), ws.fs.List()
	for _, line := range slices.Collect(maps.Values(old)) {
		if strings.Contains(line, " same as ") {
			t.Skip("which names of a hard link a partial restore takes along is a question of its own")
		}
	}
	for _, line := range slices.Collect(maps.Values(now)) {
		if strings.Contains(line, " same as ") {
			t.Skip("hard links")
		}
	}
	var top []string
	for path := range old {
		if !strings.Contains(path, "/") {
			top = append(top, path)
		}
	}
	slices.Sort(top)
	path := key(t, "path", top)
	must.OK(t, os.WriteFile(w.control(at, "restore"), []byte(name+" "+path+"\n"), 0o644))
	ws.fs.Replace(path, c.fs)
}

func (w *world) renameCapture(t *rapid.T) {
	at, ws, name, c := w.pickSnap(t)
	to := w.newName("r")
	must.OK(t, os.Rename(w.control(at, name), w.control(at, to)))
	delete(ws.snaps, name)
	ws.snaps[to] = c
}

func (w *world) deleteCapture(t *rapid.T) {
	at, ws, name, _ := w.pickSnap(t)
	must.OK(t, unix.Rmdir(w.control(at, name)))
	delete(ws.snaps, name)
	if _, err := os.Lstat(w.control(at, name)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is still there: %v", name, err)
	}
}

func (w *world) fork(t *rapid.T) {
	if len(w.workspaces) > 3 {
		t.Skip("enough forks")
	}
	name, main := w.newName("f"), w.workspaces[""]
	at := filepath.Join(".forks", name)
	start := &captured{fs: main.fs.Clone()}
	if snaps := slices.Sorted(maps.Keys(main.snaps)); len(snaps) > 0 && rapid.Bool().Draw(t, "of a snapshot") {
		from := key(t, "snapshot", snaps)
		must.OK(t, os.WriteFile(w.control("", "fork"), []byte(from+" "+name+"\n"), 0o644))
		start = main.snaps[from]
	} else {
		start.tree = walk(t, w.dir(""))
		must.OK(t, os.Mkdir(w.dir(at), 0o755))
	}
	w.workspaces[at] = &workspace{fs: start.fs.Clone(), snaps: map[string]*captured{}}
	same(t, "a new fork", start.tree, walk(t, w.dir(at)))
	same(t, "origin of a fork", start.tree, walk(t, w.control(at, "base")))
}

// endFork removes a fork; its last state becomes a snapshot of main.
func (w *world) endFork(t *rapid.T) {
	var forks []string
	for at := range w.workspaces {
		if at != "" {
			forks = append(forks, at)
		}
	}
	slices.Sort(forks)
	at := key(t, "fork", forks)
	last := w.now(t, at)
	must.OK(t, unix.Rmdir(w.dir(at)))
	delete(w.workspaces, at)
	same(t, "the last state of a fork", last.tree, walk(t, w.control("", "latest")+"/"))
}

func (w *world) remount(t *rapid.T) { w.again(t, w.mount.Stop) }

func (w *world) kill(t *rapid.T) { w.again(t, w.mount.Kill) }

// again ends the daemon and mounts once more: nothing may have changed.
func (w *world) again(t *rapid.T, end func()) {
	before := map[string]*captured{}
	inodes := map[string]uint64{}
	for at := range w.workspaces {
		before[at] = w.now(t, at)
		w.inodes(t, at, inodes)
	}
	end()
	w.mount.Start()
	for at := range w.workspaces {
		same(t, fmt.Sprintf("%q after mounting again", at), before[at].tree, walk(t, w.dir(at)))
	}
	after := map[string]uint64{}
	for at := range w.workspaces {
		w.inodes(t, at, after)
	}
	for path, ino := range inodes {
		if after[path] != ino {
			t.Fatalf("%s had inode %d and has %d after mounting again", path, ino, after[path])
		}
	}
	for at, ws := range w.workspaces {
		for name, c := range ws.snaps {
			same(t, fmt.Sprintf("snapshot %s of %q after mounting again", name, at), c.tree, walk(t, w.control(at, name)))
		}
	}
}

func (w *world) inodes(t *rapid.T, at string, into map[string]uint64) {
	for path := range w.workspaces[at].fs.List() {
		var st unix.Stat_t
		must.OK(t, unix.Lstat(filepath.Join(w.dir(at), path), &st))
		into[filepath.Join(at, path)] = st.Ino
	}
}

// check compares all workspaces with their models.
func (w *world) check(t *rapid.T) {
	for _, at := range slices.Sorted(maps.Keys(w.workspaces)) {
		got, err := fsmodel.Observe(w.dir(at))
		must.OK(t, err)
		if d := fsmodel.Compare(w.workspaces[at].fs.List(), got); d != "" {
			t.Fatalf("workspace %q:\n%s", at, d)
		}
	}
}

func walk(t *rapid.T, dir string) harness.Tree {
	tree, err := harness.WalkTree(dir)
	must.OK(t, err)
	return tree
}

func same(t *rapid.T, what string, want, got harness.Tree) {
	if d := harness.Compare(want, got); d != "" {
		t.Fatalf("%s:\n%s", what, d)
	}
}
