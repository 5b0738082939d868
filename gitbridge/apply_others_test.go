package gitbridge

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
	"github.com/amberfs/amberfs/tests/must"
)

// mounted mounts something for a test.
func mounted(t *testing.T, source, target, kind string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		t.Skipf("mounting needs root: %v", err)
	}
	t.Cleanup(func() { must.OK(t, unix.Unmount(target, unix.MNT_DETACH)) })
}

// Files of a lower layer of overlayfs with several names get other inodes when they are changed.
func TestApplyOnOverlay(t *testing.T) {
	from := spec{"l1": file("1"), "l2": {hard: "l1"}, "a/a": file("a"), "a/b": file("b"), "d/a": {hard: "a/a"}, "d/b": {hard: "a/b"}, "in": file("x"), "out": {hard: "in"}}
	private := node{mode: unix.S_IFREG | 0o600, data: "1"}
	for name, to := range map[string]spec{
		"moved":   {"l1": file("1"), "l2": {hard: "l1"}, "a/a": file("a"), "a/b": file("b"), "e/a": {hard: "a/a"}, "e/b": {hard: "a/b"}, "in": file("x"), "out": {hard: "in"}},
		"removed": {"l1": file("1"), "l2": {hard: "l1"}, "a/a": file("a"), "a/b": file("b"), "in": file("x")},
		"mode":    {"l1": private, "n/l3": {hard: "l1"}, "a/a": file("a"), "a/b": file("b"), "d/a": {hard: "a/a"}, "d/b": {hard: "a/b"}, "in": file("x"), "out": {hard: "in"}},
		"modes":   {"l1": private, "l2": {hard: "l1"}, "a/a": file("a"), "a/b": file("b"), "d/a": {hard: "a/a"}, "d/b": {hard: "a/b"}, "in": file("x"), "out": {hard: "in"}},
		"written": {"l1": file("2"), "l2": {hard: "l1"}, "a/a": file("aa"), "a/b": file("b"), "d/a": {hard: "a/a"}, "d/b": {hard: "a/b"}, "in": file("y"), "out": {hard: "in"}},
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
			_, err := a.apply(base, a.m.state(t, to), ApplyOptions{})
			must.OK(t, err)
			wantSame(t, name, has(t, a.dir), has(t, want.dir))
		})
	}
}

// What a killed apply left may be a link to a file that the next one removes or moves.
func TestApplySweepsLinks(t *testing.T) {
	a := newApplied(t)
	base := a.start(spec{"d/f": file("1"), "d/g": file("2"), "h": file("3")})
	h, err := openHost(a.dir)
	must.OK(t, err)
	h.close()
	must.OK(t, os.Mkdir(filepath.Join(a.dir, h.temps+"new"), 0o755))
	for left, of := range map[string]string{"d/" + h.temps + "x": "d/f", "d/" + h.temps + "y": "d/g", h.temps + "new/h": "h"} {
		must.OK(t, os.Link(filepath.Join(a.dir, of), filepath.Join(a.dir, left)))
	}
	to := spec{"d/g": file("2+"), "i": file("3")}
	_, err = a.apply(base, a.m.state(t, to), ApplyOptions{})
	must.OK(t, err)
	want := newApplied(t)
	want.start(to)
	wantSame(t, "the second apply", has(t, a.dir), has(t, want.dir))
}

// An apply that was killed before it restored the times of directories is completed by the next.
func TestApplyCompletesTimes(t *testing.T) {
	a := newApplied(t)
	from := spec{"d/a": file("1"), "d/b": file("1"), "d/gone": file("1"), "e/a": file("1"), "e/b": file("1"), "o/a": file("1")}
	base := a.start(from)
	now := a.m.state(t, spec{"d/a": file("2"), "d/b": file("1"), "e/a": file("2"), "e/b": file("2"), "o/a": file("2")})
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

// What a killed apply left is not read, and its reader is told.
func TestReadDirLeavesOutTemporaryNames(t *testing.T) {
	dir := t.TempDir()
	h, err := openHost(dir)
	must.OK(t, err)
	h.close()
	for _, name := range []string{"f", ".amberfs-apply-notes", ".amberfs-kept-x", h.temps + "x"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	var left LeftOut
	var names []string
	add := func(e Entry) error { names = append(names, e.Path); return nil }
	must.OK(t, ReadDir(context.Background(), dir, add, DirOptions{ImportOptions: ImportOptions{Skip: left.Add}}))
	if got := strings.Join(names, " "); got != ". .amberfs-apply-notes .amberfs-kept-x f" {
		t.Errorf("read %s", got)
	}
	if text := left.Of(dir); !strings.Contains(text, "was interrupted") {
		t.Errorf("it says %q", text)
	}
}

// A mount point is found before anything changes.
func TestApplyNamesMounts(t *testing.T) {
	a := newApplied(t)
	base := a.start(spec{"a": file("1"), "d/m": file("1"), "z": file("1")})
	mounted(t, filepath.Join(a.dir, "z"), filepath.Join(a.dir, "d/m"), "", unix.MS_BIND, "")
	before := has(t, a.dir)
	now := a.m.state(t, spec{"a": file("2"), "e/m": file("1"), "z": file("1")})
	plan, err := a.apply(base, now, ApplyOptions{DryRun: true})
	if err != nil || len(plan.Notes) != 1 || plan.Notes[0].Path != "d/m" {
		t.Errorf("the plan has %+v, %v", plan, err)
	}
	_, err = a.apply(base, now, ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), `"d/m"`) {
		t.Errorf("error %v", err)
	}
	wantSame(t, "after the refusal", has(t, a.dir), before)
	leave := func(p string) Choice { return Choice{Leave: p == "d/m" || p == "d"} }
	_, err = a.apply(base, now, ApplyOptions{Choose: leave})
	must.OK(t, err)
}

// Programs that have a file open or locked are named, and a hard link with a name outside.
func TestApplyNamesUsers(t *testing.T) {
	a := newApplied(t)
	base := a.start(spec{"locked": file("1"), "leased": file("1"), "linked": file("1"), "free": file("1")})
	now := a.edited(base, func(now *tree.State) {
		for _, name := range []string{"locked", "leased", "linked", "free"} {
			a.own(now, name).Content = a.m.content(t, "2")
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
	me := "locked by " + program(os.Getpid())
	if len(got) != 3 || got["locked"] != me || got["leased"] != me || !strings.Contains(got["linked"], "outside") {
		t.Errorf("notes %q", got)
	}
}

// An attribute that the file system refuses is named, and not applied.
func TestApplyRefusedAttribute(t *testing.T) {
	a := newApplied(t)
	base := a.start(spec{"f": file("1")})
	now := a.m.state(t, spec{"f": node{mode: unix.S_IFREG | 0o644, data: "2", xattrs: []tree.Xattr{{Name: "nobody.knows", Value: []byte("x")}}}})
	res, err := a.apply(base, now, ApplyOptions{})
	must.OK(t, err)
	if !res.Incomplete || len(res.Skipped) != 1 || res.Skipped[0].Path != "f" {
		t.Errorf("the result is %+v", res)
	}
}
