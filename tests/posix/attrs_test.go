package posix_test

import (
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

func times(t *testing.T, dir string) {
	path := write(t, dir+"/f", "x")
	for _, ts := range []unix.Timespec{{Sec: 981173106, Nsec: 123456789}, {Sec: 0, Nsec: 1}, {Sec: -1, Nsec: 999999999}, {Sec: 4_000_000_000, Nsec: 5}, {Sec: 10_413_792_000, Nsec: 6}, {Sec: -2_000_000_000}} {
		must.OK(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{ts, ts}, 0))
		if st := stat(t, path); st.Mtim != ts || st.Atim != ts {
			t.Errorf("set %v: atime %v, mtime %v", ts, st.Atim, st.Mtim)
		}
	}
	// What cannot be stored is an error, and changes nothing.
	for _, sec := range []int64{-1 << 32, 1 << 34} {
		late := unix.Timespec{Sec: sec}
		wantErr(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{late, late}, 0), unix.EINVAL)
	}
	if st := stat(t, path); st.Mtim.Sec != -2_000_000_000 {
		t.Errorf("after an error mtime is %v", st.Mtim)
	}
	// UTIME_OMIT leaves one alone; ctime follows every change.
	before := stat(t, path)
	set := unix.Timespec{Sec: 1000, Nsec: 7}
	must.OK(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, set}, 0))
	after := stat(t, path)
	if after.Atim != before.Atim || after.Mtim != set {
		t.Errorf("atime %v, mtime %v", after.Atim, after.Mtim)
	}
	if after.Ctim.Nano() <= before.Ctim.Nano() {
		t.Errorf("ctime %v, then %v", before.Ctim, after.Ctim)
	}
	must.OK(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}, 0))
	if st := stat(t, path); st.Mtim.Nano() < before.Ctim.Nano() {
		t.Errorf("now is %v, before %v", st.Mtim, before.Ctim)
	}
	// A write sets mtime and ctime, chmod ctime alone.
	must.OK(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{set, set}, 0))
	f := open(t, path, os.O_WRONLY)
	_, err := f.WriteString("y")
	must.OK(t, err)
	written := stat(t, path)
	if written.Mtim == set {
		t.Error("a write left mtime alone")
	}
	must.OK(t, os.Chmod(path, 0o600))
	if st := stat(t, path); st.Mtim != written.Mtim || st.Ctim.Nano() <= written.Ctim.Nano() {
		t.Errorf("chmod: mtime %v to %v, ctime %v to %v", written.Mtim, st.Mtim, written.Ctim, st.Ctim)
	}
}

// A directory's mtime changes with its entries, and with nothing else.
func timesOfDirectories(t *testing.T, dir string) {
	old := unix.Timespec{Sec: 1000}
	changes := func(what string, want bool, do func() error) {
		t.Helper()
		must.OK(t, unix.UtimesNanoAt(unix.AT_FDCWD, dir, []unix.Timespec{old, old}, 0))
		must.OK(t, do())
		if got := stat(t, dir).Mtim != old; got != want {
			t.Errorf("%s: mtime changed: %v", what, got)
		}
	}
	changes("create", true, func() error { return os.WriteFile(dir+"/f", nil, 0o644) })
	changes("write", false, func() error { return os.WriteFile(dir+"/f", []byte("x"), 0o644) })
	changes("chmod", false, func() error { return os.Chmod(dir+"/f", 0o600) })
	changes("link", true, func() error { return os.Link(dir+"/f", dir+"/g") })
	changes("rename", true, func() error { return os.Rename(dir+"/g", dir+"/h") })
	changes("unlink", true, func() error { return os.Remove(dir + "/h") })
	changes("mkdir", true, func() error { return os.Mkdir(dir+"/d", 0o755) })
	changes("below", false, func() error { return os.WriteFile(dir+"/d/f", nil, 0o644) })
	changes("symlink", true, func() error { return os.Symlink("x", dir+"/s") })
}

