package survive_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A systemCall is made in a directory that setUp filled. What it opens beforehand, it opens before
// ready.
type systemCall struct {
	name string
	make func(dir string, ready func()) error

	// request begins the names of the operations before whose answer the daemon is killed. It is empty
	// for the first one that changes something.
	request string
}

func named(name string, call func(path func(string) string) error) systemCall {
	return systemCall{name: name, make: func(dir string, ready func()) error {
		ready()
		return call(func(name string) string { return filepath.Join(dir, name) })
	}}
}

func opened(name string, flags int, call func(fd int, dir string) error) systemCall {
	return systemCall{name: name, make: func(dir string, ready func()) error {
		fd, err := unix.Open(filepath.Join(dir, "f"), flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		ready()
		return call(fd, dir)
	}}
}

func wrote(_ int, err error) error { return err }

// systemCalls are those that change something, each with results that differ when it is made twice or
// not at all.
var systemCalls = []systemCall{
	named("mkdir", func(p func(string) string) error { return unix.Mkdir(p("n"), 0o750) }),
	named("mkdir over a file", func(p func(string) string) error { return unix.Mkdir(p("f"), 0o750) }),
	named("rmdir", func(p func(string) string) error { return unix.Rmdir(p("d/e")) }),
	named("rmdir, not empty", func(p func(string) string) error { return unix.Rmdir(p("d")) }),
	named("unlink", func(p func(string) string) error { return unix.Unlink(p("g")) }),
	named("unlink one of two names", func(p func(string) string) error { return unix.Unlink(p("f")) }),
	named("rename", func(p func(string) string) error { return unix.Rename(p("f"), p("n")) }),
	named("rename over a file", func(p func(string) string) error { return unix.Rename(p("f"), p("g")) }),
	named("rename a directory", func(p func(string) string) error { return unix.Rename(p("d"), p("d2/n")) }),
	named("exchange", func(p func(string) string) error {
		return unix.Renameat2(unix.AT_FDCWD, p("f"), unix.AT_FDCWD, p("d/f"), unix.RENAME_EXCHANGE)
	}),
	named("exchange with a directory", func(p func(string) string) error {
		return unix.Renameat2(unix.AT_FDCWD, p("g"), unix.AT_FDCWD, p("d/e"), unix.RENAME_EXCHANGE)
	}),
	named("rename without replacing", func(p func(string) string) error {
		return unix.Renameat2(unix.AT_FDCWD, p("f"), unix.AT_FDCWD, p("n"), unix.RENAME_NOREPLACE)
	}),
	named("rename without replacing what is there", func(p func(string) string) error {
		return unix.Renameat2(unix.AT_FDCWD, p("f"), unix.AT_FDCWD, p("g"), unix.RENAME_NOREPLACE)
	}),
	named("link", func(p func(string) string) error { return unix.Link(p("f"), p("n")) }),
	named("link over a file", func(p func(string) string) error { return unix.Link(p("f"), p("g")) }),
	named("symlink", func(p func(string) string) error { return unix.Symlink("to", p("n")) }),
	named("mkfifo", func(p func(string) string) error { return unix.Mkfifo(p("n"), 0o640) }),
	named("create", func(p func(string) string) error {
		fd, err := unix.Open(p("n"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o640)
		return errors.Join(err, unix.Close(fd))
	}),
	named("open and cut off", func(p func(string) string) error {
		fd, err := unix.Open(p("f"), unix.O_TRUNC|unix.O_WRONLY|unix.O_CLOEXEC, 0)
		return errors.Join(err, unix.Close(fd))
	}),
	named("truncate", func(p func(string) string) error { return unix.Truncate(p("f"), 100) }),
	named("extend", func(p func(string) string) error { return unix.Truncate(p("f"), 1_000_000) }),
	named("chmod", func(p func(string) string) error { return unix.Chmod(p("f"), 0o600) }),
	named("chown", func(p func(string) string) error { return unix.Lchown(p("g"), os.Getuid(), os.Getgid()) }),
	named("setxattr", func(p func(string) string) error {
		return unix.Setxattr(p("f"), "user.b", []byte("2"), unix.XATTR_CREATE)
	}),
	named("replace an xattr", func(p func(string) string) error {
		return unix.Setxattr(p("f"), "user.a", []byte("2"), unix.XATTR_REPLACE)
	}),
	named("removexattr", func(p func(string) string) error { return unix.Removexattr(p("f"), "user.a") }),
	opened("write", unix.O_RDWR, func(fd int, _ string) error { return wrote(unix.Pwrite(fd, []byte("xyz"), 10)) }),
	opened("append", unix.O_RDWR|unix.O_APPEND, func(fd int, _ string) error { return wrote(unix.Write(fd, []byte("xyz"))) }),
	opened("append twice", unix.O_RDWR|unix.O_APPEND, func(fd int, _ string) error {
		return errors.Join(wrote(unix.Write(fd, []byte("one"))), wrote(unix.Write(fd, []byte("two"))))
	}),
	opened("write far behind the end", unix.O_RDWR, func(fd int, _ string) error { return wrote(unix.Pwrite(fd, []byte("xyz"), 1_000_000)) }),
	opened("write and sync", unix.O_RDWR, func(fd int, _ string) error {
		return errors.Join(wrote(unix.Pwrite(fd, []byte("xyz"), 0)), unix.Fsync(fd))
	}),
	opened("write with O_DSYNC", unix.O_RDWR|unix.O_DSYNC, func(fd int, _ string) error { return wrote(unix.Write(fd, []byte("xyz"))) }),
	opened("punch a hole", unix.O_RDWR, func(fd int, _ string) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 8192)
	}),
	opened("allocate", unix.O_RDWR, func(fd int, _ string) error { return unix.Fallocate(fd, 0, 0, 1_000_000) }),
	opened("zero a range", unix.O_RDWR, func(fd int, _ string) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 100, 20_000)
	}),
	opened("copy within the file", unix.O_RDWR, func(fd int, _ string) error {
		from, to := int64(0), int64(60_000)
		return wrote(unix.CopyFileRange(fd, &from, fd, &to, 20_000, 0))
	}),
	opened("unlink while it is open", unix.O_RDWR, func(fd int, dir string) error {
		return errors.Join(unix.Unlink(filepath.Join(dir, "f")), wrote(unix.Pwrite(fd, []byte("xyz"), 0)))
	}),
	opened("replace while it is open", unix.O_RDWR, func(fd int, dir string) error {
		return errors.Join(unix.Rename(filepath.Join(dir, "g"), filepath.Join(dir, "f")), wrote(unix.Pwrite(fd, []byte("xyz"), 0)))
	}),
	{name: "a file without a name, and its first one", make: func(dir string, ready func()) error {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o640)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if _, err := unix.Write(fd, []byte("no name")); err != nil {
			return err
		}
		ready()
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, filepath.Join(dir, "n"), unix.AT_SYMLINK_FOLLOW)
	}},
	{name: "make a file without a name", make: func(dir string, ready func()) error {
		ready()
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o640)
		return errors.Join(err, wrote(unix.Write(fd, []byte("no name"))), unix.Close(fd))
	}},
}

