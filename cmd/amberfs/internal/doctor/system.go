package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/internal/process"
)

func examineDevice() Check {
	const device = "/dev/fuse"
	c := okCheck(device, "it can be opened")

	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return c
	}

	c.State, c.Finding = Failed, "cannot open it: "+err.Error()
	switch err {
	case unix.ENOENT, unix.ENODEV, unix.ENXIO:
		c.Remedy = "modprobe fuse; for a container: --device /dev/fuse"
	default:
		c.Remedy = "chmod 666 /dev/fuse; for a container: --device /dev/fuse"
	}

	return c
}

// kernelFeatures has the features of amberfs that older versions of Linux do not support.
var kernelFeatures = []struct {
	major, minor int
	state        string // the state of the check if the kernel is older
	feature      string // the feature, as text for the user
}{
	{5, 11, Failed, "amberfs works"},
	{6, 9, Warning, "a crash of the daemon is a pause for programs, and does not end the mount"},
	{6, 16, OK, "a restore of very many files drops all their names at once"},
}

func examineKernel() Check {
	var name unix.Utsname
	_ = unix.Uname(&name) // it does not fail for a valid address
	return checkKernel(unix.ByteSliceToString(name.Release[:]))
}

// checkKernel returns the check of a kernel. release is the release of the kernel, such as "6.9.3-generic".
func checkKernel(release string) Check {
	c := okCheck("kernel", "Linux "+release)
	var major, minor int
	_, _ = fmt.Sscanf(release, "%d.%d", &major, &minor) // 0.0 for a malformed release

	for _, feature := range kernelFeatures {
		if major > feature.major || major == feature.major && minor >= feature.minor {
			continue
		}

		c.Finding += fmt.Sprintf("; only from %d.%d on %s", feature.major, feature.minor, feature.feature)
		if c.State == OK && feature.state != OK {
			c.State, c.Remedy = feature.state, fmt.Sprintf("use Linux %d.%d or newer", feature.major, feature.minor)
		}
	}

	return c
}

// examineHelper looks for fusermount3. If fusermount3 is missing, but namespaces can be made, the check is only a
// warning, because `amberfs run` works without fusermount3.
func examineHelper(hasNamespaces bool) Check {
	c := okCheck("fusermount3", "not needed: you may mount")
	if mounts.Privileged() {
		return c
	}

	path, err := mounts.MountHelper()
	var st unix.Stat_t
	var fs unix.Statfs_t
	switch {
	case err != nil:
		c.Finding, c.Remedy = "it is missing", "install the package fuse3"
	case unix.Stat(path, &st) != nil || st.Mode&unix.S_ISUID == 0 || st.Uid != 0:
		c.Finding, c.Remedy = path+" is not set-user-ID root", "chown root "+path+" && chmod u+s "+path
	case unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_NOSUID != 0:
		c.Finding, c.Remedy = path+" is on a nosuid disk, which ignores its set-user-ID bit", "install fuse3 on another disk, or remount that one with suid"
	case process.OwnStatusField("NoNewPrivs") == "1":
		c.Finding, c.Remedy = path+" gets no rights: this process has no_new_privs", "call amberfs outside of the sandbox or run"
	default:
		c.Finding = path
		return c
	}

	if c.State = Failed; hasNamespaces {
		c.State = Warning
		c.Finding += ": `amberfs mount` does not work, `amberfs run` does"
	}

	return c
}

func examineNamespaces(ctx context.Context) Check {
	c := okCheck("namespaces", "`amberfs run` can make them")
	err := sandbox.TryNamespaces(ctx)
	if err == nil {
		return c
	}

	c.State, c.Finding = Warning, "this system refuses them, so `amberfs run` runs at another path: "+err.Error()
	switch {
	case sysctl("user/max_user_namespaces") == "0":
		c.Remedy = "sysctl user.max_user_namespaces=10000"
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		c.Remedy = "sysctl kernel.unprivileged_userns_clone=1"
	case sysctl(appArmorSysctl) == "1":
		c.Remedy = "see apparmor"
	default:
		c.Remedy = "in a container: --security-opt seccomp=unconfined --security-opt apparmor=unconfined, or let the host mount"
	}

	return c
}

// examineBarrier returns the check of a mechanism that may refuse user namespaces to amberfs. If the mechanism is
// not on, the check is OK with the text offText. If the mechanism is on, but namespaces can be made, the check is OK with
// the text harmlessText. Otherwise examineBarrier returns refusal.
func examineBarrier(hasNamespaces, isOn bool, offText, harmlessText string, refusal Check) Check {
	switch {
	case !isOn:
		return okCheck(refusal.Name, offText)
	case hasNamespaces:
		return okCheck(refusal.Name, harmlessText)
	}
	return refusal
}

// appArmorSysctl is the sysctl by which AppArmor restricts user namespaces.
const appArmorSysctl = "kernel/apparmor_restrict_unprivileged_userns"

// sysctl returns the value of a sysctl, "" if the kernel does not have it.
func sysctl(name string) string {
	b, _ := os.ReadFile("/proc/sys/" + name) // older kernels lack some of the sysctls
	return strings.TrimSpace(string(b))
}
