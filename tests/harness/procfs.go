package harness

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mounts returns the mount points at and below dir, the last mounted first.
func Mounts(dir string) []string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var found []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if at := unescape(fields[4]); at == dir || strings.HasPrefix(at, dir+"/") {
			found = append([]string{at}, found...)
		}
	}
	return found
}

// unescape undoes the octal escapes of proc_pid_mountinfo(5).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// detachMount removes a mount (MNT_DETACH) without a request to its daemon, which may be dead.
func detachMount(dir string) {
	if unix.Unmount(dir, unix.MNT_DETACH) == nil {
		return
	}
	run("fusermount3", "-u", "-z", dir)
}

// daemonOf returns the process id of a keeper's newest daemon, 0 if it has none now. An older daemon may still be
// dying.
func daemonOf(keeper int) int { return slices.Max(append(children(keeper), 0)) }

// ParentPID returns the process id of the parent of a process, 0 if the process has ended.
func ParentPID(pid int) int {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, rest, _ := strings.Cut(string(b), ") ")
	if f := strings.Fields(rest); len(f) > 1 {
		n, _ := strconv.Atoi(f[1])
		return n
	}
	return 0
}

func children(pid int) (all []int) {
	lists, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/children"))
	for _, list := range lists {
		b, _ := os.ReadFile(list) // the thread may have ended
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// killWithKeeper kills a keeper and its daemon, and returns when the daemon has ended. A thread of the daemon may be
// writing a notice, which waits for a program that uses the mount at dir, while this program waits for an answer.
// MNT_FORCE ends both waits. The dead mount stays.
func killWithKeeper(keeper int, dir string) {
	stopProcess(keeper)
	all := children(keeper)
	for _, pid := range append(all, keeper) {
		_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
	}
	if root, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Unmount(dir, unix.MNT_FORCE) // fails, because root keeps the mount in use
		unix.Close(root)
	}
	for _, pid := range all {
		Poll(func() bool { return !Alive(pid) })
	}
}

// stopProcess sends SIGSTOP to a process, and returns when the process has stopped or ended.
func stopProcess(pid int) {
	_ = unix.Kill(pid, unix.SIGSTOP)
	Poll(func() bool {
		b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		_, rest, _ := strings.Cut(string(b), ") ")
		return rest == "" || strings.HasPrefix(rest, "T") || strings.HasPrefix(rest, "Z")
	})
}

// KillAll kills the amberfs processes that have an argument at or below dir, and reports whether all have ended. It
// stops all of them first, so that no keeper starts another daemon.
func KillAll(dir string) bool {
	stopped := map[int]bool{}
	for more := true; more; {
		more = false
		for _, p := range Processes(dir) {
			if !stopped[p.PID] {
				stopProcess(p.PID)
				stopped[p.PID], more = true, true
			}
		}
	}
	for pid := range stopped {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	for pid := range stopped {
		if !Poll(func() bool { return !Alive(pid) }) {
			return false
		}
	}
	return true
}

// A Process is a running process and its command line.
type Process struct {
	PID  int
	Args []string
}

// Processes returns the amberfs processes, other than this one, that have an argument at or below dir.
func Processes(dir string) []Process {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var found []Process
	for _, file := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(file)
		if err != nil || len(line) == 0 {
			continue // the process has ended, or is a zombie or a kernel thread
		}
		args := strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")
		if filepath.Base(args[0]) != filepath.Base(scratch.bin) {
			continue
		}
		cwd, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
		for _, arg := range args[1:] {
			if !filepath.IsAbs(arg) {
				arg = filepath.Join(cwd, arg)
			}
			if arg == dir || strings.HasPrefix(arg, dir+"/") {
				found = append(found, Process{PID: pid, Args: args})
				break
			}
		}
	}
	return found
}

// Alive reports whether a process has a thread that has not ended, and so may still have files open. The state of the
// first thread is not enough, because this thread may be a zombie while others still run.
func Alive(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return false
	}
	// proc_pid_stat(5): the state follows the command in parentheses.
	_, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " ")
	if !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X") {
		return true
	}
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	return err == nil && len(threads) > 1
}
