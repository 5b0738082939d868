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
		must(t, os.MkdirAll(dir, 0o755))
	}
	for _, dir := range []string{"dir/sub", "gone"} {
		must(t, os.MkdirAll(filepath.Join(o.lower, dir), 0o755))
	}
	for _, file := range []string{"file", "mode", "deleted", "dir/file", "dir/sub/file", "gone/file"} {
		write(t, filepath.Join(o.lower, file), "lower")
	}
	for _, file := range []string{"touched", "chowned"} { // what makes them run with other rights
		path := write(t, filepath.Join(o.lower, file), "lower")
		must(t, os.Chown(path, 1, 2))
		must(t, unix.Chmod(path, 0o6755))
		must(t, unix.Setxattr(path, "security.capability", netRaw, 0))
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
	must(t, err)
	t.Cleanup(func() { _ = unix.Unmount(o.merged, 0) })
}

func (o *overlay) unmount(t *testing.T) {
	t.Helper()
	must(t, unix.Unmount(o.merged, 0))
	must(t, os.RemoveAll(filepath.Join(o.work, "work", "incompat"))) // of volatile
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
	must(t, err)
	_, err = f.WriteString(" and upper")
	must(t, err)
	must(t, f.Close())
	must(t, os.Chmod(o.at("mode"), 0o600))
	must(t, os.Chtimes(o.at("touched"), time.Now(), time.Now()))
	must(t, os.Chown(o.at("chowned"), 3, 4))
	must(t, os.Remove(o.at("deleted")))
	must(t, os.Rename(o.at("dir/file"), o.at("dir/moved")))
	must(t, os.RemoveAll(o.at("gone")))
	must(t, os.Mkdir(o.at("gone"), 0o755))
	if strings.Contains(o.options, "redirect_dir=on") {
		must(t, unix.Rename(o.at("dir/sub"), o.at("sub")))
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
	must(t, unix.Mount("tmpfs", other, "tmpfs", 0, "")) // an upper layer cannot be on just any disk
	t.Cleanup(func() { must(t, unix.Unmount(other, 0)) })
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

// TestRestoreBelowOverlay: what changes a layer of a mounted overlay is refused, and only
// that.
func TestRestoreBelowOverlay(t *testing.T) {
	m := harness.New(t)
	o := newOverlay(t, m.Path("of"), m.Path("of"), "")
	// Engines mount lower layers by symbolic links.
	must(t, os.Symlink("../lower", m.Path("of", "upper", "link")))
	o.lower = m.Path("of", "upper", "link")
	write(t, m.Path("free"), "then")
	m.Amberfs("snapshot", "v1")
	m.Amberfs("fork", "v1", "f")
	write(t, m.Path("free"), "now")
	write(t, m.Path("of", "lower", "file"), "now")
	write(t, m.Path(".forks", "f", "of", "lower", "mode"), "fork")
	m.Amberfs("snapshot", "v2")
	o.mount(t)

	refused := func(args ...string) {
		t.Helper()
		out, err := m.TryAmberfs(args...)
		var exit *exec.ExitError
		if exit, _ = err.(*exec.ExitError); exit == nil || exit.ExitCode() != 5 ||
			!strings.Contains(out, "changes, and a mounted overlay has /of/lower as a layer; unmount it, or stop its container, first") {
			t.Errorf("amberfs %v: %v\n%s", args, err, out)
		}
	}
	refused("restore", "v1")
	refused("restore", "v1", "of/lower/file")
	refused("merge", "f")
	wantErr(t, os.Rename(m.Path(".snapshots", "restore"), m.Path(".snapshots", "restore@v1")), unix.EBUSY)
	wantData(t, m.Path("of", "lower", "file"), "now")
	m.Amberfs("restore", "v1", "free")
	m.Amberfs("undo")
	wantData(t, m.Path("free"), "now")
	m.Amberfs("-C", m.Path(".forks", "f"), "restore", "base") // a fork has layers of its own
	wantData(t, o.at("file"), "now")
	write(t, o.at("new"), "") // the upper layer
	refusedUpper, err := m.TryAmberfs("restore", "v2")
	if err == nil || !strings.Contains(refusedUpper, "has /of/upper as a layer") {
		t.Errorf("a restore of the upper layer: %v\n%s", err, refusedUpper)
	}
	o.unmount(t)
	m.Amberfs("restore", "v1")
	wantData(t, m.Path("of", "lower", "file"), "lower")
}

// TestEditsBelowOverlay: each way to change files finds layers, however they were mounted.
func TestEditsBelowOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts an overlay")
	}
	m := harness.New(t)
	upper, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(m.Dir, link))
	must(t, os.MkdirAll(m.Path("of", "a:b"), 0o755))
	must(t, os.MkdirAll(m.Path("of", "many"), 0o755))
	must(t, os.Mkdir(m.Path("beside"), 0o755))
	for i := range 200 {
		must(t, os.Mkdir(m.Path("of", "many", fmt.Sprint(i)), 0o755))
	}
	m.Amberfs("snapshot", "v0")
	for _, path := range []string{"of/a:b/file", "of/many/150/file", "beside/a:b"} {
		write(t, m.Path(path), "one")
	}
	m.Amberfs("snapshot", "v1")
	m.Amberfs("fork", "v1", "f")
	for _, dir := range []string{m.Dir, m.Path(".forks", "f")} {
		out, err := m.TryAmberfs("-C", dir, "run", "--as", "agent/"+filepath.Base(dir), "--", "sh", "-c", "echo -n $0 > of/a:b/file", dir)
		if err != nil {
			t.Fatal(out)
		}
		write(t, filepath.Join(dir, "of/many/150/file"), "two")
		write(t, filepath.Join(dir, "beside/a:b"), "two")
	}
	source := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(source, "of/a:b"), 0o755))
	write(t, filepath.Join(source, "of/a:b/new"), "new")

	escaped, one := func(dir string) string { return filepath.Join(dir, "of", `a\:b`) }, filepath.Join(m.Dir, "of", "many", "0")
	for name, mount := range map[string]struct{ dir, options string }{
		"absolute": {"/", "lowerdir=" + escaped(m.Dir) + ":" + one}, "through a link outside": {"/", "lowerdir=" + escaped(link) + ":" + one},
		"relative": {m.Path("of"), `lowerdir=a\:b:` + one}, "from below": {m.Path("of", "many"), `lowerdir=../a\:b:0`},
		"fork": {"/", "lowerdir=" + escaped(m.Path(".forks", "f")) + ":" + one}, "relative fork": {m.Dir, `lowerdir=.forks/f/of/a\:b:` + one},
	} {
		t.Run(name, func(t *testing.T) {
			merged := t.TempDir()
			cmd := exec.Command("mount", "-t", "overlay", "overlay", "-o", mount.options+",upperdir="+upper+"/u,workdir="+upper+"/w", merged)
			cmd.Dir, cmd.Env = mount.dir, append(os.Environ(), "LIBMOUNT_FORCE_MOUNT2=always")
			must(t, unix.Mount("tmpfs", upper, "tmpfs", 0, ""))
			defer func() { must(t, unix.Unmount(upper, 0)) }()
			must(t, os.MkdirAll(upper+"/u", 0o755))
			must(t, os.MkdirAll(upper+"/w", 0o755))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			defer func() { must(t, unix.Unmount(merged, 0)) }()
			refuseLayers(t, m, strings.Contains(name, "fork"), source)
		})
	}
	t.Run("200 layers", func(t *testing.T) {
		fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
		must(t, err)
		defer unix.Close(fs)
		for i := range 200 {
			if err := unix.FsconfigSetString(fs, "lowerdir+", m.Path("of", "many", fmt.Sprint(i))); err != nil {
				t.Skip(err) // Linux before 6.8
			}
		}
		must(t, unix.FsconfigCreate(fs))
		fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
		must(t, err)
		merged := t.TempDir()
		err = unix.MoveMount(fd, "", unix.AT_FDCWD, merged, unix.MOVE_MOUNT_F_EMPTY_PATH)
		unix.Close(fd)
		must(t, err)
		defer func() { must(t, unix.Unmount(merged, 0)) }()
		if out, err := m.TryAmberfs("restore", "v1", "of/many/150"); err == nil || !strings.Contains(out, "has /of/many/150 as a layer") {
			t.Errorf("%v: %s", err, out)
		}
	})
	m.Amberfs("restore", "v1")
}