// setUp fills a directory for a system call.
func setUp(t *testing.T, dir string) {
	must.OK(t, os.MkdirAll(filepath.Join(dir, "d", "e"), 0o755))
	must.OK(t, os.Mkdir(filepath.Join(dir, "d2"), 0o755))
	for _, name := range []string{"f", "g", "d/f", "d2/f"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name+" has this\n", 5000)), 0o644))
	}
	must.OK(t, os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "hard")))
	must.OK(t, unix.Setxattr(filepath.Join(dir, "f"), "user.a", []byte("1"), 0))
}

// treeOf describes all that is below a directory.
func treeOf(t *testing.T, dir string) (all []string) {
	must.OK(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		what := fmt.Sprintf("%s %o %d", strings.TrimPrefix(path, dir), st.Mode, st.Nlink)
		switch {
		case e.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			value := make([]byte, 10)
			a, _ := unix.Getxattr(path, "user.a", value)
			what += fmt.Sprintf(" %d %x %s", st.Size, b, value[:max(0, a)])
			n, _ := unix.Getxattr(path, "user.b", value)
			what += string(value[:max(0, n)])
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " " + to
		}
		all = append(all, what)
		return nil
	}))
	return all
}

// A callTable makes system calls on a mount whose daemons are killed, and the same ones where none is.
type callTable struct {
	*pointed
	plain string         // a directory of another filesystem
	other *harness.Mount // with snapshots
}

