package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/mounts"
)

// mount attaches a FUSE device to the mountpoint and returns the descriptor of the device. The mount function
// of go-fuse is not used: it leaves the device open in every program that the daemon starts, and a mount ends
// only when the last process has closed the device.
func mount(o *Options) (fd int, err error) {
	fd, err = mountDirect(o)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return mountWithHelper(o)
	}
	return fd, err
}

// mountDirect mounts with mount(2), which root may call, and every user inside a user namespace.
func mountDirect(o *Options) (int, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /dev/fuse: %w", err)
	}

	data := []string{
		"fd=" + strconv.Itoa(fd),
		"rootmode=40000",
		"user_id=" + strconv.Itoa(os.Geteuid()),
		"group_id=" + strconv.Itoa(os.Getegid()),
		"default_permissions",
		"max_read=" + strconv.Itoa(maxIO),
	}
	if o.AllowOther {
		data = append(data, "allow_other")
	}

	if err := unix.Mount(o.Store.Dir(), o.Mountpoint, "fuse.amberfs", o.MountFlags(), strings.Join(data, ",")); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount(2): %w", err)
	}

	return fd, nil
}

// mountWithHelper runs fusermount3, which mounts and sends the descriptor of the opened
// device over a socket. The number of the socket's descriptor is in _FUSE_COMMFD.
func mountWithHelper(o *Options) (int, error) {
	bin, err := mounts.MountHelper()
	if err != nil {
		return -1, err
	}

	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make a socket pair: %w", err)
	}

	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "fusermount")
	defer unix.Close(ours)
	defer theirs.Close()

	var stderr bytes.Buffer
	cmd := exec.Command(bin, "-o", helperOptions(o), "--", o.Mountpoint)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs} // the helper gets the socket as descriptor 3
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return -1, fmt.Errorf("%s: %w: %s", bin, err, strings.TrimSpace(stderr.String()))
	}

	theirs.Close() // so that receiveFD fails with an end of file if the helper sent no descriptor

	return receiveFD(ours)
}

// helperOptions returns the argument of fusermount3's -o. Commas and backslashes in
// values are escaped.
func helperOptions(o *Options) string {
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	opts := []string{
		"fsname=" + escape.Replace(o.Store.Dir()), "subtype=amberfs",
		"default_permissions", "max_read=" + strconv.Itoa(maxIO),
	}
	for _, f := range []struct {
		on   bool
		name string
	}{{o.AllowOther, "allow_other"}, {o.ReadOnly, "ro"}, {o.Dev, "dev"}, {o.Suid, "suid"}, {o.NoExec, "noexec"}} {
		if f.on {
			opts = append(opts, f.name)
		}
	}

	return strings.Join(opts, ",")
}

// receiveFD receives one descriptor from a socket (SCM_RIGHTS, unix(7)).
func receiveFD(socket int) (int, error) {
	var data [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("receive the FUSE device: %w", err)
	}

	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return -1, errors.New("fusermount3 sent no FUSE device")
	}

	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("fusermount3 sent no FUSE device")
	}

	return fds[0], nil
}
