package locate

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// User is a process that keeps a mount busy.
type User struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	// What it holds: "cwd", "root", "exe" or "fd".
	What string `json:"what"`
	Path string `json:"path"`
}

// Users lists the processes, as far as this one may look at them, that stand
// in the mount at point or have something open there. It reads links in /proc,
// which the kernel answers without asking the file system.
func Users(point string) []User {
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []User
	for _, d := range procs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if u, ok := uses(filepath.Join("/proc", d.Name()), point); ok {
			u.PID = pid
			comm, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "comm"))
			u.Command = strings.TrimSpace(string(comm))
			out = append(out, u)
		}
	}
	return out
}

func uses(proc, point string) (User, bool) {
	for _, what := range []string{"cwd", "root", "exe"} {
		if t, err := os.Readlink(filepath.Join(proc, what)); err == nil && t != "/" && under(t, point) {
			return User{What: what, Path: t}, true
		}
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return User{}, false
	}
	for _, fd := range fds {
		if t, err := os.Readlink(filepath.Join(proc, "fd", fd.Name())); err == nil && under(t, point) {
			return User{What: "fd", Path: t}, true
		}
	}
	return User{}, false
}
