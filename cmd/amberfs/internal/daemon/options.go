package daemon

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/fusefs/takeover/keeper"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
)

// Config describes a mount and its daemon. Its paths are absolute.
type Config struct {
	Store      string
	Mountpoint string
	Options    mountopt.Options
	From       string         // the directory of which a new store is a copy; "" for an empty store
	Exclude    []string       // directories below From that are not copied. If there are any, the store may be below From
	Hidden     hostdir.Hidden // paths below From that are not copied
	Relink     bool           // symbolic links into From become relative in the copy
	Shared     bool           // the daemon was started by `run` in a mount namespace of its own, and ends with its last user
	Groups     []uint         // supplementary groups of the user, if the daemon is in a user namespace that maps only one id; else nil
	Remote     string         // URL@SNAPSHOT, the remote snapshot with which a new store begins; "" for none
	OrEmpty    bool           // a new store begins empty if the remote does not have the snapshot of Remote
	Version    string         // version of the program
	LogTo      io.Writer      // also gets the log; nil for none
	Keeper     *keeper.Link   // the keeper that started this daemon; nil if none did
}

// maxStoreCloseTime is the longest time that Close of the store spends on work that the next mount can
// also do. It is short, because the caller of umount waits for Close.
const maxStoreCloseTime = 300 * time.Millisecond

// defaultPatience is the patience of a mount without the options timeout and hard.
const defaultPatience = 30 * time.Second

// Patience returns the time for which programs wait for a remote that does not answer. They wait equally long for a
// daemon that cannot take over because it lacks a resource. A negative value means no limit.
func (cfg *Config) Patience() time.Duration {
	if cfg.Options.Hard {
		return -1
	}
	if d, _ := time.ParseDuration(cfg.Options.Timeout); d > 0 { // mountopt has already refused a malformed Timeout
		return d
	}

	return defaultPatience
}

// flags returns the flags of the mount.
func (cfg *Config) flags() fusefs.Flags {
	flags := cfg.Options.Flags
	if cfg.Shared { // the mount is in a mount namespace of its own, so more flags are safe
		flags.ACL, flags.AllowOther = !cfg.Options.NoACL, flags.AllowOther || os.Geteuid() == 0
	}
	return flags
}

func (d *Daemon) mountOptions() fusefs.Options {
	var onAnswer func(fusefs.AnsweredRequest)
	if d.metrics != nil {
		onAnswer = d.metrics.addRequest
	}

	o := fusefs.Options{
		Store:          d.store,
		Control:        control.Options{Service: d.service},
		Mountpoint:     d.cfg.Mountpoint,
		Flags:          d.cfg.flags(),
		Ids:            d.cfg.ids(),
		Logger:         d.log,
		OnAnswer:       onAnswer,
		OnEvent:        d.events.recordMountEvent,
		NudgeMtime:     d.inotify.nudgeMtime,
		OnNamesDropped: d.inotify.queueEntries,
	}

	setKeeperOptions(&o, d.cfg.Keeper)

	return o
}

// ids returns the ids of the user if the kernel accepts no other ids, else nil.
func (cfg *Config) ids() *fusefs.Ids {
	if cfg.Groups == nil {
		return nil
	}
	ids := &fusefs.Ids{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	for _, g := range cfg.Groups {
		ids.Groups = append(ids.Groups, uint32(g))
	}

	return ids
}

// Remount changes the flags of a mount that the kernel handles: ro, rw, exec and the like. Options that the
// daemon handles (allow_other, acl, snapdir) do not change.
func Remount(mountpoint string, o mountopt.Options) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}

	point := locate.Resolve(mounts, mountpoint)
	if _, ok := locate.MountAt(mounts, point); !ok {
		return errs.Fail(errs.NotExist, "amberfs is not mounted at %s", point)
	}

	if err := unix.Mount("", point, "", unix.MS_REMOUNT|o.MountFlags(), ""); err != nil {
		if errors.Is(err, unix.EPERM) {
			return errs.Fail(errs.Failed, "only root can remount").WithHint("unmount and mount again with other options")
		}
		return errs.Fail(errs.ScriptKind(err), "cannot remount %s: %w", point, err)
	}

	return nil
}

// maxMemoryShare is the maximum memory, in bytes, that all diffs and imports together may use.
const maxMemoryShare = 256 << 20

// memoryShare returns the memory, in bytes, that all diffs and imports together may use. It is at most a quarter of
// the limit of the control group.
func memoryShare() int64 { return min(maxMemoryShare, cgroupMemoryLimit()/4) }

// limitMemory configures the Go garbage collector. Garbage is at most half of the live memory, and less when the
// process nears 7/10 of the memory limit of its control group. The remaining 3/10 are for git.
func limitMemory() {
	debug.SetGCPercent(50)
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // GOMEMLIMIT has set no limit
		debug.SetMemoryLimit(cgroupMemoryLimit() / 10 * 7)
	}
}

// cgroupMemoryLimit returns the memory limit of the daemon's control group in bytes, MaxInt64 without a limit.
func cgroupMemoryLimit() int64 {
	limit := int64(math.MaxInt64)
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return limit
	}

	for line := range strings.Lines(string(b)) {
		// A line is 0::/PATH or, in version 1 of control groups, ID:memory:/PATH (cgroups(7)).
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			limit = min(limit, readMemoryLimit(f[2], "memory.max"), readMemoryLimit("memory"+f[2], "memory.limit_in_bytes"))
		}
	}

	return limit
}

// readMemoryLimit returns the limit in bytes that a file of a control group contains, MaxInt64 if there is none.
func readMemoryLimit(group, file string) int64 {
	b, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", group, file))
	if err != nil {
		return math.MaxInt64
	}

	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return math.MaxInt64 // the file contains "max"
	}

	return n
}
