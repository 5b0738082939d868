package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/user"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/snapshot/info"
)

// MainInRootCommand is the hidden command that must call [MainInRoot].
const MainInRootCommand = "run-in-root"

// overflowID is the owner that a file of an unmapped user appears to have (/proc/sys/kernel/overflowuid).
const overflowID = 65534

// containerCapabilities are the capabilities of root in a container, as in Docker. Two are left out on purpose: without
// CAP_SYS_ADMIN root cannot mount, and without CAP_DAC_READ_SEARCH it cannot open files by their handles.
var containerCapabilities = []int{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID,
	unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SYS_CHROOT, unix.CAP_MKNOD, unix.CAP_AUDIT_WRITE, unix.CAP_SETFCAP,
}

// CommandInRoot returns a command that runs a program in a mount and a PID namespace. Its root directory is dir, the
// directory of a fork. An ordinary user is root there, and no other user is mapped. The end of ctx kills the command. The
// caller must call ready after it has started the command, and before it sends signals: ready waits until
// process 1 has handlers. The kernel drops earlier signals, because process 1 of a namespace has no default
// handlers.
func CommandInRoot(ctx context.Context, dir string, argv []string, image *info.Image) (cmd *exec.Cmd, ready func(), err error) {
	config, err := Config{Mountpoint: dir, Command: argv, Image: image, ForkIsRoot: true}.memoryFile()
	if err != nil {
		return nil, nil, err
	}

	handlersRead, handlersWrite, err := os.Pipe() // process 1 closes handlersWrite when it handles signals
	if err != nil {
		return nil, nil, err
	}

	cmd = exec.CommandContext(ctx, "/proc/self/exe", MainInRootCommand)
	cmd.Args[0], cmd.Dir = "amberfs", "/"
	cmd.ExtraFiles = []*os.File{config, handlersWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: unix.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}

	return cmd, func() {
		handlersWrite.Close()
		_, _ = handlersRead.Read(make([]byte, 1)) // process 1 sends no byte, so Read returns when it closes handlersWrite
		handlersRead.Close()
	}, nil
}

// MainInRoot is the main function of process 1 of a container. It returns the exit status of the program. When
// process 1 ends, the kernel kills all other processes of the container.
func MainInRoot(ctx context.Context, printNote func(string)) (int, error) {
	runtime.LockOSThread() // capabilities belong to a thread
	c, err := readInheritedConfig(os.NewFile(configFD, "configuration"))
	if err != nil {
		return 0, err
	}

	signals := catchSignals(ctx)
	_ = unix.Close(handlersFD)
	if err := c.enterRoot(printNote); err != nil {
		return statusCannotExecute, errs.Fail(errs.Failed, "cannot make %s a root directory: %w", c.Mountpoint, err)
	}

	cmd, err := c.imageCommand(printNote)
	if err != nil {
		return statusCannotExecute, err
	}

	path, err := lookPath(c.Command[0], cmd.Dir)
	if err != nil {
		return commandError(c.Command[0], err)
	}

	for i := range unix.CAP_LAST_CAP + 1 {
		if !slices.Contains(containerCapabilities, i) {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(i), 0, 0, 0) // fails for a capability that an older kernel does not have
		}
	}

	if err := NoNewPrivileges(); err != nil {
		return statusCannotExecute, err
	}

	cmd.Path = path
	if err := cmd.Start(); err != nil {
		return commandError(c.Command[0], err)
	}

	signals.passTo(cmd.Process)

	for { // process 1 also waits for orphans
		var ws unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &ws, 0, nil); {
		case err != nil && !errors.Is(err, unix.EINTR):
			return 0, err
		case pid == cmd.Process.Pid && ws.Signaled():
			return statusSignalBase + int(ws.Signal()), nil
		case pid == cmd.Process.Pid:
			return ws.ExitStatus(), nil
		}
	}
}