// Writing to a file, or giving it away, takes suid and sgid with it.
func suidIsCleared(t *testing.T, dir string) {
	needRoot(t)
	path := write(t, dir+"/f", "x")
	const suid = unix.S_ISUID | unix.S_ISGID | 0o755
	must.OK(t, unix.Chmod(path, suid))
	if st := stat(t, path); st.Mode&0o7777 != suid {
		t.Fatalf("mode %o", st.Mode)
	}
	must.OK(t, unix.Lchown(path, 4242, 4242))
	if st := stat(t, path); st.Mode&0o7777 != 0o755 {
		t.Errorf("after chown: mode %o", st.Mode)
	}
	const locking = unix.S_ISGID | 0o644 // without group execution it is no right
	must.OK(t, unix.Chmod(path, locking))
	must.OK(t, unix.Lchown(path, 0, 4243))
	if st := stat(t, path); st.Mode&0o7777 != locking {
		t.Errorf("after chown: mode %o, was %o", st.Mode, locking)
	}
	// Root keeps the bits when it writes (CAP_FSETID), others lose them:
	// unprivileged is a case of its own with allow_other.
	must.OK(t, unix.Chmod(path, suid))
	f := open(t, path, os.O_WRONLY)
	_, err := f.WriteString("y")
	must.OK(t, err)
	if st := stat(t, path); st.Mode&0o7777 != suid {
		t.Errorf("after root's write: mode %o", st.Mode)
	}
}

func xattrNamespaces(t *testing.T, dir string) {
	path := write(t, dir+"/f", "x")
	set := map[string]string{"user.empty": "", "user.long": strings.Repeat("v", 4000), "user.bytes": "\x00\xff\n"}
	if os.Getuid() == 0 {
		set["trusted.t"] = "t"
		set["security.s"] = "s"
	}
	for name, value := range set {
		must.OK(t, unix.Setxattr(path, name, []byte(value), 0))
	}
	buf := make([]byte, 64<<10)
	for name, value := range set {
		n, err := unix.Getxattr(path, name, buf)
		must.OK(t, err)
		if string(buf[:n]) != value {
			t.Errorf("%s is %q", name, clip(string(buf[:n])))
		}
	}
	n, err := unix.Listxattr(path, buf)
	must.OK(t, err)
	listed := map[string]bool{}
	for _, name := range strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00") {
		listed[name] = true
	}
	for name := range set {
		if !listed[name] {
			t.Errorf("%s is not listed", name)
		}
	}
	// Too small a buffer, and none.
	if _, err := unix.Getxattr(path, "user.long", buf[:10]); err != unix.ERANGE {
		t.Errorf("a short buffer: %v", err)
	}
	if n, err := unix.Getxattr(path, "user.long", nil); n != 4000 || err != nil {
		t.Errorf("no buffer: %d, %v", n, err)
	}
	// They belong to the inode, on directories too.
	must.OK(t, os.Link(path, dir+"/g"))
	if n, err := unix.Getxattr(dir+"/g", "user.long", buf); n != 4000 || err != nil {
		t.Errorf("through another name: %d, %v", n, err)
	}
	must.OK(t, unix.Setxattr(dir, "user.d", []byte("d"), 0))
	must.OK(t, unix.Removexattr(dir, "user.d"))
	_, err = unix.Getxattr(dir, "user.d", buf)
	wantErr(t, err, unix.ENODATA)
}

func xattrFlags(t *testing.T, dir string) {
	path := write(t, dir+"/f", "x")
	wantErr(t, unix.Setxattr(path, "user.a", []byte("1"), unix.XATTR_REPLACE), unix.ENODATA)
	must.OK(t, unix.Setxattr(path, "user.a", []byte("1"), unix.XATTR_CREATE))
	wantErr(t, unix.Setxattr(path, "user.a", []byte("2"), unix.XATTR_CREATE), unix.EEXIST)
	must.OK(t, unix.Setxattr(path, "user.a", []byte("3"), unix.XATTR_REPLACE))
	buf := make([]byte, 10)
	if n, err := unix.Getxattr(path, "user.a", buf); err != nil || string(buf[:n]) != "3" {
		t.Errorf("%q, %v", buf[:max(n, 0)], err)
	}
	wantErr(t, unix.Removexattr(path, "user.b"), unix.ENODATA)
	wantErr(t, unix.Setxattr(path, "user."+strings.Repeat("n", 256), nil, 0), unix.ERANGE)
	wantErr(t, unix.Setxattr(path, "user.", nil, 0), unix.EINVAL)
	wantErr(t, unix.Setxattr(path, "other.a", nil, 0), unix.EOPNOTSUPP)
}

