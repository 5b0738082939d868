package hostdir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// mounted mounts something for a test.
func mounted(t *testing.T, source, target, kind string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	t.Cleanup(func() { must.OK(t, unix.Unmount(target, unix.MNT_DETACH)) })
}

// TestApplyOnOverlay: on overlayfs, a file of the lower layer with several names gets another inode when it is changed.
func TestApplyOnOverlay(t *testing.T) {
	from := trees.Spec{"l1": trees.File("1"), "l2": {Hard: "l1"}, "a/a": trees.File("a"), "a/b": trees.File("b"), "d/a": {Hard: "a/a"}, "d/b": {Hard: "a/b"}, "in": trees.File("x"), "out": {Hard: "in"}}
	private := trees.Node{Mode: unix.S_IFREG | 0o600, Data: "1"}
	for name, to := range map[string]trees.Spec{
		"moved":   {"l1": trees.File("1"), "l2": {Hard: "l1"}, "a/a": trees.File("a"), "a/b": trees.File("b"), "e/a": {Hard: "a/a"}, "e/b": {Hard: "a/b"}, "in": trees.File("x"), "out": {Hard: "in"}},
		"removed": {"l1": trees.File("1"), "l2": {Hard: "l1"}, "a/a": trees.File("a"), "a/b": trees.File("b"), "in": trees.File("x")},
		"mode":    {"l1": private, "n/l3": {Hard: "l1"}, "a/a": trees.File("a"), "a/b": trees.File("b"), "d/a": {Hard: "a/a"}, "d/b": {Hard: "a/b"}, "in": trees.File("x"), "out": {Hard: "in"}},
		"modes":   {"l1": private, "l2": {Hard: "l1"}, "a/a": trees.File("a"), "a/b": trees.File("b"), "d/a": {Hard: "a/a"}, "d/b": {Hard: "a/b"}, "in": trees.File("x"), "out": {Hard: "in"}},
		"written": {"l1": trees.File("2"), "l2": {Hard: "l1"}, "a/a": trees.File("aa"), "a/b": trees.File("b"), "d/a": {Hard: "a/a"}, "d/b": {Hard: "a/b"}, "in": trees.File("y"), "out": {Hard: "in"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, want := newApplied(t), newApplied(t)
			want.start(to)
			base := a.start(from)
			upper := t.TempDir()
			for _, dir := range []string{"upper", "work", "merged"} {
				must.OK(t, os.Mkdir(filepath.Join(upper, dir), 0o755))
			}
			mounted(t, "overlay", filepath.Join(upper, "merged"), "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,index=off", a.dir, filepath.Join(upper, "upper"), filepath.Join(upper, "work")))
			a.dir = filepath.Join(upper, "merged")
			_, err := a.apply(base, a.m.State(t, to), ApplyOptions{})
			must.OK(t, err)
			wantSame(t, name, has(t, a.dir), has(t, want.dir))
		})
	}
}

// TestApplySweepsLinks: a temporary name that a killed apply left can be a hard link of a file that the next apply
// removes or moves.
func TestApplySweepsLinks(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"d/f": trees.File("1"), "d/g": trees.File("2"), "h": trees.File("3")})
	h, err := openHost(a.dir)
	must.OK(t, err)
	h.close()
	must.OK(t, os.Mkdir(filepath.Join(a.dir, h.ownTempPrefix+"new"), 0o755))
	for left, of := range map[string]string{"d/" + h.ownTempPrefix + "x": "d/f", "d/" + h.ownTempPrefix + "y": "d/g", h.ownTempPrefix + "new/h": "h"} {
		must.OK(t, os.Link(filepath.Join(a.dir, of), filepath.Join(a.dir, left)))
	}
	to := trees.Spec{"d/g": trees.File("2+"), "i": trees.File("3")}
	_, err = a.apply(base, a.m.State(t, to), ApplyOptions{})
	must.OK(t, err)
	want := newApplied(t)
	want.start(to)
	wantSame(t, "the second apply", has(t, a.dir), has(t, want.dir))
}

// TestApplyCompletesTimes: if an apply was killed before it restored the times of directories, the next apply does so.
func TestApplyCompletesTimes(t *testing.T) {
	a := newApplied(t)
	from := trees.Spec{"d/a": trees.File("1"), "d/b": trees.File("1"), "d/gone": trees.File("1"), "e/a": trees.File("1"), "e/b": trees.File("1"), "o/a": trees.File("1")}
	base := a.start(from)
	now := a.m.State(t, trees.Spec{"d/a": trees.File("2"), "d/b": trees.File("1"), "e/a": trees.File("2"), "e/b": trees.File("2"), "o/a": trees.File("2")})
	_, err := a.apply(base, now, ApplyOptions{})
	must.OK(t, err)
	times := make(map[string]int64)
	killed := time.Now().Truncate(time.Second)
	for _, dir := range []string{"d", "e", "o"} {
		st, err := os.Stat(filepath.Join(a.dir, dir))
		must.OK(t, err)
		times[dir] = st.ModTime().UnixNano()
	}
	a.write("e/a", "1") // it was not reached
	a.write("o/others", "a person's")
	for dir := range times {
		must.OK(t, os.Chtimes(filepath.Join(a.dir, dir), killed, killed))
	}
	must.OK(t, os.Chtimes(filepath.Join(a.dir, "e/a"), killed, killed))

	_, err = a.apply(base, now, ApplyOptions{})
	must.OK(t, err)
	for dir, want := range times {
		st, err := os.Stat(filepath.Join(a.dir, dir))
		must.OK(t, err)
		if dir == "o" {
			want = killed.UnixNano() // another program made a file there
		}
		if got := st.ModTime().UnixNano(); got != want {
			t.Errorf("%s has the time %d, want %d", dir, got, want)
		}
	}
}

