package hostdir

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// edited is a later version of a state.
func (a *applied) edited(st *tree.State, edit func(now *tree.State)) *tree.State {
	now := st.Clone()
	a.m.Epoch++
	edit(now)
	return now
}

// own returns the inode at a path, to be changed.
func (a *applied) own(st *tree.State, p string) *tree.Inode {
	a.t.Helper()
	n, err := st.Resolve(a.m.Src, p)
	must.OK(a.t, err)
	n, err = st.Own(a.m.Src, a.m.Epoch, n.Ino)
	must.OK(a.t, err)
	return n
}

func (a *applied) link(st *tree.State, old, name string) {
	a.t.Helper()
	a.m.Add(a.t, st, name, trees.Node{Hard: old})
}

func (a *applied) unlink(st *tree.State, p string) {
	a.t.Helper()
	n := a.own(st, p)
	at, name := a.m.Parent(a.t, st, p)
	dir, err := st.Own(a.m.Src, a.m.Epoch, at)
	must.OK(a.t, err)
	err = dir.Dir.Remove(a.m.Src, a.m.Epoch, name)
	must.OK(a.t, err)
	n.RemoveLink(tree.Link{Parent: at, Name: name})
	if n.Nlink--; n.Nlink == 0 {
		must.OK(a.t, st.Delete(a.m.Src, a.m.Epoch, n.Ino))
	}
}

func (a *applied) rename(st *tree.State, old, name string) {
	a.t.Helper()
	a.link(st, old, name)
	a.unlink(st, old)
}

func (a *applied) ino(p string) uint64 {
	a.t.Helper()
	var st unix.Stat_t
	must.OK(a.t, unix.Lstat(filepath.Join(a.dir, p), &st))
	return st.Ino
}

// TestApplyMovesNames: names are made and removed, and the files keep their inodes.
func TestApplyMovesNames(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(a *applied, now *tree.State)
		want map[string]string // by new name the old name of its file
	}{
		"rename and link": {func(a *applied, now *tree.State) {
			a.rename(now, "h2", "x")
			a.link(now, "h1", "y")
		}, map[string]string{"h1": "h1", "x": "h1", "y": "h1", "f": "f"}},
		"links and a removal": {func(a *applied, now *tree.State) {
			a.link(now, "h1", "h3")
			a.link(now, "h1", "h4")
			a.unlink(now, "h2")
		}, map[string]string{"h1": "h1", "h3": "h1", "h4": "h1"}},
		"into a directory": {func(a *applied, now *tree.State) { a.rename(now, "h2", "d/h2") }, map[string]string{"h1": "h1", "d/h2": "h1"}},
		"an earlier name":  {func(a *applied, now *tree.State) { a.link(now, "h1", "a1") }, map[string]string{"a1": "h1", "h1": "h1", "h2": "h1"}},
		"changed places": {func(a *applied, now *tree.State) {
			a.rename(now, "f", "t")
			a.rename(now, "g", "f")
			a.rename(now, "t", "g")
		}, map[string]string{"f": "g", "g": "f"}},
		"a new directory": {func(a *applied, now *tree.State) {
			a.rename(now, "f", "new/deep/f")
			a.own(now, "new/deep/f").Mode = unix.S_IFREG | 0o600
		}, map[string]string{"new/deep/f": "f"}},
		"onto another": {func(a *applied, now *tree.State) {
			a.unlink(now, "same")
			a.link(now, "h1", "same")
		}, map[string]string{"same": "h1", "h1": "h1", "h2": "h1"}},
		"onto another of one birth, after a refresh": {func(a *applied, now *tree.State) {
			a.unlink(now, "f")
			a.unlink(now, "g")
			a.m.Add(t, now, "g", trees.File("f"))
		}, map[string]string{"g": "f"}},
		"a copy": {func(a *applied, now *tree.State) {
			a.unlink(now, "h2")
			a.m.Add(t, now, "h2", trees.File("1"))
		}, map[string]string{"h1": "h1", "h2": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApplied(t)
			base := a.start(trees.Spec{"h1": trees.File("1"), "h2": {Hard: "h1"}, "f": trees.File("f"), "g": trees.File("g"), "same": trees.File("1"), "d": trees.Dir()})
			was := map[string]uint64{"": 0}
			for _, p := range []string{"h1", "f", "g"} {
				was[p] = a.ino(p)
			}
			now := a.edited(base, func(now *tree.State) { test.edit(a, now) })
			for range 2 {
				res, err := a.apply(base, now, ApplyOptions{})
				must.OK(t, err)
				for p, old := range test.want {
					if old == "" && slices.Contains([]uint64{was["h1"], was["f"], was["g"]}, a.ino(p)) || old != "" && a.ino(p) != was[old] {
						t.Errorf("%s is not what %q was", p, old)
					}
				}
				t.Logf("%d changes", res.Changed)
			}
			if res, err := a.apply(base, now, ApplyOptions{DryRun: true}); err != nil || res.Changed != 0 {
				t.Errorf("once more: %+v, %v", res, err)
			}
		})
	}
}

