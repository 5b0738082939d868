package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
)

// RunAsRoot runs this command again in a user namespace in which the caller is root and the other users are the
// caller's subordinate ids. It returns the exit status st. If the caller has no subordinate ids, or is root
// already, it runs nothing and ran is false.
func RunAsRoot(ctx context.Context, store string) (ran bool, st int, err error) {
	uids, gids := subordinateIDs("/etc/subuid"), subordinateIDs("/etc/subgid")
	if os.Geteuid() == 0 || uids == nil || gids == nil {
		return false, 0, nil
	}

	exe, err := os.Executable()
	if err != nil {
		return true, 0, err
	}

	argv := append([]string{exe}, os.Args[1:]...)
	signals := catchSignals(ctx)
	defer signals.stop()

	ns, err := daemonUserNS(ctx, store)
	if err != nil {
		return true, 0, err
	}

	cmd := exec.Command("nsenter", append([]string{"--user=" + ns, "--preserve-credentials", "--"}, argv...)...)
	var idsMapped *os.File

	if ns == "" {
		// The shell waits until w is closed: then its ids are mapped.
		cmd = exec.Command("sh", append([]string{"-c", `read _ <&3; exec "$@" 3<&-`, "sh"}, argv...)...)
		r, w, err := os.Pipe()
		if err != nil {
			return true, 0, err
		}
		defer w.Close()
		defer r.Close()

		cmd.ExtraFiles, idsMapped = []*os.File{r}, w
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	}

	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return true, 0, namespaceError(true, fmt.Errorf("cannot create a user namespace: %w", err))
	}

	if idsMapped != nil {
		pid := strconv.Itoa(cmd.Process.Pid)
		for _, args := range [][]string{
			append([]string{"newuidmap", pid, "0", strconv.Itoa(os.Geteuid()), "1", "1"}, uids...),
			append([]string{"newgidmap", pid, "0", strconv.Itoa(os.Getegid()), "1", "1"}, gids...),
		} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				return true, 0, errs.Fail(errs.Failed, "%s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
			}
		}

		idsMapped.Close()
	}

	signals.passTo(cmd.Process)
	err = cmd.Wait()
	st, err = exitStatus(cmd.ProcessState, err)
	return true, st, err
}

// subordinateIDs returns the first range of subordinate ids of the user, as its start and its
// length. It returns nil if the user has none, or no program can map them.
func subordinateIDs(file string) []string {
	b, err := os.ReadFile(file)
	u, err2 := user.Current()
	_, err3 := exec.LookPath("newuidmap")
	_, err4 := exec.LookPath("newgidmap")
	if err != nil || err2 != nil || err3 != nil || err4 != nil {
		return nil
	}

	for line := range strings.Lines(string(b)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 3 && (f[0] == u.Username || f[0] == u.Uid) {
			return f[1:]
		}
	}

	return nil
}

// checkPrimaryGroup fails if the daemon of a store is in a user namespace that maps one primary group, and
// the user has another primary group: the user could not create files in the daemon's mount.
func checkPrimaryGroup(ctx context.Context, c *Config) error {
	if !c.UserNS || c.ForkIsRoot {
		return nil
	}
	conn, err := service.Dial(ctx, c.Store)
	if err != nil {
		return nil // no daemon serves the store
	}
	defer conn.Close()

	peer, err := service.PeerCredentials(conn)
	if err != nil {
		return err
	}

	var inside, gid, n int
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/gid_map", peer.Pid))
	if _, serr := fmt.Sscan(string(text), &inside, &gid, &n); err != nil || serr != nil || n != 1 || gid == os.Getegid() {
		return nil
	}

	return errs.Fail(errs.Busy, "the store %s is in use by a run whose primary group is %s, and this one's is %s", c.Store, groupName(gid), groupName(os.Getegid())).
		WithHint("begin this one with `sg %s -c …`, or end that first", groupName(gid))
}

func groupName(gid int) string {
	if g, err := user.LookupGroupId(strconv.Itoa(gid)); err == nil {
		return g.Name
	}
	return strconv.Itoa(gid)
}

// daemonUserNS returns the path of the user namespace of the daemon that serves a store. It is "" if
// there is no daemon, or the daemon is in the namespace of this process.
func daemonUserNS(ctx context.Context, store string) (string, error) {
	if store == "" {
		return "", nil
	}
	conn, err := service.Dial(ctx, store)
	if err != nil {
		return "", nil // no daemon serves the store
	}
	defer conn.Close()

	peer, err := service.PeerCredentials(conn)
	if err != nil {
		return "", err
	}

	ns := fmt.Sprintf("/proc/%d/ns/user", peer.Pid)
	ids, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", peer.Pid))
	if err != nil {
		return "", err
	}

	ownNS, _ := os.Readlink("/proc/self/ns/user")
	switch daemonNS, err := os.Readlink(ns); {
	case err == nil && daemonNS == ownNS:
		return "", nil
	case err == nil && strings.Fields(string(ids))[0] == "0":
		return ns, nil
	}

	return "", errs.Fail(errs.Busy, "the store %s is in use by a `run` without --root, in which there is no root", store).WithHint("end that first")
}
