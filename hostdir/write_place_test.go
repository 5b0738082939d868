package hostdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// TestApplyOneAtATime: of two applies to one directory that begin at the same time, one changes the directory, and the
// other lists the conflicts.
func TestApplyOneAtATime(t *testing.T) {
	from, as, bs := trees.Spec{}, trees.Spec{}, trees.Spec{}
	for i := range 40 {
		p := fmt.Sprintf("d%d/f%d", i%3, i)
		from[p], as[p], bs[p] = trees.File("1"), trees.File("A"), trees.File("B")
	}
	as["d0/new/a"], bs["d0/new/b"] = trees.File("A"), trees.File("B")
	delete(as, "d1/f1")
	bs["d1/f1"] = trees.Link("f4")
	var want []map[string]string
	for _, s := range []trees.Spec{as, bs} {
		w := newApplied(t)
		w.start(s)
		want = append(want, has(t, w.dir))
	}
	for round := range 40 {
		a := newApplied(t)
		base := a.start(from)
		sides := []*tree.State{a.m.State(t, as), a.m.State(t, bs)}
		res, errs := make([]*ApplyResult, 2), make([]error, 2)
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i := range sides {
			wg.Go(func() {
				<-begin
				o := ApplyOptions{Source: a.m.Src, Base: base, Now: sides[i]}
				res[i], errs[i] = Apply(context.Background(), a.dir, o)
			})
		}
		close(begin)
		wg.Wait()
		won := slices.Index(errs, nil)
		if won < 0 || errs[1-won] == nil {
			t.Fatalf("round %d: %v; one and only one can succeed", round, errs)
		}
		if err := errs[1-won]; !errors.Is(err, ErrConflict) || !slices.Contains(res[1-won].Conflicts, "d0/f0") {
			t.Fatalf("round %d: the other one: %+v, %v", round, res[1-won], err)
		}
		wantSame(t, fmt.Sprintf("round %d, %d", round, won), has(t, a.dir), want[won])
		if t.Failed() {
			return
		}
	}
}

// TestApplyWaits: an apply waits for another apply, calls OnWait, and can be interrupted. A dry run waits, too.
func TestApplyWaits(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"f": trees.File("1")})
	now := a.m.State(t, trees.Spec{"f": trees.File("2")})
	other, err := openHost(a.dir)
	must.OK(t, err)
	defer other.close()
	held, err := lockDir(context.Background(), other.rootFD, unix.F_WRLCK, nil)
	must.OK(t, err)
	for _, dry := range []bool{false, true} {
		ctx, stop := context.WithCancel(context.Background())
		o := ApplyOptions{Source: a.m.Src, Base: base, Now: now, DryRun: dry, OnWait: stop}
		if _, err := Apply(ctx, a.dir, o); !errors.Is(err, context.Canceled) {
			t.Errorf("dry run %v: %v", dry, err)
		}
	}
	said := 0
	o := ApplyOptions{OnWait: func() {
		said++
		held.Close()
	}}
	if res, err := a.apply(base, now, o); err != nil || res.Changed != 1 || said != 1 {
		t.Errorf("after the other: %+v, %v, said %d times", res, err, said)
	}
}

// TestApplyPastLocksOfOthers: every user who can read a directory can lock it, so neither an apply nor a read waits for
// such a lock.
func TestApplyPastLocksOfOthers(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a := newApplied(t)
	base := a.start(trees.Spec{"f": trees.File("1")})
	now := a.m.State(t, trees.Spec{"f": trees.File("2")})
	other, err := openHost(a.dir)
	must.OK(t, err)
	defer other.close()
	must.OK(t, unix.Flock(other.rootFD, unix.LOCK_EX))
	res, err := a.apply(base, now, ApplyOptions{OnWait: func() { t.Error("it waits") }})
	if err != nil || res.Changed != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	must.OK(t, Read(context.Background(), a.dir, func(stream.Entry) error { return nil }, ReadOptions{}))
}

// TestReadDirWaitsForApply: a read waits for the end of an apply.
func TestReadDirWaitsForApply(t *testing.T) {
	dir := t.TempDir()
	write := func(data string) {
		for i := range 300 {
			must.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(data), 0o644))
		}
	}
	write("old")
	h, err := openHost(dir)
	must.OK(t, err)
	defer h.close()
	held, err := lockDir(context.Background(), h.rootFD, unix.F_WRLCK, nil)
	must.OK(t, err)
	read := map[string]int{}
	done := make(chan error)
	go func() {
		done <- Read(context.Background(), dir, func(e stream.Entry) error {
			if e.Data == nil {
				return nil
			}
			b, err := io.ReadAll(e.Data)
			read[string(b)]++
			return err
		}, ReadOptions{})
	}()
	write("new")
	held.Close()
	must.OK(t, <-done)
	if read["new"] != 300 || len(read) != 1 {
		t.Errorf("read %v", read)
	}
}

