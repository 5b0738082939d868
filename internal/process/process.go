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

// readProc returns the contents of a file in /proc/ID. os.ReadFile would take three times as long, mostly
// for registering the file with Go's poller, which is useless for /proc. That matters because a fork of a
// workspace takes no longer than such a read.
func readProc(id int, name string) ([]byte, error) {
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
			return b[:len(b)+n], nil // a read that does not fill the buffer reaches the end of a file in /proc
		}
		b = slices.Grow(b[:len(b)+n], 512)
	}
}

// BootID returns an id of the last start of the system, "" if it is unknown. A process id with a start time
// is unique only together with this id.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// IsKilled reports whether a SIGKILL is pending for a process or thread. It reports false if the process is
// not visible.
func IsKilled(id int) bool {
	b, err := readProc(id, "status")
	return err == nil && killPending(string(b))
}

// killPending reports whether SIGKILL is pending in the contents of /proc/PID/status
// (proc_pid_status(5)).
func killPending(status string) bool {
	for _, mask := range []string{statusField(status, "SigPnd"), statusField(status, "ShdPnd")} {
		if bits, err := strconv.ParseUint(mask, 16, 64); err == nil && bits&(1<<(unix.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

// ProcessOf returns the id of the process that a thread belongs to, or the id of the thread if the process is
// unknown. Most callers pass a process id. Only those have a pidfd, and opening one is cheaper than
// reading /proc.
func ProcessOf(thread int) int {
	if fd, err := unix.PidfdOpen(thread, 0); err == nil {
		_ = unix.Close(fd)
		return thread
	}

	id, err := strconv.Atoi(StatusField(thread, "Tgid"))
	if err != nil {
		return thread
	}

	return id
}

// OwnStatusField returns the value of a field of proc_pid_status(5) for this process, whose number in /proc may be
// another one than in this process's namespace. It returns "" if there is none.
func OwnStatusField(name string) string {
	b, _ := os.ReadFile("/proc/self/status") // without /proc, no field is found
	return statusField(string(b), name)
}

// StatusField returns the value of a field of proc_pid_status(5), "" if there is none.
func StatusField(id int, name string) string {
	b, _ := readProc(id, "status") // without the process, no field is found
	return statusField(string(b), name)
}

// statusField returns the value of a field in the contents of /proc/PID/status, "" if it is missing.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if n, value, _ := strings.Cut(line, ":"); n == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// InGroup reports whether a visible process has a supplementary group.
func InGroup(id int, gid uint32) bool {
	return slices.Contains(strings.Fields(StatusField(id, "Groups")), strconv.FormatUint(uint64(gid), 10))
}

// IsAdmin reports whether a visible thread, or the user for whom it acts, has CAP_SYS_ADMIN in the initial user
// namespace of the machine. uid is the user in the thread's request. If uid is root and the thread has another user,
// the request is made by overlayfs, which reads its layers as the user that mounted the overlay. Then IsAdmin returns
// true.
func IsAdmin(id int, uid uint32) bool {
	b, err := readProc(id, "status")
	if err != nil {
		return false
	}
	if uids := strings.Fields(statusField(string(b), "Uid")); uid == 0 && len(uids) == 4 && uids[3] != "0" {
		return true
	}

	caps, err := strconv.ParseUint(statusField(string(b), "CapEff"), 16, 64)
	if err != nil || caps&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return false
	}

	const initialUserNS = 0xEFFFFFFD // the inode number of the initial user namespace, PROC_USER_INIT_INO of the kernel
	var ns unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/ns/user", id), &ns) == nil {
		return ns.Ino == initialUserNS
	}

	b, err = readProc(id, "uid_map") // readable by all users, unlike ns/user
	return err == nil && slices.Equal(strings.Fields(string(b)), []string{"0", "0", "4294967295"})
}

// ProgramName returns the name of the program of a visible process, else "".
func ProgramName(id int) string {
	b, err := readProc(id, "comm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// A Stat identifies a process or a thread, its parent and its session.
type Stat struct {
	ID, Parent, Session int
	Start               uint64 // in ticks since the machine started
	Exit                uint32 // the status for wait(2), if the process is dying and the caller may see it
	Command             string
}

// StatOf returns the Stat of a process or a thread. If the process or thread is not visible, the error is an errno.
func StatOf(id int) (Stat, error) {
	b, err := readProc(id, "stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(id, string(b))
}

// parseStat parses the contents of /proc/PID/stat (proc_pid_stat(5)).
func parseStat(id int, stat string) (Stat, error) {
	nameStart, nameEnd := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if nameStart < 0 || nameEnd < nameStart {
		return Stat{}, fmt.Errorf("stat of process %d is malformed", id)
	}

	s := Stat{ID: id, Command: stat[nameStart+1 : nameEnd]}
	fields := strings.Fields(stat[nameEnd+1:]) // fields[0] is field 3 of the manual page
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
	case s.Command != "exe": // runsc has this name, because it starts itself as /proc/self/exe
		return false
	}

	b, err := readProc(s.ID, "cmdline")
	return err == nil && strings.HasPrefix(string(b), "runsc-")
}

// IsShellCommand reports whether a process is a shell that runs the command in its arguments: sh -c.
func IsShellCommand(id int) bool {
	b, err := readProc(id, "cmdline")
	if err != nil {
		return false
	}
	argv := strings.Split(string(b), "\x00")
	return len(argv) > 2 && strings.HasSuffix(argv[0], "sh") && strings.HasPrefix(argv[1], "-") && strings.HasSuffix(argv[1], "c")
}
