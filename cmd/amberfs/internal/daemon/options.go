package daemon

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/control"
	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/internal/fail"
)

// Config says what to mount, where and how. Its paths are absolute.
type Config struct {
	Store      string
	Mountpoint string
	Options    mountopt.Options
	From       string    // fills a new store; "" for none
	Exclude    []string  // directories below From that are not copied. The store may be there too then
	Relink     bool      // links into From become relative in the copy
	Shared     bool      // it is a daemon of `run` in its own mount namespace, and ends with its last user
	Remote     string    // URL@SNAPSHOT that a new store begins with; "" for none
	OrEmpty    bool      // it begins empty if there is no such snapshot
	Version    string    // of the program, for the log and for hello
	LogTo      io.Writer // gets the log besides the file; nil for none
}

// closeTime bounds the work that an umount does and the next mount could as well:
// a reader waits for it.
const closeTime = 300 * time.Millisecond

func (d *Daemon) mountOptions() fusefs.Options {
	var onAnswer func(fusefs.Answered)
	if d.metrics != nil {
		onAnswer = d.metrics.add
	}
	return fusefs.Options{
		Store:      d.store,
		Control:    control.Options{Service: d.service},
		Mountpoint: d.cfg.Mountpoint,
		Flags:      d.cfg.Options.Flags,
		Logger:     d.log,
		OnAnswer:   onAnswer,
		OnEvent:    d.mountEvent,
		Nudge:      d.watchers.time,
		Changed:    d.watchers.changed,
	}
}

// Remount changes the kernel's flags of a mount: ro, rw and those of mount(8). The options
// of the daemon (allow_other, acl, snapdir) stay as they are.
func Remount(mountpoint string, o mountopt.Options) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	point := locate.Resolve(mounts, mountpoint)
	if _, ok := locate.On(mounts, point); !ok {
		return fail.New(fail.NotFound, "amberfs is not mounted at %s", point)
	}
	if err := unix.Mount("", point, "", unix.MS_REMOUNT|o.MountFlags(), ""); err != nil {
		if errors.Is(err, unix.EPERM) {
			return fail.New(fail.Failed, "only root can remount").WithHint("unmount and mount again with other options")
		}
		return fail.New(fail.KindOf(err), "cannot remount %s: %w", point, err)
	}
	return nil
}

// maxShare is what all diffs and imports together may take.
const maxShare = 256 << 20

// memoryShare is the memory for all diffs and imports, less in a small control group.
func memoryShare() int64 {
	most := int64(maxShare)
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return most
	}
	for line := range strings.Lines(string(b)) {
		// 0::/PATH, or ID:memory:/PATH of version 1 (cgroups(7))
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			most = min(most, memoryLimit(f[2], "memory.max")/4, memoryLimit("memory"+f[2], "memory.limit_in_bytes")/4)
		}
	}
	return most
}

func memoryLimit(group, file string) int64 {
	b, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", group, file))
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return math.MaxInt64 // "max"
	}
	return n
}
