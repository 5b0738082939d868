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

	"github.com/amberfs/amberfs/cmd/amberfs/internal/keeper"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/internal/errs"
)

// Config says what to mount, where and how. Its paths are absolute.
type Config struct {
	Store      string
	Mountpoint string
	Options    mountopt.Options
	From       string       // fills a new store; "" for none
	Exclude    []string     // directories below From that are not copied. The store may be there too then
	Relink     bool         // links into From become relative in the copy
	Shared     bool         // it is a daemon of `run` in its own mount namespace, and ends with its last user
	Groups     []uint       // supplementary groups of the user, if it is in a user namespace that maps only one; else nil
	Remote     string       // URL@SNAPSHOT that a new store begins with; "" for none
	OrEmpty    bool         // it begins empty if there is no such snapshot
	Version    string       // of the program, for the log and for hello
	LogTo      io.Writer    // gets the log besides the file; nil for none
	Keeper     *keeper.Link // the process that starts another daemon after a crash; nil if there is none
}

// closeTime bounds the work that an umount does and the next mount could as well:
// a reader waits for it.
const closeTime = 300 * time.Millisecond

// defaultPatience is that of a mount without the options timeout and hard.
const defaultPatience = 30 * time.Second

// Patience is how long programs wait for what may come back: a remote, or space for a daemon that takes
// over. It is negative without limit.
func (cfg *Config) Patience() time.Duration {
	if cfg.Options.Hard {
		return -1
	}
	if d, _ := time.ParseDuration(cfg.Options.Timeout); d > 0 { // it was checked
		return d
	}

	return defaultPatience
}

// flags are those of the mount.
func (cfg *Config) flags() fusefs.Flags {
	flags := cfg.Options.Flags
	if cfg.Shared { // the mount is private
		flags.ACL, flags.AllowOther = !cfg.Options.NoACL, flags.AllowOther || os.Geteuid() == 0
	}
	return flags
}

func (d *Daemon) mountOptions() fusefs.Options {
	var onAnswer func(fusefs.AnsweredRequest)
	if d.metrics != nil {
		onAnswer = d.metrics.add
	}

	o := fusefs.Options{
		Store:      d.store,
		Control:    control.Options{Service: d.service},
		Mountpoint: d.cfg.Mountpoint,
		Flags:      d.cfg.flags(),
		Ids:        d.cfg.ids(),
		Logger:     d.log,
		OnAnswer:   onAnswer,
		OnEvent:    d.mountEvent,
		Nudge:      d.watchers.time,
		Changed:    d.watchers.changed,
	}

	d.keptOptions(&o)

	return o
}

// ids are those of the user, where the kernel accepts no others.
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

// Remount changes the kernel's flags of a mount: ro, rw and those of mount(8). The options
// of the daemon (allow_other, acl, snapdir) stay as they are.
func Remount(mountpoint string, o mountopt.Options) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}

	point := locate.Resolve(mounts, mountpoint)
	if _, ok := locate.On(mounts, point); !ok {
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

// maxShare is what all diffs and imports together may take.
const maxShare = 256 << 20

// memoryShare is the memory for all diffs and imports, less in a small control group.
func memoryShare() int64 { return min(maxShare, groupMemory()/4) }

// limitMemory lets garbage take half of what is in use at most, and less as the process nears the
// memory limit of its control group, of which git needs a part.
func limitMemory() {
	debug.SetGCPercent(50)
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // else GOMEMLIMIT says it
		debug.SetMemoryLimit(groupMemory() / 10 * 7)
	}
}

// groupMemory is the memory that the control group of the daemon may have.
func groupMemory() int64 {
	most := int64(math.MaxInt64)
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return most
	}

	for line := range strings.Lines(string(b)) {
		// 0::/PATH, or ID:memory:/PATH of version 1 (cgroups(7))
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			most = min(most, memoryLimit(f[2], "memory.max"), memoryLimit("memory"+f[2], "memory.limit_in_bytes"))
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