// saved is a step whose file an editor saves after it was checked: in place, or by a rename.
func saved(t *testing.T, how string) (w *writer, s *step, dir string) {
	t.Helper()
	dir = t.TempDir()
	h, err := openHost(dir)
	must.OK(t, err)
	t.Cleanup(h.close)
	f := filepath.Join(dir, "f")
	must.OK(t, os.WriteFile(f, []byte("old"), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(dir, "staged"), []byte("new"), 0o644))
	w = newWriter(t.Context(), h, ApplyOptions{}, &ApplyResult{})
	s = &step{change: tree.Change{Path: (*tree.Path)(nil).ChildUnchecked("f")}, tempName: "staged"}
	s.original, err = h.entryAt(s.change.Path)
	must.OK(t, err)
	must.OK(t, w.placer.checkAndTouch(s))
	switch how {
	case "not":
	case "in place":
		must.OK(t, os.WriteFile(f, []byte("saved"), 0o644))
	case "renamed":
		must.OK(t, os.WriteFile(f+"~", []byte("saved"), 0o644))
		must.OK(t, os.Rename(f+"~", f))
	case "gone":
		must.OK(t, os.Remove(f))
	}
	return w, s, dir
}

// TestApplyKeepsWhatIsSaved: a file that an editor saves between the check of its path and the rename or removal is
// kept.
func TestApplyKeepsWhatIsSaved(t *testing.T) {
	for _, how := range []string{"not", "in place", "renamed", "gone"} {
		for name, do := range map[string]func(*placer, int, *step) error{"put": (*placer).placeStaged, "removeSeen": (*placer).removeOriginal} {
			a, s, dir := saved(t, how)
			err := do(a.placer, a.host.rootFD, s)
			a.staged = append(a.staged, s)
			a.discardStaged()
			b, rerr := os.ReadFile(filepath.Join(dir, "f"))
			switch {
			case how == "not" && (err != nil || name == "put" && string(b) != "new" || name == "removeSeen" && rerr == nil):
				t.Errorf("%s: %q, %v", name, b, err)
			case how == "not":
			case err == nil || !strings.Contains(err.Error(), "changed in"):
				t.Errorf("%s, %s: error %v", name, how, err)
			case how == "gone" && rerr == nil || how != "gone" && string(b) != "saved":
				t.Errorf("%s, %s: the file has %q, %v", name, how, b, rerr)
			}
			names, err := filepath.Glob(filepath.Join(dir, ".amberfs*"))
			if err != nil || len(names) > 0 {
				t.Errorf("%s, %s: left %v, %v", name, how, names, err)
			}
		}
	}
}

// TestApplyKeepsNewerTimes: a file that only gets another time keeps its own if an editor saves it, and may be removed.
func TestApplyKeepsNewerTimes(t *testing.T) {
	const planned = 1_500_000_000_000_000_000
	for _, how := range []string{"not", "in place", "renamed", "gone"} {
		w, s, dir := saved(t, how)
		s.tempName, s.change.After = "", &tree.Inode{Mode: unix.S_IFREG, Mtime: planned}
		must.OK(t, w.placer.setTime(s))
		st, err := os.Stat(filepath.Join(dir, "f"))
		if how != "gone" && (err != nil || (st.ModTime().UnixNano() == planned) != (how == "not")) {
			t.Errorf("%s: %v, %v", how, st, err)
		}
	}
}

// TestApplyKeepsWhatIsNew: a file that another program creates at the path of a new file is kept, too.
func TestApplyKeepsWhatIsNew(t *testing.T) {
	a, s, dir := saved(t, "in place")
	s.original = hostEntry{}
	err := a.placer.placeStaged(a.host.rootFD, s)
	b, rerr := os.ReadFile(filepath.Join(dir, "f"))
	if err == nil || rerr != nil || string(b) != "saved" {
		t.Errorf("%q, %v, %v", b, rerr, err)
	}
}

