package posix_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// An overlay is one with its layers in given directories.
type overlay struct{ lower, upper, work, merged, options string }

func newOverlay(t *testing.T, lower, upper, options string) *overlay {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts an overlay")
	}
	o := &overlay{filepath.Join(lower, "lower"), filepath.Join(upper, "upper"), filepath.Join(upper, "work"), t.TempDir(), options}
	for _, dir := range []string{o.lower, o.upper, o.work} {
		must.OK(t, os.MkdirAll(dir, 0o755))
	}
	for _, dir := range []string{"dir/sub", "gone"} {
		must.OK(t, os.MkdirAll(filepath.Join(o.lower, dir), 0o755))
	}
	for _, file := range []string{"file", "mode", "deleted", "dir/file", "dir/sub/file", "gone/file"} {
		write(t, filepath.Join(o.lower, file), "lower")
	}
	for _, file := range []string{"touched", "chowned"} { // what makes them run with other rights
		path := write(t, filepath.Join(o.lower, file), "lower")
		must.OK(t, os.Chown(path, 1, 2))
		must.OK(t, unix.Chmod(path, 0o6755))
		must.OK(t, unix.Setxattr(path, "security.capability", netRaw, 0))
	}
	return o
}

func (o *overlay) mount(t *testing.T) {
	t.Helper()
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", o.lower, o.upper, o.work)
	if o.options != "" {
		data += "," + o.options
	}
	// With index=on the upper layer is busy while any mount namespace has a copy of the
	// last mount, as one has that another process made meanwhile.
	var err error
	harness.Eventually(t, "the upper layer is busy", func() bool {
		err = unix.Mount("overlay", o.merged, "overlay", 0, data)
		return err != unix.EBUSY
	})
	must.OK(t, err)
	t.Cleanup(func() { _ = unix.Unmount(o.merged, 0) })
}

func (o *overlay) unmount(t *testing.T) {
	t.Helper()
	must.OK(t, unix.Unmount(o.merged, 0))
	must.OK(t, os.RemoveAll(filepath.Join(o.work, "work", "incompat"))) // of volatile
	dropCaches(t)
}

func (o *overlay) at(path string) string { return filepath.Join(o.merged, path) }