// TestApplyMovesOntoEqualBytes: a file that replaces another file with equal bytes keeps its own attributes.
func TestApplyMovesOntoEqualBytes(t *testing.T) {
	for name, edit := range map[string]func(a *applied, now *tree.State){
		"renamed": func(a *applied, now *tree.State) {
			bytes := a.own(now, "b").Content
			a.unlink(now, "b")
			a.rename(now, "a", "b")
			a.own(now, "b").Content = bytes
		},
		"new, with two names": func(a *applied, now *tree.State) {
			a.rename(now, "b", "c")
			a.own(now, "c").Content = a.own(now, "a").Content
			a.m.Add(t, now, "aa", trees.Exe("2"))
			a.link(now, "aa", "b")
		},
	} {
		a := newApplied(t)
		base := a.start(trees.Spec{"a": trees.Exe("1"), "b": trees.File("2")})
		_, err := a.apply(base, a.edited(base, func(now *tree.State) { edit(a, now) }), ApplyOptions{})
		must.OK(t, err)
		st, err := os.Lstat(filepath.Join(a.dir, "b"))
		must.OK(t, err)
		if st.Mode() != 0o755 {
			t.Errorf("%s: its mode is %v", name, st.Mode())
		}
	}
}

// TestApplyToSeparated: the directory has changed the names of one file, and is changed by the workspace.
func TestApplyToSeparated(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"a": trees.File("1"), "b": {Hard: "a"}, "c": trees.File("2"), "d": {Hard: "c"}})
	must.OK(t, os.Remove(filepath.Join(a.dir, "a")))
	a.write("a", "new")
	for _, p := range []string{"a", "b"} {
		must.OK(t, os.Chmod(filepath.Join(a.dir, p), 0o640))
	}
	a.write("c", "3") // so does the workspace
	now := a.edited(base, func(now *tree.State) {
		a.own(now, "a").Mode = unix.S_IFREG | 0o600
		a.own(now, "c").Content = a.m.Content(t, "3")
		a.rename(now, "c", "e")
	})

	res, err := a.apply(base, now, ApplyOptions{ConflictRule: threeway.TakeTheirs})
	must.OK(t, err)
	if !slices.Equal(res.Conflicts, []string{"a", "b"}) {
		t.Errorf("in conflict are %q", res.Conflicts)
	}
	if a.ino("d") != a.ino("e") {
		t.Error("d and e are not one file")
	}
	for p, text := range has(t, a.dir) {
		if mode, _, _ := strings.Cut(text, " "); p < "c" && mode != "100600" {
			t.Errorf("%s is %s", p, text)
		}
	}
}

// TestApplySeparates: the workspace separates two names of a file that the directory has changed, so the apply copies
// the bytes of one directory to another.
func TestApplySeparates(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"a/f": trees.File("1"), "d/f": {Hard: "a/f"}})
	a.write("a/f", "2")
	now := a.edited(base, func(now *tree.State) {
		a.unlink(now, "d/f")
		a.m.Add(t, now, "d/f", trees.Node{Mode: unix.S_IFREG | 0o600, Data: "1"})
	})

	_, err := a.apply(base, now, ApplyOptions{})
	must.OK(t, err)
	got := has(t, a.dir)
	for p, mode := range map[string]string{"a/f": "100644 ", "d/f": "100600 "} {
		if !strings.HasPrefix(got[p], mode) || !strings.HasSuffix(got[p], " 2") {
			t.Errorf("%s is %q", p, got[p])
		}
	}
}