// TestReadDirLeavesOutTemporaryNames: temporary files of a killed apply are not read, and are reported to the caller.
func TestReadDirLeavesOutTemporaryNames(t *testing.T) {
	dir := t.TempDir()
	h, err := openHost(dir)
	must.OK(t, err)
	h.close()
	for _, name := range []string{"f", ".amberfs-apply-notes", ".amberfs-kept-x", h.ownTempPrefix + "x"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	var left LeftOut
	var names []string
	add := func(e stream.Entry) error { names = append(names, e.Path); return nil }
	must.OK(t, Read(context.Background(), dir, add, ReadOptions{Options: stream.Options{Skip: left.Add}}))
	if got := strings.Join(names, " "); got != ". .amberfs-apply-notes .amberfs-kept-x f" {
		t.Errorf("read %s", got)
	}
	if text := left.Describe(dir); !strings.Contains(text, "was interrupted") {
		t.Errorf("it says %q", text)
	}
}

// TestApplyNamesMounts: a mount point that is in the way makes the apply fail before its first change.
func TestApplyNamesMounts(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"a": trees.File("1"), "d/m": trees.File("1"), "z": trees.File("1")})
	mounted(t, filepath.Join(a.dir, "z"), filepath.Join(a.dir, "d/m"), "", unix.MS_BIND, "")
	before := has(t, a.dir)
	now := a.m.State(t, trees.Spec{"a": trees.File("2"), "e/m": trees.File("1"), "z": trees.File("1")})
	plan, err := a.apply(base, now, ApplyOptions{DryRun: true})
	if err != nil || len(plan.Notes) != 1 || plan.Notes[0].Path != "d/m" {
		t.Errorf("the plan has %+v, %v", plan, err)
	}
	_, err = a.apply(base, now, ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "d/m in ") {
		t.Errorf("error %v", err)
	}
	wantSame(t, "after the refusal", has(t, a.dir), before)
	leave := func(p string) Choice { return Choice{Leave: p == "d/m" || p == "d"} }
	_, err = a.apply(base, now, ApplyOptions{Choose: leave})
	must.OK(t, err)
}

// TestApplyNamesUsers: the result names the programs that have a file open or locked, and hard links outside of the
// directory.
func TestApplyNamesUsers(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"locked": trees.File("1"), "leased": trees.File("1"), "linked": trees.File("1"), "free": trees.File("1")})
	now := a.edited(base, func(now *tree.State) {
		for _, name := range []string{"locked", "leased", "linked", "free"} {
			a.own(now, name).Content = a.m.Content(t, "2")
		}
	})
	must.OK(t, os.Link(filepath.Join(a.dir, "linked"), filepath.Join(t.TempDir(), "outside")))
	for _, name := range []string{"locked", "leased"} {
		f, err := os.Open(filepath.Join(a.dir, name))
		must.OK(t, err)
		defer f.Close()
		if name == "leased" {
			_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
		} else {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		must.OK(t, err)
	}
	plan, err := a.apply(base, now, ApplyOptions{DryRun: true})
	must.OK(t, err)
	got := make(map[string]string)
	for _, n := range plan.Notes {
		got[n.Path] += n.Reason
	}
	me := "locked by " + programName(os.Getpid())
	if len(got) != 3 || got["locked"] != me || got["leased"] != me || !strings.Contains(got["linked"], "outside") {
		t.Errorf("notes %q", got)
	}
}

// TestApplyRefusedAttribute: an attribute that the file system refuses is reported, and not applied.
func TestApplyRefusedAttribute(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"f": trees.File("1")})
	now := a.m.State(t, trees.Spec{"f": trees.Node{Mode: unix.S_IFREG | 0o644, Data: "2", Xattrs: []tree.Xattr{{Name: "nobody.knows", Value: []byte("x")}}}})
	res, err := a.apply(base, now, ApplyOptions{})
	must.OK(t, err)
	if !res.Incomplete || len(res.Skipped) != 1 || res.Skipped[0].Path != "f" {
		t.Errorf("the result is %+v", res)
	}
}