// enterRoot makes the fork the root directory, with the mounts that a program expects.
func (c *Config) enterRoot(printNote func(string)) error {
	if err := daemon.IsolateMounts(); err != nil {
		return err
	}

	root, err := unix.OpenTree(unix.AT_FDCWD, c.Mountpoint, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(root)

	var st unix.Stat_t
	if err := unix.Fstatat(root, "", &st, unix.AT_EMPTY_PATH); err != nil {
		return err
	}

	if st.Uid == overflowID {
		return errs.Fail(errs.Failed, "it belongs to a user that is not mapped here").
			WithHint("run it as root, or with the STORE while that is not mounted")
	}
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, c.Mountpoint, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}

	err = unix.Mkdirat(root, "tmp", 0o777)
	if err == nil {
		err = unix.Fchmodat(root, "tmp", 0o1777, 0)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := mountSystemDirs(root, printNote); err != nil {
		return err
	}
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	// pivot_root(2) with "." twice mounts the old root directory on top of the new one, where it is unmounted.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}

	return os.Chdir("/")
}

// mountSystemDirs mounts /proc, /dev, /sys and two files of the host, which programs expect, in the root directory.
// It follows no symbolic link out of the fork.
func mountSystemDirs(rootFD int, printNote func(string)) error {
	proc, err := mountNew(rootFD, "proc", "proc")
	if err != nil {
		return err
	}

	for _, name := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs"} {
		if err := bindFromHost(fmt.Sprintf("/proc/self/fd/%d/%s", proc, name), proc, name, true); err != nil {
			return err
		}
	}

	if err := bindFromHost("/sys", rootFD, "sys", true); err != nil {
		return err
	}

	dev, err := mountNew(rootFD, "dev", "tmpfs", "mode", "755")
	if err != nil {
		return err
	}

	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bindFromHost("/dev/"+name, dev, name, false); err != nil {
			return err
		}
	}

	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := unix.Symlinkat(target, dev, name); err != nil {
			return err
		}
	}

	for name, fs := range map[string][]string{"pts": {"devpts", "mode", "620", "ptmxmode", "666"}, "shm": {"tmpfs", "mode", "1777"}} {
		if _, err := mountNew(dev, name, fs[0], fs[1:]...); err != nil {
			return err
		}
	}

	for _, name := range []string{"etc/resolv.conf", "etc/hosts"} {
		if err := bindFromHost("/"+name, rootFD, name, true); err != nil {
			printNote(fmt.Sprintf("the fork has its own /%s: %v", name, err)) // usually because this file is a dangling link
		}
	}

	return nil
}

// mountNew mounts a new file system on a name below rootFD, and returns the descriptor of the mount. The options are
// pairs of a name and a value.
func mountNew(rootFD int, name, fsType string, options ...string) (fd int, err error) {
	fs, err := unix.Fsopen(fsType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", fsType, err)
	}
	defer unix.Close(fs)

	for o := range slices.Chunk(options, 2) {
		err = cmp.Or(err, unix.FsconfigSetString(fs, o[0], o[1]))
	}
	if err = cmp.Or(err, unix.FsconfigCreate(fs)); err != nil {
		return 0, fmt.Errorf("%s: %w", fsType, err)
	}

	flags := unix.MOUNT_ATTR_NOSUID
	if fsType != "devpts" {
		flags |= unix.MOUNT_ATTR_NODEV
	}
	if fd, err = unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, flags); err != nil {
		return 0, fmt.Errorf("%s: %w", fsType, err)
	}

	return fd, mountAt(fd, rootFD, name, true)
}