// TestApplyAttributes: a change of attributes, owner or group alone is applied. An attribute that the workspace did not
// change keeps its value in the directory, also if the directory changed it.
func TestApplyAttributes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root changes owners")
	}
	a := newApplied(t)
	base := a.start(trees.Spec{"a": trees.File("1"), "b": trees.File("1"), "d": trees.Dir(), "l": trees.Link("a")})
	for p, owner := range map[string]int{"a": 7, "b": 8} { // which the base does not know
		must.OK(t, unix.Lchown(filepath.Join(a.dir, p), owner, owner))
	}
	must.OK(t, unix.Setxattr(filepath.Join(a.dir, "b"), "user.here", []byte("h"), 0))
	now := a.edited(base, func(now *tree.State) {
		a.own(now, "a").Xattrs = []tree.Xattr{{Name: "user.k", Value: []byte{}}}
		a.own(now, "d").GID = 5
		a.own(now, "l").UID = 5
		b := a.own(now, "b")
		b.Content, b.Mtime = a.m.Content(t, "22"), trees.SomeTime+1
	})
	if res, err := a.apply(base, now, ApplyOptions{}); err != nil || res.Changed != 4 {
		t.Fatalf("%+v, %v", res, err)
	}
	for p, want := range map[string][2]uint32{"a": {7, 7}, "b": {8, 8}, "d": {0, 5}, "l": {5, 0}} {
		var st unix.Stat_t
		must.OK(t, unix.Lstat(filepath.Join(a.dir, p), &st))
		if st.Uid != want[0] || st.Gid != want[1] {
			t.Errorf("%s belongs to %d:%d, want %v", p, st.Uid, st.Gid, want)
		}
	}
	for p, name := range map[string]string{"a": "user.k", "b": "user.here"} {
		if _, err := unix.Getxattr(filepath.Join(a.dir, p), name, make([]byte, 9)); err != nil {
			t.Errorf("%s has no %s: %v", p, name, err)
		}
	}
	if res, err := a.apply(base, now, ApplyOptions{}); err != nil || res.Changed != 0 {
		t.Errorf("once more: %+v, %v", res, err)
	}
	must.OK(t, unix.Chmod(filepath.Join(a.dir, "a"), 0o600))
	next := a.edited(now, func(now *tree.State) { a.own(now, "a").Mode = unix.S_IFREG | 0o640 })
	if res, err := a.apply(now, next, ApplyOptions{}); !errors.Is(err, ErrConflict) || len(res.Conflicts) != 1 {
		t.Errorf("two other modes: %+v, %v", res, err)
	}
}

// TestApplyLooksFirst: a change that the system would refuse makes the apply fail before its first change.
func TestApplyLooksFirst(t *testing.T) {
	for name, prepare := range map[string]func(a *applied, base, now *tree.State){
		"an owner": func(a *applied, base, now *tree.State) {
			if os.Getuid() == 0 {
				a.t.Skip("root may")
			}
			was, m := a.own(base, "m"), a.own(now, "m")
			was.UID, was.GID = uint32(os.Getuid()), uint32(os.Getgid())
			m.UID, m.GID = 5, was.GID
		},
		"an immutable file": func(a *applied, _, now *tree.State) {
			a.own(now, "m").Content = a.m.Content(a.t, "2")
			f, err := os.Open(filepath.Join(a.dir, "m"))
			must.OK(a.t, err)
			flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
			if err == nil {
				err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|unix.STATX_ATTR_IMMUTABLE)
			}
			if err != nil {
				f.Close()
				a.t.Skipf("no file can be made immutable: %v", err)
			}
			a.t.Cleanup(func() {
				must.OK(a.t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags))
				f.Close()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApplied(t)
			base := a.start(trees.Spec{"a": trees.File("1"), "m": trees.File("1"), "z": trees.File("1")})
			now := a.edited(base, func(now *tree.State) {
				a.own(now, "a").Content = a.m.Content(t, "2")
				a.unlink(now, "z")
				prepare(a, base, now)
			})
			before := has(t, a.dir)
			if _, err := a.apply(base, now, ApplyOptions{}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("error %v", err)
			}
			wantSame(t, "refused", has(t, a.dir), before)
		})
	}
}

