package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas/vfs"
)

// formatLine is the content of the file `format` of a store.
const formatLine = "amberfs store 1\n"

type lockFile struct{ f *os.File }

type holder struct {
	PID        int    `json:"pid"`
	Mountpoint string `json:"mountpoint,omitempty"`
}

// lockStore takes the store for this process. A *LockedError when another
// has it.
func lockStore(dir string) (*lockFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for end := time.Now().Add(dyingTime); err == unix.EWOULDBLOCK && time.Now().Before(end) && holderIsDying(dir); {
		time.Sleep(20 * time.Millisecond)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking store %s: %w", dir, err)
		}
		h, _ := ReadHolder(dir)
		return nil, &LockedError{Dir: dir, PID: h.PID, Mountpoint: h.Mountpoint}
	}
	l := &lockFile{f}
	if err := l.write(holder{PID: os.Getpid()}); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// dyingTime bounds the wait for a process that was killed and still holds its
// files: the kernel closes them after it has freed its memory.
const dyingTime = 10 * time.Second

// holderIsDying reports whether the process in the lock file is on its way
// out, or gone while something inherited its lock for a moment. Its command
// line is empty as soon as its memory is gone.
func holderIsDying(dir string) bool {
	h, err := ReadHolder(dir)
	if err != nil || h.PID <= 0 {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.PID))
	if err != nil || len(b) == 0 {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.PID))
	return err != nil || killed(string(status))
}

// killed reports whether a /proc/PID/status tells of a process with a SIGKILL
// that it has not taken yet.
func killed(status string) bool {
	for line := range strings.Lines(status) {
		if mask, ok := strings.CutPrefix(line, "ShdPnd:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && bits&(1<<(unix.SIGKILL-1)) != 0
		}
	}
	return false
}

func (l *lockFile) write(h holder) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	// On a full disk there is no other block than the one it has.
	b = append(b, '\n')
	if _, err = l.f.WriteAt(b, 0); err != nil {
		return err
	}
	return l.f.Truncate(int64(len(b)))
}

func (l *lockFile) release() error { return l.f.Close() }

// Holder tells who has, or last had, a store.
type Holder = holder

// ReadHolder reads who has, or last had, the store in dir.
func ReadHolder(dir string) (Holder, error) {
	var h holder
	b, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(b, &h)
}

// IsStore refuses a directory that is no store of a known format.
func IsStore(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "format")); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: %s is no amberfs store", ErrFormat, dir)
		}
		return err
	}
	return checkFormat(dir)
}

// checkFormat reads the format of the store in dir, and writes it into one
// that is new: a directory without anything in it but what this package made.
func checkFormat(dir string) error {
	name := filepath.Join(dir, "format")
	b, err := os.ReadFile(name)
	switch {
	case err == nil && string(b) == formatLine:
		return nil
	case err == nil:
		line, _, _ := strings.Cut(string(b), "\n")
		return fmt.Errorf("%w: %s says %q, this version knows %q; use the amberfs that made it",
			ErrFormat, name, line, strings.TrimSpace(formatLine))
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case "lock", "amberfs.log", "lost+found":
		default:
			return fmt.Errorf("%w: %s holds %s but no file `format`, so it is no store; name an empty or new directory", ErrFormat, dir, e.Name())
		}
	}
	if err := vfs.WriteFile(vfs.OS, name, []byte(formatLine)); err != nil {
		return err
	}
	// The directory's own name has to last too.
	return vfs.OS.SyncDir(filepath.Dir(dir))
}
