package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/mounts"
)

func examineDevice() Check {
	const device = "/dev/fuse"
	c := found(device, "it can be opened")

	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return c
	}

	c.State, c.Found = Failed, "cannot open it: "+err.Error()
	switch err {
	case unix.ENOENT, unix.ENODEV, unix.ENXIO:
		c.Remedy = "modprobe fuse; for a container: --device /dev/fuse"
	default:
		c.Remedy = "chmod 666 /dev/fuse; for a container: --device /dev/fuse"
	}

	return c
}

// kernelFeatures has the features of amberfs that need a version of Linux.
var kernelFeatures = []struct {
	major, minor int
	state        string // state of the check with an older kernel
	what         string // the feature, for the user
}{
	{5, 11, Failed, "amberfs works"},
	{6, 9, Warning, "a crash of the daemon is a pause for programs, and does not end the mount"},
	{6, 16, OK, "a restore of very many files drops all their names at once"},
}

func examineKernel() Check {
	var name unix.Utsname
	_ = unix.Uname(&name) // it does not fail for a valid address
	return kernel(unix.ByteSliceToString(name.Release[:]))
}

// kernel returns the check of a kernel with a release, such as "6.9.3-generic".
func kernel(release string) Check {
	c := found("kernel", "Linux "+release)
	var major, minor int
	_, _ = fmt.Sscanf(release, "%d.%d", &major, &minor) // 0.0 for a malformed release

	for _, g := range kernelFeatures {
		if major > g.major || major == g.major && minor >= g.minor {
			continue
		}

		c.Found += fmt.Sprintf("; only from %d.%d on %s", g.major, g.minor, g.what)
		if c.State == OK && g.state != OK {
			c.State, c.Remedy = g.state, fmt.Sprintf("use Linux %d.%d or newer", g.major, g.minor)
		}
	}

	return c
}

// examineHelper looks for fusermount3. With namespaces, `amberfs run` works without it.
func examineHelper(namespaces bool) Check {
	c := found("fusermount3", "not needed: you may mount")
	if mounts.Privileged() {
		return c
	}

	path, err := mounts.MountHelper()
	var st unix.Stat_t
	var fs unix.Statfs_t
	switch {
	case err != nil:
		c.Found, c.Remedy = "it is missing", "install the package fuse3"
	case unix.Stat(path, &st) != nil || st.Mode&unix.S_ISUID == 0 || st.Uid != 0:
		c.Found, c.Remedy = path+" is not set-user-ID root", "chown root "+path+" && chmod u+s "+path
	case unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_NOSUID != 0:
		c.Found, c.Remedy = path+" is on a nosuid disk, which ignores its set-user-ID bit", "install fuse3 on another disk, or remount that one with suid"
	case statusField("NoNewPrivs") == "1":
		c.Found, c.Remedy = path+" gets no rights: this process has no_new_privs", "call amberfs outside of the sandbox or run"
	default:
		c.Found = path
		return c
	}

	if c.State = Failed; namespaces {
		c.State = Warning
		c.Found += ": `amberfs mount` does not work, `amberfs run` does"
	}

	return c
}

func examineNamespaces(ctx context.Context) Check {
	c := found("namespaces", "`amberfs run` can make them")
	err := sandbox.Try(ctx)
	if err == nil {
		return c
	}

	c.State, c.Found = Warning, "this system refuses them, so `amberfs run` runs at another path: "+err.Error()
	switch {
	case setting("user/max_user_namespaces") == "0":
		c.Remedy = "sysctl user.max_user_namespaces=10000"
	case setting("kernel/unprivileged_userns_clone") == "0":
		c.Remedy = "sysctl kernel.unprivileged_userns_clone=1"
	case setting(appArmorLimit) == "1":
		c.Remedy = "see apparmor"
	default:
		c.Remedy = "in a container: --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or let the host mount"
	}

	return c
}

// examineBarrier returns the check of a mechanism that may refuse user namespaces to amberfs. If the mechanism is
// not on, the check is OK with the text off. If it is on, but namespaces can be made, the check is OK with the text
// harmless. Otherwise the check is refuses.
func examineBarrier(namespaces, on bool, off, harmless string, refuses Check) Check {
	switch {
	case !on:
		return found(refuses.Name, off)
	case namespaces:
		return found(refuses.Name, harmless)
	}
	return refuses
}

// appArmorLimit is the sysctl by which AppArmor restricts user namespaces.
const appArmorLimit = "kernel/apparmor_restrict_unprivileged_userns"

// setting returns the value of a sysctl, "" if the kernel does not have it.
func setting(name string) string {
	b, _ := os.ReadFile("/proc/sys/" + name) // older kernels lack some of the sysctls
	return strings.TrimSpace(string(b))
}

// statusField returns a field of proc_pid_status(5) of this process.
func statusField(name string) string {
	b, _ := os.ReadFile("/proc/self/status") // without /proc it has no fields
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