// TestApplyUnreadable: a file that the user may not read, and that the base does not have, is in conflict with a new
// file of the workspace at its path.
func TestApplyUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	a := newApplied(t)
	base := a.start(trees.Spec{"a": trees.File("1")})
	a.write("secret", "1")
	must.OK(t, os.Chmod(filepath.Join(a.dir, "secret"), 0))
	now := a.edited(base, func(now *tree.State) { a.m.Add(t, now, "secret", trees.Node{Mode: unix.S_IFREG, Data: "2"}) })
	if res, err := a.apply(base, now, ApplyOptions{}); !errors.Is(err, ErrConflict) || !slices.Equal(res.Conflicts, []string{"secret"}) {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestApplyMergesAttributes: an attribute that one side changed, and data that the other side changed,
// are no conflict, also in a file that is not text. Two different new values of one attribute are a conflict.
func TestApplyMergesAttributes(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"f": trees.File("\x001"), "g": trees.File("1\n"), "touched": trees.File("1\n")})
	a.write("touched", "mine\n")
	mine := has(t, a.dir)["touched"]
	must.OK(t, os.Chmod(filepath.Join(a.dir, "f"), 0o600))
	must.OK(t, unix.Setxattr(filepath.Join(a.dir, "g"), "user.here", []byte("h"), 0))
	now := a.edited(base, func(now *tree.State) {
		a.own(now, "f").Content = a.m.Content(t, "\x002")
		g := a.own(now, "g")
		g.Content = a.m.Content(t, "2\n")
		g.SetXattr("user.there", []byte("t"))
		a.own(now, "touched").Mtime++
	})
	if res, err := a.apply(base, now, ApplyOptions{}); err != nil || res.Changed != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	got := has(t, a.dir)
	if f := got["f"]; f[:6] != "100600" || f[len(f)-2:] != "\x002" {
		t.Errorf("f is %q", f)
	}
	if got["touched"] != mine {
		t.Errorf("touched is %q, want %q", got["touched"], mine)
	}
	for _, name := range []string{"user.here", "user.there"} {
		if _, err := unix.Getxattr(filepath.Join(a.dir, "g"), name, make([]byte, 9)); err != nil {
			t.Errorf("g has no %s: %v", name, err)
		}
	}
	if res, err := a.apply(base, now, ApplyOptions{}); err != nil || res.Changed != 0 {
		t.Errorf("once more: %+v, %v", res, err)
	}

	must.OK(t, unix.Setxattr(filepath.Join(a.dir, "g"), "user.there", []byte("other"), 0))
	next := a.edited(now, func(next *tree.State) {
		g := a.own(next, "g")
		g.Content = a.m.Content(t, "3\n")
		g.SetXattr("user.there", []byte("next"))
	})
	if res, err := a.apply(now, next, ApplyOptions{}); !errors.Is(err, ErrConflict) || !slices.Equal(res.Conflicts, []string{"g"}) {
		t.Errorf("two values: %+v, %v", res, err)
	}
}

// TestApplyTimeOfLinks: a time that the workspace set is set for a file that gets a further name in the place of
// another file, and whose attributes changed, too.
func TestApplyTimeOfLinks(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"a": trees.File("1"), "h": {Hard: "a"}, "b": trees.File("2"), "d": {Hard: "b"}})
	must.OK(t, os.Chmod(filepath.Join(a.dir, "h"), 0o600))
	now := a.edited(base, func(now *tree.State) {
		a.rename(now, "a", "t")
		a.rename(now, "d", "a")
		a.rename(now, "t", "d")
		h := a.own(now, "h")
		h.Mtime = trees.SomeTime + 1
		h.SetXattr("user.k", []byte("v"))
	})
	_, err := a.apply(base, now, ApplyOptions{})
	must.OK(t, err)

	for _, p := range []string{"d", "h"} {
		var st unix.Stat_t
		must.OK(t, unix.Lstat(filepath.Join(a.dir, p), &st))
		if timeOf(st.Mtim) != trees.SomeTime+1 || st.Ino != a.ino("h") {
			t.Errorf("%s has the time %d, want %d", p, timeOf(st.Mtim), trees.SomeTime+1)
		}
	}
}

// TestApplyForeignLinks: another user's file stays as it is if the workspace removed only another name of it, also
// if the file has another inode number there, which a refresh gave it.
func TestApplyForeignLinks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("root makes the files of another user")
	}

	a := newApplied(t)
	base := a.start(trees.Spec{"a": trees.File("1"), "b": {Hard: "a"}})
	const nobody = 65534
	now := a.edited(base, func(now *tree.State) {
		a.unlink(now, "a")
		a.unlink(now, "b")
		a.m.Add(t, now, "a", trees.File("2"))
		a.m.Add(t, now, "b", trees.File("1"))
		n := a.own(now, "a")
		n.UID, n.GID = nobody, nobody
	})
	for dir := a.dir; strings.HasPrefix(dir, filepath.Clean(os.TempDir())+"/"); dir = filepath.Dir(dir) {
		must.OK(t, os.Chown(dir, nobody, nobody))
	}
	t.Setenv("XDG_STATE_HOME", a.dir+"-state")
	before := a.ino("b")

	var res *ApplyResult
	applied := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // which ends with the goroutine, so that no other one becomes the other user
		_, _, gerr := unix.RawSyscall(unix.SYS_SETRESGID, nobody, nobody, nobody)
		_, _, uerr := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		err := errs.Ignore(cmp.Or(gerr, uerr), syscall.Errno(0))
		if err == nil {
			res, err = a.apply(base, now, ApplyOptions{})
		}
		applied <- err
	}()
	must.OK(t, <-applied)

	if len(res.Paths) != 1 || res.Paths[0].Path != "a" {
		t.Errorf("the changes are %+v", res.Paths)
	}
	if names := slices.Sorted(maps.Keys(has(t, a.dir))); !slices.Equal(names, []string{"a", "b"}) || a.ino("b") != before {
		t.Errorf("the directory has %q, and the inode of b is %d, was %d", names, a.ino("b"), before)
	}
}
