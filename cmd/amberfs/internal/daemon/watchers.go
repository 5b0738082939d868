package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// inotifyReporter makes inotify(7) report the files that a restore changed.
//
// The kernel reports changes by processes, but not changes by a FUSE daemon. So after a
// restore another process (Nudge) sets the mtime of the changed files, and of the directories
// whose names changed, to a special time (fusefs.Options.NudgeMtime). The kernel reports this to
// watchers, but fusefs does not change the mtime. The daemon itself never touches its own mount.
type inotifyReporter struct {
	store      *snapshot.Store
	mount      *mount
	log        *slog.Logger
	nudgeMtime int64 // see fusefs.Options.NudgeMtime
	// lastCPUTime is the processor time of the last Nudge process. Only the goroutine of reportAll accesses it.
	lastCPUTime time.Duration

	mu struct {
		sync.Mutex
		entries []live.Entry // changed names that are not reported yet
		closed  bool
		cancel  context.CancelFunc // ends reportAll; nil if it does not run
	}
	wg sync.WaitGroup
}

const (
	// nudgeDelay is the time from a restore to the start of a Nudge process. It lets one process serve several
	// restores in a row. minNudgeInterval is the shortest time between two Nudge processes.
	nudgeDelay       = 20 * time.Millisecond
	minNudgeInterval = 200 * time.Millisecond
	// idlePerCPUTime is a factor: the time between two Nudge processes is at least idlePerCPUTime times the processor
	// time of the first one. So continuous restores use at most a twentieth of a processor for watchers.
	idlePerCPUTime = 20
	// maxTouchedFiles is the number of paths after which a Nudge process touches no further files. For further
	// changed names, it touches only their directories.
	maxTouchedFiles = 10_000
	// maxQueuedNames is the number of names after which a changed name is queued only if it is in another directory
	// than the last name of the queue.
	maxQueuedNames = 4 * maxTouchedFiles
	// maxNudgeTime is the time after which a Nudge process is killed.
	maxNudgeTime = 10 * time.Second
)

func newInotifyReporter(s *snapshot.Store, m *mount, log *slog.Logger) *inotifyReporter {
	// A random time from the year 2096 on, which no real file has.
	const from, span = 4_000_000_000, 2_000_000_000
	return &inotifyReporter{store: s, mount: m, log: log, nudgeMtime: (from+rand.Int64N(span))*1e9 + rand.Int64N(1e9)}
}

// queueEntries queues directory entries that a restore changed. It does not block.
func (w *inotifyReporter) queueEntries(entries []live.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.mu.closed || len(entries) == 0 {
		return
	}

	for _, e := range entries {
		if n := len(w.mu.entries); n < maxQueuedNames || w.mu.entries[n-1].Parent != e.Parent {
			w.mu.entries = append(w.mu.entries, e)
		}
	}
	if w.mu.cancel != nil {
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	w.mu.cancel = cancel
	w.wg.Go(func() {
		defer cancel()
		w.reportAll(ctx)
	})
}

// stopProcess ends a running Nudge process, so that it does not keep the mount busy. The next restore starts a new
// process.
func (w *inotifyReporter) stopProcess() {
	w.mu.Lock()
	if w.mu.cancel != nil {
		w.mu.cancel()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// close ends a running Nudge process, and prevents the start of further ones.
func (w *inotifyReporter) close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	w.stopProcess()
}

// reportAll reports the changed names, until none are left or ctx ends. For each batch it starts a Nudge process,
// which touches the files.
func (w *inotifyReporter) reportAll(ctx context.Context) {
	for wait := nudgeDelay; ; wait = max(minNudgeInterval, idlePerCPUTime*w.lastCPUTime) {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}

		w.mu.Lock()
		entries := w.mu.entries
		w.mu.entries = nil
		if len(entries) == 0 || ctx.Err() != nil {
			w.mu.cancel = nil
			w.mu.Unlock()
			return
		}

		w.mu.Unlock()
		err := guard.Do(func() error { return w.nudge(ctx, w.pathsToTouch(entries)) })
		if err != nil && ctx.Err() == nil {
			w.log.Debug("reporting a restore to watchers", "err", err, guard.Stack(err))
		}
	}
}

// pathsToTouch returns the paths to touch, relative to the mount point.
func (w *inotifyReporter) pathsToTouch(entries []live.Entry) (paths []string) {
	forest := w.store.Forest()
	dirs, seen := make(map[live.NodeID]string), make(map[string]bool)
	touch := func(p string) {
		if !seen[p] {
			seen[p] = true
			paths = append(paths, p)
		}
	}

	for _, e := range entries {
		dir, known := dirs[e.Parent]
		if !known {
			dir = w.dirPath(e.Parent)
			dirs[e.Parent] = dir
		}
		if dir == "" {
			continue
		}

		_, err := forest.Lookup(e.Parent, e.Name)
		if err != nil || e.OldNode == 0 || len(paths) >= maxTouchedFiles {
			touch(dir)
		}
		if err == nil && len(paths) < maxTouchedFiles {
			touch(path.Join(dir, e.Name))
		}
	}

	return paths
}

// dirPath returns the path of a directory below the mount point, "" if it has no name any more.
func (w *inotifyReporter) dirPath(dir live.NodeID) string {
	p, err := w.store.Forest().Path(dir, unix.PathMax-1)
	if err != nil {
		return ""
	}

	ws, _ := w.store.Workspace(dir.View())
	for ; ws != nil && ws.IsFork(); ws = ws.Parent() {
		p = path.Join(naming.ForksDir, ws.Name(), p)
	}
	if ws == nil {
		return ""
	}

	return path.Join(".", p)
}

// nudge starts a Nudge process that touches paths, and waits for its end.
func (w *inotifyReporter) nudge(ctx context.Context, paths []string) error {
	m, ok, err := w.mount.tableEntry()
	if !ok || len(paths) == 0 {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, maxNudgeTime)
	defer cancel()

	cmd := exec.CommandContext(ctx, "/proc/self/exe", NudgeCommand, m.Mountpoint, locate.Device(m), strconv.FormatInt(w.nudgeMtime, 10))
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	err = cmd.Run()
	if s := cmd.ProcessState; s != nil {
		w.lastCPUTime = s.UserTime() + s.SystemTime()
	}

	return err
}

// NudgeCommand is the hidden command that must call Nudge.
const NudgeCommand = "nudge"

// Nudge sets the mtime of files in the mount at point to a time (ns since 1970, in decimal). It fails if
// another device is mounted there now. It reads the paths of the files from in, with a NUL after each.
func Nudge(in io.Reader, point, device, mtime string) error {
	ns, err := strconv.ParseInt(mtime, 10, 64)
	if err != nil {
		return err
	}

	root, err := unix.Open(point, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)

	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return err
	}
	if dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)); dev != device {
		return fmt.Errorf("%s is another file system now", point)
	}

	for r := bufio.NewReader(in); ; {
		p, err := r.ReadString(0)
		if err != nil {
			return nil
		}
		setMtime(root, strings.TrimSuffix(p, "\x00"), ns)
	}
}

// setMtime sets the mtime of a file below rootFD to ns. It does not leave the mount: in another file system
// the mtime would really change. Errors are ignored, because the file may have been removed since.
func setMtime(rootFD int, p string, ns int64) {
	fd, err := unix.Openat2(rootFD, p, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return
	}
	defer unix.Close(fd)

	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}
	_ = unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
}
