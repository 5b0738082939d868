// Package process reads the state of other processes from /proc.
package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// read returns a file of /proc. With os.ReadFile it takes three times as long, most of
// it for the poller that a file there is of no use to; a fork is made in that time.
func read(id int, name string) ([]byte, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/%s", id, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 4096)
	for {
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return b, err
		}
		if len(b)+n < cap(b) {
			return b[:len(b)+n], nil // a file of /proc is read as a whole
		}
		b = slices.Grow(b[:len(b)+n], 512)
	}
}

// Boot identifies the start of the system, which the ids and start times of processes belong to.
func Boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Killed reports whether a SIGKILL is pending for a process or thread; false if it is not visible.
func Killed(id int) bool {
	b, err := read(id, "status")
	return err == nil && killPending(string(b))
}

// killPending reads the format of /proc/PID/status (proc_pid_status(5)).
func killPending(status string) bool {
	for _, mask := range []string{field(status, "SigPnd"), field(status, "ShdPnd")} {
		if bits, err := strconv.ParseUint(mask, 16, 64); err == nil && bits&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// Of returns the process of a thread; the thread if that is unknown. For most callers it is
// a process itself: only of these there is a pidfd, which costs less than to read a file.
func Of(thread int) int {
	if fd, err := unix.PidfdOpen(thread, 0); err == nil {
		_ = unix.Close(fd) // it was never read
		return thread
	}
	b, err := read(thread, "status")
	if err != nil {
		return thread
	}
	if id, err := strconv.Atoi(field(string(b), "Tgid")); err == nil {
		return id
	}
	return thread
}

func field(status, name string) string {
	for line := range strings.Lines(status) {
		if n, value, _ := strings.Cut(line, ":"); n == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// InGroup reports whether a group is among the supplementary ones of a visible process.
func InGroup(id int, gid uint32) bool {
	b, err := read(id, "status")
	return err == nil && slices.Contains(strings.Fields(field(string(b), "Groups")), strconv.FormatUint(uint64(gid), 10))
}

// Admin reports whether a visible thread has CAP_SYS_ADMIN in the first user namespace of the
// machine, or acts for a user, by the id in its request, who is root and not its own: overlayfs
// reads its layers as the user that mounted it.
func Admin(id int, uid uint32) bool {
	b, err := read(id, "status")
	if err != nil {
		return false
	}
	if uids := strings.Fields(field(string(b), "Uid")); uid == 0 && len(uids) == 4 && uids[3] != "0" {
		return true
	}
	caps, err := strconv.ParseUint(field(string(b), "CapEff"), 16, 64)
	if err != nil || caps&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return false
	}
	const first = 0xEFFFFFFD // PROC_USER_INIT_INO
	var ns unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/ns/user", id), &ns) == nil {
		return ns.Ino == first
	}
	b, err = read(id, "uid_map") // everybody may read it
	return err == nil && slices.Equal(strings.Fields(string(b)), []string{"0", "0", "4294967295"})
}

// Command returns the name of the program of a visible process, else "".
func Command(id int) string {
	b, err := read(id, "comm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// A Stat identifies a process, or a thread, and its origin.
type Stat struct {
	ID, Parent, Session int
	Start               uint64 // in ticks since the machine started
	Exit                uint32 // as wait(2) will report it, of a process that is dying and the caller's
	Command             string
}

func StatOf(id int) (Stat, error) {
	b, err := read(id, "stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(id, string(b))
}

// parseStat reads the format of /proc/PID/stat (proc_pid_stat(5)).
func parseStat(id int, stat string) (Stat, error) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Stat{}, fmt.Errorf("stat of process %d is malformed", id)
	}
	s := Stat{ID: id, Command: stat[open+1 : end]}
	fields := strings.Fields(stat[end+1:]) // from the third on
	if len(fields) < 50 {
		return Stat{}, fmt.Errorf("stat of process %d is malformed", id)
	}
	var errs [4]error
	s.Parent, errs[0] = strconv.Atoi(fields[1])
	s.Session, errs[1] = strconv.Atoi(fields[3])
	s.Start, errs[2] = strconv.ParseUint(fields[19], 10, 64)
	exit, err := strconv.ParseUint(fields[49], 10, 32)
	s.Exit, errs[3] = uint32(exit), err
	return s, errors.Join(errs[:]...)
}

// IsGateway reports whether a process reads and writes files for all programs of a sandbox
// or virtual machine: virtiofsd, qemu, or gVisor's sandbox and gofer.
func IsGateway(s Stat) bool {
	switch {
	case s.Command == "virtiofsd", strings.HasPrefix(s.Command, "qemu-system"):
		return true
	case s.Command != "exe": // what /proc/self/exe is called, as which runsc starts itself
		return false
	}
	b, err := read(s.ID, "cmdline")
	return err == nil && strings.HasPrefix(string(b), "runsc-")
}

// RunsCommand reports whether a process is a shell that runs one command, as sh -c does.
func RunsCommand(id int) bool {
	b, err := read(id, "cmdline")
	if err != nil {
		return false
	}
	argv := strings.Split(string(b), "\x00")
	return len(argv) > 2 && strings.HasSuffix(argv[0], "sh") && strings.HasPrefix(argv[1], "-") && strings.HasSuffix(argv[1], "c")
}
