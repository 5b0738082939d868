package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// Inner is the process in the namespaces. It returns the program's exit status. note prints
// what a person should know, and show the progress of the import until its second result is
// called.
func Inner(note func(string), show func() (func(service.Progress), func())) (int, error) {
	runtime.LockOSThread() // capabilities and the parent-death signal are a thread's
	defer runtime.UnlockOSThread()
	c, err := inherited()
	if err != nil {
		return 0, err
	}
	for _, fd := range []int{lockFD, holdFD, treeFD, joinFD} {
		unix.CloseOnExec(fd)
	}
	if c.Temp != "" && !c.Hold {
		temp, err := inherit(c.Temp, os.NewFile(lockFD, "lock"))
		if err != nil {
			return 0, err
		}
		defer temp.Remove() // outer may have been killed
	}
	signals := catch()
	defer signals.stop()
	if err := privateMounts(); err != nil {
		return 0, err
	}
	if err := adoptOrphans(); err != nil {
		return 0, err
	}
	var d *inside
	if c.Shared != "" {
		d = joinedDaemon()
		err = attach(c)
	} else {
		if os.Mkdir(c.Mountpoint, 0o700) == nil {
			defer unix.Rmdir(c.Mountpoint)
		}
		progress, shown := show()
		d, err = startDaemon(c, &daemon.Starter{Note: note, Progress: progress})
		shown()
	}
	if err != nil {
		return 0, err
	}
	defer d.end(c, note)
	dir, err := workspaceDir(c)
	if err != nil {
		return 0, err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); c.UserNS && !c.Root && c.Temp == "" {
		if err != nil {
			return 0, fail.New(fail.Denied, "cannot use %s: %w", c.Store, err).WithHint("a store of a `run --root` needs --root")
		}
		if st.Uid == overflowID {
			note("the files belong to other users: a store of a `run --root` needs --root")
		}
	}
	if c.After != "" {
		if err := ask(c, c.Fork, service.Show{Name: c.After}, nil); err == nil {
			return 0, fail.New(fail.Exists, "snapshot %q exists", c.After).WithHint("choose another name after --snapshot-after")
		}
	}
	if c.Actor != "" {
		if err := ask(c, "", service.Actor{Name: c.Actor}, nil); err != nil {
			return 0, err
		}
	}
	status, err := runProgram(c, dir, signals, d.gone)
	if err == nil && c.After != "" {
		err = snapshotAfter(c, note)
	}
	if err == nil && c.Hold {
		reapRest(d.pid)
		hold()
	}
	return status, err
}

// hold reports the end of the program to outer, and waits until outer is done.
func hold() {
	f := os.NewFile(holdFD, "hold")
	defer f.Close()
	if _, err := f.Write([]byte{0}); err == nil {
		_, _ = f.Read(make([]byte, 1)) // it ends either way
	}
}

// inside is the daemon of this sandbox.
type inside struct {
	cmd  *exec.Cmd     // nil: it is shared
	pid  int           // of cmd
	gone chan struct{} // closed when it has ended
}

func startDaemon(c Config, s *daemon.Starter) (*inside, error) {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGTERM}
	if c.UserNS {
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	var more []string
	if c.From != "" {
		more = []string{"--from", c.From, "--later"}
	}
	_, cmd, err := daemon.Spawn(context.Background(), mountArgs(c, more...), s, attr)
	if err != nil {
		return nil, err
	}
	d := &inside{cmd: cmd, pid: cmd.Process.Pid, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // what matters is that it has ended
		close(d.gone)
	}()
	return d, nil
}

// mountArgs are those of the daemon.
func mountArgs(c Config, more ...string) []string {
	args := append([]string{"mount", "-f"}, more...)
	if c.Options != "" {
		args = append(args, "-o", c.Options)
	}
	if c.Root && os.Geteuid() == 0 {
		args = append(args, "-o", "allow_other") // a container has several users
	}
	args = append(args, "-o", "nonempty") // the workspace is in the place of a directory
	if c.ReadOnly {
		args = append(args, "-o", "ro")
	}
	return append(args, "--", c.Store, c.Mountpoint)
}