// A death is a moment at which a daemon is killed, and what becomes of the next one: a point and an end.
type death struct {
	moment string
	next   [2]string
}

const beforeRead, beforeAnswer = "before it is read", "before the answer"

// make makes a call whose daemon dies, and compares.
func (k *callTable) make(t *testing.T, c systemCall, name string, d death) {
	what := fmt.Sprintf("%s, killed %s, then %s", c.name, d.moment, d.next)
	onSnapshots := slices.ContainsFunc(snapshotCalls, func(s systemCall) bool { return s.name == c.name })
	want, got := filepath.Join(k.plain, name), k.Path(name)
	if onSnapshots {
		want = k.other.Path(name)
	}
	setUp(t, want)
	setUp(t, got)
	before := treeOf(t, got) // which the kernel has in its caches then
	wantErr := c.make(want, func() {})

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wait := fmt.Sprintf("/proc/self/task/%d/wchan", unix.Gettid())
	gotErr := c.make(got, func() {
		if d.next[0] != "" {
			k.arm(t, d.next[0], d.next[1])
		}
		if d.moment == beforeAnswer {
			k.arm(t, "answer", c.request)
			return
		}
		pid := k.Pid()
		must.OK(t, syscall.Kill(pid, syscall.SIGSTOP))
		go func() {
			harness.Poll(func() bool { b, _ := os.ReadFile(wait); return string(b) == "request_wait_answer" })
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}()
	})
	if (wantErr == nil || c.request != "") && k.armed("answer") {
		t.Errorf("%s: no daemon was killed", what)
	}
	// The next daemon of these answers requests before it dies, too.
	lost := gotErr == errLost && d.next[0] == "serving"
	if !lost && fmt.Sprint(gotErr) != strings.ReplaceAll(fmt.Sprint(wantErr), filepath.Dir(want), k.Dir) {
		t.Errorf("%s: %v, want %v", what, gotErr, wantErr)
	}

	a, b := treeOf(t, got), treeOf(t, want)
	if onSnapshots {
		a, b = append(a, snapshotsOf(t, site(got))...), append(b, snapshotsOf(t, site(want))...)
	}
	if !slices.Equal(a, b) {
		t.Errorf("%s: the tree differs:\n%.300s\nwant\n%.300s\nbefore\n%.300s", what, diffLines(a, b), diffLines(b, a), diffLines(before, b))
	}

	// A call that fails in the kernel reaches no daemon.
	must.OK(t, os.RemoveAll(k.points))
	must.OK(t, os.Mkdir(k.points, 0o700))
	for _, dir := range []string{got, want} {
		must.OK(t, os.RemoveAll(dir))
		if onSnapshots {
			removeSnapshots(t, site(dir))
		}
	}
}

// TestSystemCalls: a system call whose daemon is killed, before it reads the request or before it answers,
// is made once, also if the next daemon fails, wherever that is. The short form has the next daemon of each
// call succeed or fail at one of four points.
func TestSystemCalls(t *testing.T) {
	successors := [][2]string{{}}
	for _, point := range points {
		for _, how := range ends[:3] {
			successors = append(successors, [2]string{point, how})
		}
	}
	if !harness.LongTests() {
		successors = append(successors[:1], successors[1], successors[5], successors[9], successors[11])
	}
	calls := slices.Concat(systemCalls, moreCalls, snapshotCalls)
	newMount(t).Stop() // for the kernel
	harness.TaggedBinary(t, "points")

	const lanes = 4 // most of the time a daemon starts
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				k := &callTable{newPointed(t), t.TempDir(), harness.New(t)}
				for i := lane; i < len(calls); i += lanes {
					for j, next := range successors {
						for _, moment := range []string{beforeRead, beforeAnswer} {
							// A page that is waited for stops all of this process, which then kills nobody.
							if moment == beforeRead && strings.HasSuffix(calls[i].name, "through a mapping") {
								continue
							}
							if harness.LongTests() || (i+j)%len(successors) == 0 && (moment == beforeAnswer || i%7 == 0) {
								k.make(t, calls[i], fmt.Sprintf("%d-%d-%.10s", i, j, strings.ReplaceAll(moment, " ", "")), death{moment, next})
							}
						}
					}
				}
			})
		})
	}
	wg.Wait()
}

// diffLines returns the lines of a that b has not.
func diffLines(a, b []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) }), "\n")
}