func specialFiles(t *testing.T, dir string) {
	must.OK(t, unix.Mkfifo(dir+"/fifo", 0o640))
	if st := stat(t, dir+"/fifo"); st.Mode != unix.S_IFIFO|0o640 {
		t.Errorf("fifo: mode %o", st.Mode)
	}
	// A pipe that works: both ends in this process.
	r, err := unix.Open(dir+"/fifo", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	must.OK(t, err)
	defer unix.Close(r)
	w, err := unix.Open(dir+"/fifo", unix.O_WRONLY, 0)
	must.OK(t, err)
	_, err = unix.Write(w, []byte("through"))
	must.OK(t, err)
	buf := make([]byte, 16)
	if n, err := unix.Read(r, buf); err != nil || string(buf[:n]) != "through" {
		t.Errorf("%q, %v", buf[:max(n, 0)], err)
	}
	unix.Close(w)
	must.OK(t, unix.Mknod(dir+"/sock", unix.S_IFSOCK|0o600, 0))
	if st := stat(t, dir+"/sock"); st.Mode != unix.S_IFSOCK|0o600 {
		t.Errorf("socket: mode %o", st.Mode)
	}
	err = unix.Mknod(dir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	if os.Getuid() != 0 {
		wantErr(t, err, unix.EPERM)
		return
	}
	must.OK(t, err)
	if st := stat(t, dir+"/null"); st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
		t.Errorf("device: mode %o, rdev %#x", st.Mode, st.Rdev)
	}
}

// TestFileHandles: a handle finds its file after the kernel has forgotten it, by
// whatever name, and nothing once the file is gone (open_by_handle_at(2)).
func TestFileHandles(t *testing.T) {
	dir := target(t, "-o", "handles")
	if os.Geteuid() != 0 {
		t.Log("open_by_handle_at needs CAP_DAC_READ_SEARCH; only its refusal is checked")
	}
	must.OK(t, os.Mkdir(dir+"/d", 0o755))
	write(t, dir+"/d/f", "by handle")
	gone := write(t, dir+"/d/gone", "")
	handle := func(path string) unix.FileHandle {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
		must.OK(t, err)
		return h
	}
	file, sub, lost := handle(dir+"/d/f"), handle(dir+"/d"), handle(gone)
	must.OK(t, os.Rename(dir+"/d/f", dir+"/d/g"))
	must.OK(t, os.Remove(gone))
	at, err := os.Open(dir)
	must.OK(t, err)
	defer at.Close()
	find := func(h unix.FileHandle) (*os.File, error) {
		fd, err := unix.OpenByHandleAt(int(at.Fd()), h, unix.O_RDONLY)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), "by handle"), nil
	}
	if os.Geteuid() != 0 {
		_, err := find(file)
		wantErr(t, err, unix.EPERM)
		return
	}
	dropCaches(t)
	f, err := find(file)
	must.OK(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil || string(b) != "by handle" {
		t.Errorf("the file of a handle has %q, %v", b, err)
	}
	d, err := find(sub)
	must.OK(t, err)
	defer d.Close()
	if names, err := d.Readdirnames(-1); err != nil || len(names) != 1 || names[0] != "g" {
		t.Errorf("the directory of a handle lists %q, %v", names, err)
	}
	_, err = find(lost)
	wantErr(t, err, unix.ESTALE)
}

// dropCaches makes the kernel forget what no process uses.
func dropCaches(t *testing.T) {
	t.Helper()
	must.OK(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
}

// TestXattrTrusted: names of the trusted namespace are listed to administrators alone.
func TestXattrTrusted(t *testing.T) {
	needRoot(t)
	dir := target(t, "-o", "allow_other")
	path := write(t, dir+"/f", "x")
	f := open(t, path, os.O_RDONLY) // others cannot reach its path
	must.OK(t, unix.Setxattr(path, "trusted.t", []byte("t"), 0))
	must.OK(t, unix.Setxattr(path, "user.u", []byte("u"), 0))
	// list runs in a thread that changes itself and ends then.
	list := func(become func() error) string {
		listed := make(chan string)
		go func() {
			runtime.LockOSThread()
			if err := become(); err != nil {
				listed <- err.Error()
				return
			}
			buf := make([]byte, 1<<10)
			n, err := unix.Flistxattr(int(f.Fd()), buf)
			if err != nil {
				listed <- err.Error()
				return
			}
			names := strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00")
			names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "security.") })
			slices.Sort(names)
			listed <- strings.Join(names, " ")
		}()
		return <-listed
	}
	without := func() error { // CAP_SYS_ADMIN
		h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&h, &caps[0]); err != nil {
			return err
		}
		caps[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
		return unix.Capset(&h, &caps[0])
	}
	nobody := func() error { // of this thread alone
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			return errno
		}
		return nil
	}
	for what, c := range map[string]struct {
		become func() error
		want   string
	}{
		"root": {func() error { return nil }, "trusted.t user.u"}, "without CAP_SYS_ADMIN": {without, "user.u"},
		"another user": {nobody, "user.u"},
	} {
		if got := list(c.become); got != c.want {
			t.Errorf("%s: %q is listed, not %q", what, got, c.want)
		}
	}
}
