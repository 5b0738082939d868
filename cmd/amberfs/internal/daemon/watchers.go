package daemon

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
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
	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// watchers has those who watch directories of the workspace (inotify) told of
// what a restore changed in them.
//
// The kernel sends such events for what processes do, not for what a FUSE daemon
// tells it. So when somebody watches, another process, Nudge, does something to
// each path that makes the kernel send one and changes nothing: it makes what came
// and removes what went once more (fusefs.Replay), and sets the mtime of what changed
// to a time that stands for none (fusefs.Options.Nudge). The daemon itself never
// touches its own mount.
type watchers struct {
	d    *Daemon
	time int64 // see fusefs.Options.Nudge
	// scanned is how long the last look for watches took, which grows with the number of
	// descriptors on the machine. Only run uses it.
	scanned time.Duration

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
	// scanRest is how much longer than a look for watches the rest after it is: restores
	// without end take a twentieth of a processor for it.
	scanRest = 20
	// maxNudged bounds the paths of one turn. Of what is beyond, as many directories
	// are touched, so that who watches looks for himself.
	maxNudged = 10_000
	// maxPending is how many names wait. Beyond, one of each directory stands for all.
	maxPending = 4 * maxNudged
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
	for _, e := range inv.Entries {
		if n := len(w.mu.entries); n < maxPending || w.mu.entries[n-1].Parent != e.Parent {
			w.mu.entries = append(w.mu.entries, e)
		}
	}
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
	for wait := nudgeSoon; ; wait = max(nudgeRest, scanRest*w.scanned) {
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
		var below []live.Entry
		err := guard.Do(func() (err error) {
			below, err = w.nudge(ctx, entries)
			return err
		})
		w.mu.Lock()
		w.mu.entries = append(below, w.mu.entries...)
		w.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			w.d.log.Debug("telling watchers of a restore", "err", err, guard.Stack(err))
		}
	}
}

// nudge finds what of the entries is watched, and starts the process that has the
// kernel tell of it. It returns the entries of directories that nobody has watched
// yet, as they came only now.
func (w *watchers) nudge(ctx context.Context, entries []live.Entry) (below []live.Entry, err error) {
	mounts, err := locate.Mounts()
	if err != nil {
		return nil, err
	}
	m, ok := locate.On(mounts, w.d.cfg.Mountpoint)
	if !ok || m.Source != w.d.cfg.Store {
		return nil, nil // on its way out
	}
	began := time.Now()
	watched := watchedInodes(m.Device)
	w.scanned = time.Since(began)
	if len(watched) == 0 {
		return nil, nil
	}
	steps, replay, below := w.steps(entries, watched)
	if len(steps) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", NudgeCommand)
	cmd.Dir = "/"
	head := []string{w.d.cfg.Mountpoint, m.Device, strconv.FormatInt(w.time, 10), replay.Token}
	cmd.Stdin = strings.NewReader(strings.Join(append(head, steps...), "\x00") + "\x00")
	w.d.mount.Replay(replay)
	defer w.d.mount.Replay(nil) // the process has ended
	return below, cmd.Run()
}

// What the process that nudges does with a path, in front of which it stands.
const (
	stepTouch   = "t"
	stepFile    = "f" // make
	stepDir     = "d"
	stepSymlink = "l"
	stepUnlink  = "u"
	stepRmdir   = "r"
)

// steps are what the process does: to names that are watched, or whose directory is,
// that came or went, the same once more, and else a touch.
func (w *watchers) steps(entries []live.Entry, watched map[uint64]bool) ([]string, *fusefs.Replay, []live.Entry) {
	p := planner{
		w: w, watched: watched, seen: make(map[live.Entry]live.Entry), above: make(map[live.NodeID]live.Entry),
		done: make(map[string]bool), replay: &fusefs.Replay{Token: ".amberfs-" + rand.Text()},
	}
	for _, e := range entries {
		key := live.Entry{Parent: e.Parent, Name: e.Name}
		old, twice := p.seen[key]
		if twice && e.Was == 0 {
			e.Was, e.WasDir = old.Was, old.WasDir
		}
		e.Gone = 0
		if twice {
			e.Gone = e.Parent // replaced: any number but 0
		}
		p.seen[key] = e
		if e.WasDir {
			p.above[e.Was] = e
		}
	}
	for _, e := range entries { // what is below something comes before it
		key := live.Entry{Parent: e.Parent, Name: e.Name}
		if e, ok := p.seen[key]; ok {
			delete(p.seen, key)
			p.add(e)
		}
	}
	if !p.newDir {
		p.below = nil
	}
	return append(p.removals, p.rest...), p.replay, p.below
}

// planner makes the steps.
type planner struct {
	w              *watchers
	watched        map[uint64]bool
	seen           map[live.Entry]live.Entry // by parent and name
	above          map[live.NodeID]live.Entry
	done           map[string]bool
	removals, rest []string
	replay         *fusefs.Replay
	below          []live.Entry // of directories that nobody watches
	newDir         bool         // a directory came that somebody may watch from now on
}

func (p *planner) add(e live.Entry) {
	forest := p.w.d.store.Forest()
	a, err := forest.Lookup(e.Parent, e.Name)
	there, went := err == nil, err != nil && e.Was != 0
	if went {
		p.replay.Went = append(p.replay.Went, e)
	}
	if there && !p.watched[uint64(e.Parent)] {
		p.below = append(p.below, live.Entry{Parent: e.Parent, Name: e.Name})
	}
	if !p.watched[uint64(e.Parent)] && !(went && p.watched[uint64(e.Was)]) {
		return
	}
	dir, ok := p.path(e.Parent, 0)
	if !ok || len(p.done) >= 2*maxNudged {
		return
	}
	if len(p.done) >= maxNudged {
		p.step(&p.rest, stepTouch, dir)
		return
	}
	at := path.Join(dir, e.Name)
	switch {
	case went && e.WasDir:
		p.step(&p.removals, stepRmdir, at)
	case went:
		p.step(&p.removals, stepUnlink, at)
	case there && e.Gone == 0 && e.Was == 0 && makers[a.Mode&unix.S_IFMT] != "":
		p.replay.Came = append(p.replay.Came, e)
		p.newDir = p.newDir || a.Mode&unix.S_IFMT == unix.S_IFDIR
		p.step(&p.rest, makers[a.Mode&unix.S_IFMT], at)
	case there:
		p.step(&p.rest, stepTouch, at)
	default: // another name of what is still there
		p.step(&p.rest, stepTouch, dir)
	}
}

// makers are the steps that make a file of some type.
var makers = map[uint32]string{unix.S_IFREG: stepFile, unix.S_IFDIR: stepDir, unix.S_IFLNK: stepSymlink}

func (p *planner) step(to *[]string, what, at string) {
	if !p.done[at] {
		p.done[at] = true
		*to = append(*to, what+at)
	}
}

// path is where a directory is below the mount point, or was.
func (p *planner) path(id live.NodeID, depth int) (string, bool) {
	if e, ok := p.above[id]; ok && depth < unix.PathMax/2 {
		dir, ok := p.path(e.Parent, depth+1)
		return path.Join(dir, e.Name), ok
	}
	dir, err := p.w.d.store.Forest().Path(id, unix.PathMax-1)
	if err != nil {
		return "", false
	}
	prefix, ok := p.w.d.viewPath(id.View())
	return path.Join(prefix, dir), ok
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