// TestApplyKeepsWhatAKilledOneTook: an apply is killed after it renamed a file to a temporary name. If an editor had
// just saved this file, the next apply keeps and reports it. Otherwise the next apply removes it.
func TestApplyKeepsWhatAKilledOneTook(t *testing.T) {
	for _, how := range []string{"not", "in place", "renamed"} {
		for name, take := range map[string]func(*writer, int, *step) error{
			"put":        func(a *writer, dir int, s *step) error { _, err := a.placer.exchange(dir, s); return err },
			"removeSeen": func(a *writer, dir int, s *step) error { _, err := a.placer.moveToTemp(dir, s); return err },
		} {
			a, s, dir := saved(t, how)
			must.OK(t, take(a, a.host.rootFD, s)) // nothing comes after it
			var kept []stream.Omission
			for range 2 {
				next := newWriter(t.Context(), a.host, ApplyOptions{}, &ApplyResult{})
				next.host.lockFile = new(os.File)
				must.OK(t, next.dirs.sweepDir(nil))
				kept = append(kept, next.res.Skipped...)
			}
			left, err := filepath.Glob(filepath.Join(dir, ".amberfs*"))
			must.OK(t, err)
			if how == "not" {
				if len(left)+len(kept) > 0 {
					t.Errorf("%s: left %v, kept %v", name, left, kept)
				}
				continue
			}
			if len(left) != 1 || len(kept) != 1 || kept[0].Path != filepath.Base(left[0]) {
				t.Errorf("%s, %s: left %v, kept %v", name, how, left, kept)
			} else if b, err := os.ReadFile(left[0]); err != nil || string(b) != "saved" {
				t.Errorf("%s, %s: %q, %v", name, how, b, err)
			}
		}
	}
}

// TestApplyKeepsWhatItCannotGiveBack: if another program's file cannot be renamed back to its name, it gets a name that
// no apply removes, and the error has this name.
func TestApplyKeepsWhatItCannotGiveBack(t *testing.T) {
	a, s, dir := saved(t, "in place")
	temp, err := a.placer.moveToTemp(a.host.rootFD, s)
	must.OK(t, err)
	err = a.placer.keepForeignFile(a.host.rootFD, temp, s, unix.EEXIST)
	next := newWriter(t.Context(), a.host, ApplyOptions{}, &ApplyResult{})
	next.host.lockFile = new(os.File)
	must.OK(t, next.dirs.sweepDir(nil))
	left, gerr := filepath.Glob(filepath.Join(dir, ".amberfs-kept-*"))
	if gerr != nil || len(left) != 1 || !strings.Contains(err.Error(), filepath.Base(left[0])) || len(next.res.Skipped) > 0 {
		t.Errorf("left %v, %v; error %v; the next apply says %v", left, gerr, err, next.res.Skipped)
	}
}

// TestApplyMakesNoFileOfALink: if a hard link cannot be made now, the apply fails, and does not make a copy of the file
// instead.
func TestApplyMakesNoFileOfALink(t *testing.T) {
	a, s, dir := saved(t, "not")
	n := &tree.Inode{Ino: 7, Mode: unix.S_IFLNK | 0o777, Target: "x", Links: make([]tree.Link, 2)}
	s.change.After = n
	other := &step{change: tree.Change{Path: (*tree.Path)(nil).ChildUnchecked("g"), After: n}, tempName: "no such file"}
	s.file = &hostFile{firstStep: other}
	if err := a.createFile(a.host.rootFD, "second", s); err == nil {
		t.Error("no error")
	}
	if _, err := os.Lstat(filepath.Join(dir, "second")); err == nil {
		t.Error("it is a file of its own")
	}
}

// TestApplySweeps: an apply removes the temporary files that a killed apply to the same directory left. It keeps the
// temporary files of an apply to a subdirectory, because that apply may be running.
func TestApplySweeps(t *testing.T) {
	a := newApplied(t)
	base := a.start(trees.Spec{"d/f": trees.File("1"), "gone/f": trees.File("1"), "is/f": trees.File("1"), "new/f": trees.File("1")})
	now := a.m.State(t, trees.Spec{"d/f": trees.File("2"), "is": trees.File("a file"), "new/f": trees.File("2")})
	a.write("new/f", "2") // it got its name
	h, err := openHost(a.dir)
	must.OK(t, err)
	below, err := openHost(filepath.Join(a.dir, "d"))
	must.OK(t, err)
	h.close()
	below.close()
	a.write("d/"+below.ownTempPrefix+"x", "of another")
	for _, p := range []string{"d/", "gone/", "is/", "new/", "d/" + h.ownTempPrefix + "dir/"} {
		a.write(p+h.ownTempPrefix+"x", "left")
	}
	_, err = a.apply(base, now, ApplyOptions{})
	must.OK(t, err)
	got := has(t, a.dir)
	if len(got) != 6 || got["d/"+below.ownTempPrefix+"x"] == "" || !strings.HasSuffix(got["is"], "a file") || !strings.HasSuffix(got["d/f"], "2") {
		t.Errorf("the directory has %v", got)
	}
}