// netRaw is cap_net_raw+ep as setcap(8) writes it.
var netRaw = []byte{1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// change does what an overlay records in its upper layer: copies, whiteouts, opaque
// directories and, with redirect_dir, a moved directory.
func (o *overlay) change(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(o.at("file"), os.O_WRONLY|os.O_APPEND, 0)
	must.OK(t, err)
	_, err = f.WriteString(" and upper")
	must.OK(t, err)
	must.OK(t, f.Close())
	must.OK(t, os.Chmod(o.at("mode"), 0o600))
	must.OK(t, os.Chtimes(o.at("touched"), time.Now(), time.Now()))
	must.OK(t, os.Chown(o.at("chowned"), 3, 4))
	must.OK(t, os.Remove(o.at("deleted")))
	must.OK(t, os.Rename(o.at("dir/file"), o.at("dir/moved")))
	must.OK(t, os.RemoveAll(o.at("gone")))
	must.OK(t, os.Mkdir(o.at("gone"), 0o755))
	if strings.Contains(o.options, "redirect_dir=on") {
		must.OK(t, unix.Rename(o.at("dir/sub"), o.at("sub")))
	} else {
		wantErr(t, unix.Rename(o.at("dir/sub"), o.at("sub")), unix.EXDEV)
	}
}

func (o *overlay) check(t *testing.T) {
	t.Helper()
	for range 2 { // at the second time the kernel has the names, and asks whether they are still true
		wantData(t, o.at("file"), "lower and upper")
		wantData(t, o.at("mode"), "lower")
		wantData(t, o.at("dir/moved"), "lower")
		sub := "dir/sub"
		if strings.Contains(o.options, "redirect_dir=on") {
			sub = "sub"
		}
		wantData(t, o.at(sub+"/file"), "lower")
		if m := stat(t, o.at("mode")).Mode; m != unix.S_IFREG|0o600 {
			t.Errorf("mode %o", m)
		}
		var capability [64]byte
		st := stat(t, o.at("touched"))
		if n, err := unix.Getxattr(o.at("touched"), "security.capability", capability[:]); st.Mode != unix.S_IFREG|0o6755 || st.Uid != 1 || st.Gid != 2 || string(capability[:max(n, 0)]) != string(netRaw) {
			t.Errorf("a copied file has mode %o, owner %d:%d, capabilities %x, %v", st.Mode, st.Uid, st.Gid, capability[:max(n, 0)], err)
		}
		st = stat(t, o.at("chowned"))
		if _, err := unix.Getxattr(o.at("chowned"), "security.capability", nil); st.Mode != unix.S_IFREG|0o755 || st.Uid != 3 || st.Gid != 4 || err != unix.ENODATA {
			t.Errorf("a file with another owner has mode %o, owner %d:%d, capabilities: %v", st.Mode, st.Uid, st.Gid, err)
		}
		for _, path := range []string{"deleted", "dir/file", "gone/file"} {
			if _, err := os.Lstat(o.at(path)); !os.IsNotExist(err) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	wantData(t, filepath.Join(o.lower, "file"), "lower")
	wantData(t, filepath.Join(o.lower, "dir/file"), "lower")
}

// TestOverlay: all layers of an overlay, the upper or the lower ones are on the mount. It
// shows the same after it was mounted again, and after the daemon was killed.
func TestOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts an overlay")
	}
	m := harness.New(t)
	other := t.TempDir()
	must.OK(t, unix.Mount("tmpfs", other, "tmpfs", 0, "")) // an upper layer cannot be on just any disk
	t.Cleanup(func() { must.OK(t, unix.Unmount(other, 0)) })
	var all []*overlay
	for i, options := range []string{"", "redirect_dir=on", "metacopy=on,redirect_dir=on", "index=on", "userxattr", "volatile", "xino=on"} {
		for where, dirs := range map[string][2]string{"all": {m.Dir, m.Dir}, "upper": {other, m.Dir}, "lower": {m.Dir, other}} {
			t.Run(where+" "+options, func(t *testing.T) {
				if options == "userxattr" && dirs[1] == other && unix.Setxattr(other, "user.a", []byte("b"), 0) == unix.EOPNOTSUPP {
					t.Skip("tmpfs has attributes of users from Linux 6.6 on")
				}
				name := fmt.Sprint(where, i)
				o := newOverlay(t, filepath.Join(dirs[0], name), filepath.Join(dirs[1], name), options)
				o.mount(t)
				o.change(t)
				o.check(t)
				o.unmount(t)
				o.mount(t)
				o.check(t)
				o.unmount(t)
				all = append(all, o)
			})
		}
	}
	m.Kill()
	m.Start()
	for _, o := range all {
		o.merged = t.TempDir()
		o.mount(t)
		o.check(t)
		o.unmount(t)
	}
}

// TestOverlayInUserNamespace: a user without rights mounts an overlay with all layers on
// the mount, as rootless container engines do.
func TestOverlayInUserNamespace(t *testing.T) {
	m := harness.New(t)
	script := `set -e
cd "$0"; mkdir -p l/d u w merged; echo lower > l/f; echo lower > l/d/f; echo lower > l/g
mount -t overlay overlay -o userxattr,lowerdir=l,upperdir=u,workdir=w merged
cd merged; echo upper >> f; rm g; rm -r d; mkdir d; mv f d/f
test ! -e g; test ! -e f; test "$(cat d/f)" = "lower
upper"; test "$(ls d)" = f; cd ..; umount merged
mount -t overlay overlay -o userxattr,lowerdir=l,upperdir=u,workdir=w merged
test ! -e merged/g; test ! -e merged/f; test "$(ls merged/d)" = f
test -c u/g; test -c u/f`
	cmd := exec.Command("sh", "-c", script, m.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLargeRestoreBesideOverlay: an overlay stays whole when so much changes beside its
// layers that all names would be dropped at once.
func TestLargeRestoreBesideOverlay(t *testing.T) {
	m := harness.New(t)
	for _, lower := range []bool{false, true} {
		name, upper := fmt.Sprint("of", lower), m.Dir
		if lower {
			upper = t.TempDir()
			must.OK(t, unix.Mount("tmpfs", upper, "tmpfs", 0, ""))
			t.Cleanup(func() { must.OK(t, unix.Unmount(upper, 0)) })
		}
		o := newOverlay(t, m.Path(name), filepath.Join(upper, name), "")
		o.mount(t)
		o.change(t)
		m.Amberfs("snapshot", name)
		for i := range 4100 {
			must.OK(t, os.Mkdir(m.Path(fmt.Sprint("d", i)), 0o755))
		}
		m.Amberfs("restore", name, "-q")
		o.check(t)
		o.unmount(t)
	}
}
