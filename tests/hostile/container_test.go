package hostile_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
)

// The first argument of this program in a container, and in a user namespace in it.
const (
	inContainer = "in-a-container"
	inUserNS    = "in-a-user-namespace"
)

// attack tries to leave a container whose root directory is a fork. It prints what it could
// do, and returns the exit status.
func attack(where string) int {
	status := 0
	try := func(name string, err error) {
		if err == nil {
			fmt.Println(where+" it could", name)
			status = 1
		}
	}
	handle, err := os.ReadFile("/handle")
	if err != nil {
		fmt.Println(err)
		return 2
	}
	var kind int32
	var raw []byte
	_, err = fmt.Sscanf(string(handle), "%d %x", &kind, &raw)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	root, err := os.Open("/")
	if err != nil {
		fmt.Println(err)
		return 2
	}
	defer root.Close()
	fd, err := unix.OpenByHandleAt(int(root.Fd()), unix.NewFileHandle(kind, raw), unix.O_RDONLY)
	try(fmt.Sprint("open a file outside of the fork by its number ", fd), err)
	try("unmount /proc/sys", unix.Unmount("/proc/sys", unix.MNT_DETACH))
	try("make /proc/sys writable", unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	try("allow devices", unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	try("write /proc/sys/kernel/core_pattern", write("/proc/sys/kernel/core_pattern"))
	try("write /etc/hosts of the host", write("/etc/hosts"))
	for _, dir := range []string{"/..", "/../..", "/.snapshots/..", "/.snapshots/../..", "/.forks/../..", "/proc/1/root", "/proc/1/cwd"} {
		_, err := os.Stat(dir + "/secret")
		try("find the secret at "+dir, err)
		_, err = os.Stat(dir + "/.forks/other")
		try("find another fork at "+dir, err)
	}
	if where == inUserNS {
		return status
	}
	_ = unix.Mknod("/disk", unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0)))
	f, err := os.Open("/disk")
	try("open a disk", err)
	f.Close()
	try("mount", unix.Mount("none", "/tmp", "tmpfs", 0, ""))
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil || st.Flags&unix.ST_NOSUID == 0 || st.Flags&unix.ST_NODEV == 0 {
		try("use devices or set-user-ID programs of the fork", nil)
	}
	cmd := exec.Command("/attack", inUserNS)
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}},
	}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		status = 1
	}
	return status
}

func write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// TestContainer: root in a container whose root directory is a fork reaches nothing else.
func TestContainer(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	program, err := elf.Open(self)
	must(t, err)
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Skip("a test program with libraries does not run in an empty root directory")
		}
	}
	runc, err := filepath.Abs("../../examples/containers/runc")
	must(t, err)
	for _, engine := range []string{"amberfs", "runc"} {
		t.Run(engine, func(t *testing.T) {
			options := []string{"-o", "handles"}
			if os.Getuid() == 0 {
				options = []string{"-o", "handles,allow_other"}
			}
			m := harness.New(t, options...)
			must(t, os.WriteFile(m.Path("secret"), []byte("a secret"), 0o600))
			must(t, os.Mkdir(m.Path(".forks", "other"), 0o755))
			fork := m.Path(".forks", "c")
			must(t, os.Mkdir(fork, 0o755))
			must(t, os.Remove(filepath.Join(fork, "secret")))
			b, err := os.ReadFile(self)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(fork, "attack"), b, 0o755))
			handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, m.Path("secret"), 0)
			must(t, err)
			if os.Getuid() == 0 { // it would be opened with the capability
				dir, err := os.Open(fork)
				must(t, err)
				defer dir.Close()
				fd, err := unix.OpenByHandleAt(int(dir.Fd()), handle, unix.O_RDONLY)
				must(t, err)
				unix.Close(fd)
			}
			must(t, os.WriteFile(filepath.Join(fork, "handle"), fmt.Appendf(nil, "%d %x", handle.Type(), handle.Bytes()), 0o644))
			var out string
			if engine == "amberfs" {
				out, err = m.TryAmberfs("run", "--fork", "c", "--root", "--", "/attack", inContainer)
			} else if _, err = os.Stat(runc); err != nil {
				t.Skip("the examples are not here")
			} else {
				harness.Needs(t, "runc", "python3")
				var b []byte
				b, err = exec.Command(runc, m.Dir, "c", "/attack", inContainer).CombinedOutput()
				out = string(b)
			}
			if err != nil || strings.Contains(out, "it could") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