// end unmounts and waits until everything is in the store.
func (d *inside) end(c Config, note func(string)) {
	reapRest(d.pid)
	if d.cmd == nil {
		return // the mount goes with this namespace
	}
	select {
	case <-d.gone:
		_ = daemon.Detach(c.Mountpoint) // no process answers there
		return
	default:
	}
	if !c.Hold {
		// The store is removed.
		_ = daemon.Detach(c.Mountpoint)
		_ = d.cmd.Process.Kill()
		<-d.gone
		return
	}
	if err := ask(c, "", service.Umount{Lazy: true}, nil); err != nil {
		note(err.Error())
		_ = d.cmd.Process.Signal(unix.SIGTERM)
	}
	select {
	case <-d.gone:
	case <-time.After(30 * time.Second):
		note("the daemon does not end; killing it (nothing acknowledged is lost)")
		_ = d.cmd.Process.Kill()
		<-d.gone
	}
}

func ask(c Config, workspace string, args, result any) error {
	conn, err := client.Open(context.Background(), client.Target{Store: c.Store, Workspace: workspace, Command: c.Text})
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Do(context.Background(), args, client.Exchange{}, result)
}

// workspaceDir is where the program starts; a fork is made when it is missing.
func workspaceDir(c Config) (string, error) {
	if c.Fork == "" {
		return c.Mountpoint, nil
	}
	err := ask(c, "", service.Fork{Name: c.Fork}, nil)
	if err != nil && fail.KindOf(err) != fail.Exists {
		return "", err
	}
	return filepath.Join(c.Mountpoint, naming.ForksDir, c.Fork), nil
}

func snapshotAfter(c Config, note func(string)) error {
	var info struct {
		Name string `json:"name"`
		ID   string `json:"id"`
	}
	if err := ask(c, c.Fork, service.Snapshot{Name: c.After, Wait: true}, &info); err != nil {
		return err
	}
	note(fmt.Sprintf("snapshot %s created: %s", info.Name, info.ID))
	return nil
}

// runProgram runs the program in dir without the right to mount, and kills it when the daemon
// ends.
func runProgram(c Config, dir string, signals *passer, gone <-chan struct{}) (int, error) {
	var cmd *exec.Cmd
	var st int
	var err error
	name := "the program"
	if c.Root {
		var found service.FoundImage
		if err = ask(c, c.Fork, service.GetImage{}, &found); err == nil {
			cmd, err = InRoot(dir, c.Command, found.Image)
		}
	} else {
		name = c.Command[0]
		cmd, st, err = program(context.Background(), c.Command, dir, c.UserNS)
	}
	if err != nil {
		return st, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return commandError(name, err)
	}
	signals.pass(cmd.Process)
	if c.Hold {
		_, _ = unix.Write(holdFD, []byte{0}) // outer may be gone
	}
	var ended error
	done := make(chan struct{})
	go func() {
		ended = cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
		return status(cmd.ProcessState, ended)
	case <-gone:
	}
	_ = cmd.Process.Kill()
	<-done
	e := fail.New(fail.Failed, "the daemon of the workspace ended before %s did", name)
	if c.Temp == "" {
		return 0, e.WithHint("nothing acknowledged is lost; %s/amberfs.log can have the reason", c.Store)
	}
	return 0, e
}

// program is a command that starts in dir, without rights, and ends with this thread. If it
// cannot be started, the status is that of a shell. The caller has locked the thread.
func program(ctx context.Context, argv []string, dir string, drop bool) (*exec.Cmd, int, error) {
	path, err := lookPath(argv[0], dir)
	if err != nil {
		st, err := commandError(argv[0], err)
		return nil, st, err
	}
	if drop {
		if err := dropCapabilities(); err != nil {
			return nil, 0, fmt.Errorf("giving up capabilities: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, path)
	cmd.Args, cmd.Dir, cmd.Env = argv, dir, append(os.Environ(), "PWD="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return cmd, 0, NoNewPrivileges()
}

// privateMounts keeps mounts in this namespace. Unmounts outside apply here, too, so that
// other daemons can end.
func privateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fail.New(fail.Failed, "cannot make the mounts private: %w", err)
	}
	return nil
}

// adoptOrphans makes this process the parent of those that its descendants leave behind.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopting processes left behind: %w", err)
	}
	return nil
}

// NoNewPrivileges keeps what this thread starts from now on from gaining rights by
// set-user-ID programs and the like. The caller has locked the thread.
func NoNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	return nil
}

// dropCapabilities gives up all capabilities of this thread.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&hdr, &none[0])
}

// lookPath finds a program as a shell in dir would.
func lookPath(name, dir string) (string, error) {
	if filepath.Base(name) != name {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	return exec.LookPath(name)
}

// commandError is the end of a program that could not be started.
func commandError(name string, err error) (int, error) {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return statusNoCommand, fail.New(fail.Failed, "no such command: %s", name)
	}
	return statusCannotExecute, fail.New(fail.Failed, "cannot run %s: %w", name, err)
}