// refuseLayers tries everything that changes of/a:b, in main or in the fork f.
func refuseLayers(t *testing.T, m *harness.Mount, fork bool, source string) {
	t.Helper()
	dir := m.Dir
	if fork {
		dir = m.Path(".forks", "f")
	}
	at := func(args ...string) (string, error) { return m.TryAmberfs(append([]string{"-C", dir}, args...)...) }
	file := filepath.Join(dir, "of/a:b/file")
	for _, args := range [][]string{
		{"restore", "v1"}, {"restore", "v1", "--dry-run"}, {"restore", "v0", "of"}, {"revert", file, "v1"}, {"import", source},
		{"import", source + "/of/a:b", "of/a:b"}, {"merge", "f", "--theirs"}, {"merge", "f", "--theirs", "--dry-run"}, {"undo", "--by", "agent/" + filepath.Base(dir)},
	} {
		if fork {
			for i, a := range args {
				args[i] = strings.Replace(a, "v1", "base", 1)
			}
			if args[0] == "merge" || strings.HasPrefix(args[1], "v0") {
				continue
			}
		}
		if out, err := at(args...); err == nil || !strings.Contains(out, "has /of/a:b as a layer") {
			t.Errorf("amberfs %v: %v: %s", args, err, out)
		}
	}
	wantData(t, file, dir)
	if _, err := os.Stat(filepath.Join(dir, "of/a:b/new")); err == nil {
		t.Error("an import reached a layer")
	}
	back := "v1"
	if fork {
		back = "base"
	}
	for _, args := range [][]string{{"restore", back, "beside"}, {"undo"}} {
		if out, err := at(args...); err != nil {
			t.Errorf("amberfs %v: %v: %s", args, err, out)
		}
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
			must(t, unix.Mount("tmpfs", upper, "tmpfs", 0, ""))
			t.Cleanup(func() { must(t, unix.Unmount(upper, 0)) })
		}
		o := newOverlay(t, m.Path(name), filepath.Join(upper, name), "")
		o.mount(t)
		o.change(t)
		m.Amberfs("snapshot", name)
		for i := range 4100 {
			must(t, os.Mkdir(m.Path(fmt.Sprint("d", i)), 0o755))
		}
		m.Amberfs("restore", name, "-q")
		o.check(t)
		o.unmount(t)
	}
}
