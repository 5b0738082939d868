package locate

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// maxOpened bounds how many programs are named.
const maxOpened = 20

// Opened lists the processes, as far as this one may look at them, that have files of
// a store open which it knows by their inode numbers, with the path of one such file.
// It reads only what the kernel answers without asking the file system (proc(5),
// /proc/PID/fdinfo), so the daemon itself may call it.
func Opened(store string, inos map[uint64]bool) []User {
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
		proc := filepath.Join("/proc", d.Name())
		if path, ok := opened(proc, store, inos); ok {
			comm, _ := os.ReadFile(filepath.Join(proc, "comm"))
			out = append(out, User{PID: pid, Command: strings.TrimSpace(string(comm)), What: "fd", Path: path})
			if len(out) == maxOpened {
				break
			}
		}
	}
	return out
}

func opened(proc, store string, inos map[uint64]bool) (path string, ok bool) {
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return "", false
	}
	for _, fd := range fds {
		path, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if err != nil || !strings.HasPrefix(path, "/") {
			continue // a socket, a pipe
		}
		info, err := os.ReadFile(filepath.Join(proc, "fdinfo", fd.Name()))
		if err != nil {
			continue
		}
		ino, err := strconv.ParseUint(infoField(info, "ino:"), 10, 64)
		if err != nil || !inos[ino] || !mountOf(proc, infoField(info, "mnt_id:"), store) {
			continue
		}
		return strings.TrimSuffix(path, " (deleted)"), true
	}
	return "", false
}

// infoField finds a field of a file of lines "name: value".
func infoField(info []byte, name string) string {
	for s := bufio.NewScanner(bytes.NewReader(info)); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), name); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// mountOf reports whether a mount that a process sees is one of a store.
func mountOf(proc, id, store string) bool {
	f, err := os.Open(filepath.Join(proc, "mountinfo"))
	if err != nil {
		return false
	}
	defer f.Close()
	want, err := strconv.Atoi(id)
	if err != nil {
		return false
	}
	rows, err := mountinfo.GetMountsFromReader(f, func(m *mountinfo.Info) (skip, stop bool) { return m.ID != want, m.ID == want })
	return err == nil && len(rows) == 1 && rows[0].FSType == FSType && rows[0].Source == store
}
