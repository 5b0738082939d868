package daemon

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// watchers has those who watch directories of the workspace (inotify) told of
// what a restore changed in them.
//
// The kernel sends such events for what processes do, not for what a FUSE daemon
// tells it. So when somebody watches, another process, Nudge, does something to
// each path that makes the kernel send one and changes nothing: it sets the
// mtime to a time that stands for none (fusefs.Options.Nudge). The daemon itself
// never touches its own mount.
type watchers struct {
	d    *Daemon
	time int64 // see fusefs.Options.Nudge

	mu struct {
		sync.Mutex
		entries []live.Entry
		running bool
		closed  bool
		cancel  context.CancelFunc // of what runs
	}
	wg sync.WaitGroup
}

const (
	// nudgeSoon is how long after a restore watchers hear of it, so that of
	// many in a row they do once; nudgeRest is how often at most.
	nudgeSoon = 20 * time.Millisecond
	nudgeRest = 200 * time.Millisecond
	// maxNudged bounds the paths of one turn. Who watches more has them look for
	// themselves: the directories above are among them.
	maxNudged = 10_000
	// nudgeTime bounds how long a turn may take.
	nudgeTime = 10 * time.Second
)

func newWatchers(d *Daemon) *watchers {
	var b [8]byte
	_, _ = rand.Read(b[:]) // cannot fail
	// Some time in the next century that no clock shows.
	const from, span = 4_000_000_000, 2_000_000_000
	n := binary.NativeEndian.Uint64(b[:])
	return &watchers{d: d, time: (from+int64(n%span))*1e9 + int64(n>>32%1e9)}
}

// changed notes names that now lead elsewhere. It returns at once.
func (w *watchers) changed(inv live.Invalidation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed || len(inv.Entries) == 0 {
		return
	}
	w.mu.entries = append(w.mu.entries, inv.Entries...)
	if w.mu.running {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.running, w.mu.cancel = true, cancel
	w.wg.Go(func() {
		defer cancel()
		w.run(ctx)
	})
}

// pause ends what runs, so that it does not keep the mount busy.
func (w *watchers) pause() {
	w.mu.Lock()
	if w.mu.cancel != nil {
		w.mu.cancel()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

func (w *watchers) close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	w.pause()
}

func (w *watchers) run(ctx context.Context) {
	for wait := nudgeSoon; ; wait = nudgeRest {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		w.mu.Lock()
		entries := w.mu.entries
		w.mu.entries = nil
		if len(entries) == 0 || ctx.Err() != nil {
			w.mu.running = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		err := guard.Do(func() error { return w.nudge(ctx, entries) })
		if err != nil && ctx.Err() == nil {
			w.d.log.Debug("telling watchers of a restore", "error", err, guard.Stack(err))
		}
	}
}

// nudge finds what of the entries is watched, and starts the process that
// touches it.
func (w *watchers) nudge(ctx context.Context, entries []live.Entry) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	m, ok := locate.On(mounts, w.d.cfg.Mountpoint)
	if !ok || m.Source != w.d.cfg.Store {
		return nil // on its way out
	}
	watched := watchedInodes(m.Device)
	if len(watched) == 0 {
		return nil
	}
	paths := w.paths(entries, watched)
	if len(paths) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", NudgeCommand)
	cmd.Dir = "/"
	head := []string{w.d.cfg.Mountpoint, m.Device, strconv.FormatInt(w.time, 10)}
	cmd.Stdin = strings.NewReader(strings.Join(append(head, paths...), "\x00") + "\x00")
	return cmd.Run()
}

// paths are the paths to touch: names that are there in watched directories
// and, for those that are not, the directory.
func (w *watchers) paths(entries []live.Entry, watched map[uint64]bool) []string {
	var out []string
	seen := make(map[string]bool)
	add := func(p string) {
		if !seen[p] && len(out) < maxNudged {
			seen[p] = true
			out = append(out, p)
		}
	}
	forest := w.d.store.Forest()
	for _, e := range entries {
		if !watched[uint64(e.Parent)] {
			continue
		}
		dir, err := forest.Path(e.Parent, unix.PathMax-1)
		if err != nil {
			continue
		}
		prefix, ok := w.d.viewPath(e.Parent.View())
		if !ok {
			continue
		}
		dir = path.Join(prefix, dir)
		add(dir)
		if _, err := forest.Lookup(e.Parent, e.Name); err == nil {
			add(path.Join(dir, e.Name))
		}
	}
	return out
}

// viewPath is where a workspace lies below the mount point.
func (d *Daemon) viewPath(view uint32) (string, bool) {
	ws, ok := d.store.Workspace(view)
	if !ok {
		return "", false
	}
	p := "."
	for ; ws.IsFork(); ws = ws.Parent() {
		if ws.Parent() == nil {
			return "", false
		}
		p = path.Join(snapshot.ForksDir, ws.Name(), p)
	}
	return p, true
}

// watchedInodes are the inodes of a device that inotify watches of other
// processes are on, as far as we may see (proc_pid_fdinfo(5)).
func watchedInodes(device string) map[uint64]bool {
	var major, minor uint64
	if _, err := fmt.Sscanf(device, "%d:%d", &major, &minor); err != nil {
		return nil
	}
	sdev := fmt.Sprintf(" sdev:%x ", major<<20|minor)
	out := make(map[uint64]bool)
	fds, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err != nil || to != "anon_inode:inotify" {
			continue
		}
		f, err := os.Open(strings.Replace(fd, "/fd/", "/fdinfo/", 1))
		if err != nil {
			continue
		}
		for sc := bufio.NewScanner(f); sc.Scan(); {
			// inotify wd:1 ino:9e7e sdev:800013 mask:800afce …
			line := sc.Text()
			var wd, ino uint64
			if !strings.Contains(line, sdev) {
				continue
			}
			if _, err := fmt.Sscanf(line, "inotify wd:%x ino:%x ", &wd, &ino); err == nil {
				out[ino] = true
			}
		}
		f.Close()
	}
	return out
}

// NudgeCommand is the hidden command that must call Nudge.
const NudgeCommand = "nudge"

// Nudge touches paths for watchers. It reads, with a NUL after each: the mount
// point, its device, the time, and the paths.
func Nudge(in io.Reader) error {
	r := bufio.NewReader(in)
	next := func() (string, error) {
		s, err := r.ReadString(0)
		return strings.TrimSuffix(s, "\x00"), err
	}
	var head [3]string
	for i := range head {
		var err error
		if head[i], err = next(); err != nil {
			return err
		}
	}
	ns, err := strconv.ParseInt(head[2], 10, 64)
	if err != nil {
		return err
	}
	root, err := unix.Open(head[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return err
	}
	if dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)); dev != head[1] {
		return fmt.Errorf("%s is another file system now", head[0])
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}
	for {
		p, err := next()
		if err != nil {
			return nil
		}
		// Never into another file system: there the time would be one.
		fd, err := unix.Openat2(root, p, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
		})
		if err != nil {
			continue // gone again
		}
		_ = unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH) // nobody to tell
		unix.Close(fd)
	}
}