// bindFromHost mounts a file or directory of the host, with the mounts below it, on a name below rootFD. It does
// nothing if the file does not exist on the host.
func bindFromHost(source string, rootFD int, name string, readOnly bool) error {
	var st unix.Stat_t
	if err := unix.Stat(source, &st); err != nil {
		return nil
	}

	m, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err == nil && readOnly {
		err = unix.MountSetattr(m, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	defer unix.Close(m)

	return mountAt(m, rootFD, name, st.Mode&unix.S_IFMT == unix.S_IFDIR)
}

// mountAt mounts the mount with the descriptor fd on a name below rootFD, and creates the name if it is missing. It does
// not close fd.
func mountAt(fd, rootFD int, name string, isDir bool) error {
	target, err := openInRoot(rootFD, name)
	if errors.Is(err, unix.ENOENT) {
		if err = createInRoot(rootFD, name, isDir); err == nil {
			target, err = openInRoot(rootFD, name)
		}
	}

	if err == nil {
		defer unix.Close(target)
		err = unix.MoveMount(fd, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
	if err != nil {
		return fmt.Errorf("mounting on /%s: %w", name, err)
	}

	return nil
}

// openInRoot opens a name below rootFD, as a process with this root directory would.
func openInRoot(rootFD int, name string) (fd int, err error) {
	for err = unix.EAGAIN; err == unix.EAGAIN; { // a concurrent mount or rename makes a lookup of ".." fail with EAGAIN
		fd, err = unix.Openat2(rootFD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	}
	return fd, err
}

// createInRoot creates a directory or an empty file. If the name is a symbolic link, it creates the link's target, as
// container engines do.
func createInRoot(rootFD int, name string, isDir bool) error {
	r, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", rootFD))
	if err != nil {
		return err
	}
	defer r.Close()

	if target, err := r.Readlink(name); err == nil {
		if !path.IsAbs(target) {
			target = path.Join("/", path.Dir(name), target)
		}
		name = path.Clean(target)[1:]
	}
	if isDir {
		return r.MkdirAll(name, 0o755)
	}
	if err := r.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}

	return r.WriteFile(name, nil, 0o644)
}

// imageCommand returns the command of the run or, without one, of the image. The image determines its user,
// environment and working directory.
func (c *Config) imageCommand(printNote func(string)) (*exec.Cmd, error) {
	im := c.Image
	if im == nil {
		im = &info.Image{}
	}
	if len(c.Command) == 0 {
		c.Command = slices.Concat(im.Entrypoint, im.Cmd)
	}
	if len(c.Command) == 0 {
		c.Command = []string{"/bin/sh"}
	}

	home, cred, err := lookUpCredential(im.User)
	if err != nil {
		return nil, err
	}

	if m, err := mounts.TopmostAt("/"); err == nil && m != nil && !strings.Contains(m.VFSOptions, "allow_other") && !cred.NoSetGroups {
		if cred.Uid != 0 {
			return nil, errs.Fail(errs.Perm, "the image's user %q cannot use the fork", im.User).WithHint("mount with -o allow_other")
		}
		printNote("only root can use the fork: it is mounted without -o allow_other")
	}

	vars := append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home}, im.Env...)
	if term, ok := env.Lookup("TERM"); ok {
		vars = append(vars, "TERM="+term)
	}

	cmd := &exec.Cmd{Args: c.Command, Dir: cmp.Or(im.WorkingDir, "/"), Env: vars, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Pdeathsig: unix.SIGKILL}

	for _, v := range vars {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			err = os.Setenv("PATH", path) // lookPath reads PATH from the environment of this process
		}
	}

	return cmd, err
}

// lookUpCredential looks up the user of an image in the new root directory, with its home.
func lookUpCredential(spec string) (home string, _ *syscall.Credential, err error) {
	u, err := user.GetExecUserPath(spec, &user.ExecUser{Home: "/"}, "/etc/passwd", "/etc/group")
	if err != nil {
		return "", nil, errs.Fail(errs.Failed, "the image's user %q: %w", spec, err)
	}

	deny, _ := os.ReadFile("/proc/self/setgroups")
	cred := &syscall.Credential{Uid: uint32(u.Uid), Gid: uint32(u.Gid), NoSetGroups: bytes.HasPrefix(deny, []byte("deny"))}
	for _, id := range u.Sgids {
		cred.Groups = append(cred.Groups, uint32(id))
	}
	if u.Uid == 0 && u.Home == "/" {
		u.Home = "/root"
	}

	return u.Home, cred, nil
}
