package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/fusefs/takeover"
	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/internal/mounts"
	"github.com/amberfs/amberfs/snapshot/live"
)

// maxIO is the largest READ and WRITE, in bytes.
const maxIO = 1 << 20

// A kernel implements control.Kernel for a mount.
type kernel struct {
	*notifier
	*readers
}

// A Server is one mount of a store.
type Server struct {
	fs         *filesystem
	readers    *readers
	connection *takeover.Connection
	served     chan struct{} // closed when Serve returns
}

// Mount mounts a store's workspace. Requests are answered once Serve runs.
//
// The process must be allowed to mount, as root or in a user namespace. Otherwise the helper
// fusermount3 of fuse3 is used.
func Mount(o Options) (*Server, error) {
	fd, err := mount(&o)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", o.Mountpoint, err)
	}

	s, err := newServer(o, fd, nil)
	if err != nil {
		_ = mounts.Unmount(o.Mountpoint, false)
		return nil, fmt.Errorf("mount %s: %w", o.Mountpoint, err)
	}

	return s, nil
}

// newServer agrees with the kernel upon the terms of the mount whose device is fd. In a takeover it uses previous, the
// terms of the daemon that has ended. It closes fd if it fails.
func newServer(o Options, fd int, previous *takeover.Connection) (*Server, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("duplicate the descriptor of /dev/fuse: %w", err)
	}

	n := &notifier{log: o.Logger, fd: dup}
	k := &kernel{notifier: n}
	fs := newFilesystem(o, k)
	lookups := fs.replies.lookups
	fs.replies.probes = takeover.NewProbes(lookups, fs.forest, dup, o.Logger)

	r := newReaders(fd, fuse.NewProtocolServer(fs, o.serverOptions()), o.Logger)
	r.onAnswer, r.parking, k.readers = o.OnAnswer, fs.replies.parking, r
	r.blocker = func(request []byte) <-chan struct{} { return changeBlocker(fs.forest.Freezer, request) }
	c, err := r.connect(previous)
	if err != nil {
		unix.Close(dup)
		unix.Close(fd)
		return nil, err
	}

	if o.HasKeeper && c.Offers(fuse.CAP_HAS_RESEND) {
		fs.callers.recordsRequestNumbers = true
		r.afterAnswer = func(request []byte) { takeover.ReportAnswer(fs.forest.Takeover, o.OnResent, request) }
	}

	n.mountPoints = func() func(uint32) []string { return mountPoints(o.Store, o.Mountpoint) }
	n.mayUseEpoch = func() bool {
		return c.Minor() >= wire.EpochMinor && !fs.overlays.attrRequested.Load() && !mayHaveOverlay(o.Mountpoint) && len(n.mountPoints()(anyView)) == 0
	}
	n.held = lookups.IsHeld

	s := &Server{fs, r, c, make(chan struct{})}
	if previous != nil {
		s.inheritNodes()
	}

	fs.forest.Takeover.SetMount(live.Mount{
		IsHeld:       lookups.IsHeld,
		MountPoints:  func(view uint32) []string { return n.mountPoints()(view) },
		CoveredPaths: func(view, pid uint32) []string { return coveredPaths(o.Store, o.Mountpoint, view, pid) },
	})
	fs.opts.Store.Hooks.OnReplaced(n.onReplaced)
	fs.opts.Store.Hooks.OnInvalidate(func(inv live.Invalidation, onDropped func()) {
		n.invalidate(inv, onDropped)
		if len(inv.Entries) > 0 { // all entries are of one view, so the first one has it
			fs.removals.recordChange(inv.Entries[0].Parent.View())
		}
		if o.OnNamesDropped != nil {
			o.OnNamesDropped(lookups.WatchableNames(inv.Entries))
		}
	})

	if previous != nil {
		return s, s.resumeRequests()
	}

	raiseReadahead(o.Mountpoint)

	return s, nil
}

// serverOptions are the options from which go-fuse makes the answer to INIT.
func (o *Options) serverOptions() *fuse.MountOptions {
	m := &fuse.MountOptions{
		Name:     "amberfs",
		MaxWrite: maxIO,
		// The kernel may send this many readahead and other background requests at a time. The number is large,
		// so that requests that wait for a remote do not delay others.
		MaxBackground: 512,
		// Deferred calls have released the locks of the forest, so other requests go on, and only this one
		// fails.
		PanicHandler: func(v any) fuse.Status {
			o.Logger.Error("a request panicked", "panic", v, "stack", string(debug.Stack()))
			return fuse.EIO
		},
		Debug:  o.Debug,
		Logger: slog.NewLogLogger(o.Logger.Handler(), slog.LevelInfo),

		// A symlink never changes; a node that replaces it has another node id.
		EnableSymlinkCaching: true,
		// Without this option the kernel drops the pages of a file whenever a stat after a write shows
		// another mtime.
		ExplicitDataCacheControl: true,
		EnableAcl:                o.ACL,

		// ASYNC_DIO is off: the kernel does not drop cached pages after an asynchronous direct
		// write ends (fuse_aio_complete), so pages that were read during the write would stay outdated.
		ExtraCapabilities: fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_NO_OPENDIR_SUPPORT |
			fuse.CAP_READDIRPLUS_AUTO,
		// Passthrough is off: it would need answers to OPEN.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH | fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_WRITEBACK_CACHE,
	}
	if o.Handles {
		m.ExtraCapabilities |= fuse.CAP_EXPORT_SUPPORT
	} else {
		m.DisabledCapabilities |= fuse.CAP_EXPORT_SUPPORT
		m.ExtraCapabilities |= fuse.CAP_NO_EXPORT_SUPPORT
	}

	if o.ACL {
		m.ExtraCapabilities |= fuse.CAP_DONT_MASK | fuse.CAP_SETXATTR_EXT
	}

	return m
}

// Serve answers requests until the workspace is unmounted.
func (s *Server) Serve() {
	s.readers.run()
	s.fs.replies.probes.Close()
	unix.Close(s.readers.fd)
	s.fs.opts.Store.Hooks.OnReplaced(func(int) bool { return false })
	s.fs.opts.Store.Hooks.OnInvalidate(func(_ live.Invalidation, onDropped func()) { onDropped() })
	s.fs.forest.Takeover.SetMount(live.Mount{IsHeld: func(live.NodeID) bool { return false }})
	s.fs.notifier.close()
	close(s.served)
}

// DropName has the kernel forget the name of a snapshot, or of a fork, that was removed from a workspace. If wait is
// set, it returns after the kernel has done so, or after control.BriefCacheTime. A request through the mount must not
// wait, because its process may have locked the directory.
func (s *Server) DropName(workspace uint32, isFork bool, name string, wait bool) {
	dir, forks, ok := s.fs.control.Dirs(workspace)
	if !ok {
		return
	}
	if isFork {
		dir = forks
	}

	n := s.fs.notifier
	done := n.enqueue(&n.nameQueue, func() { n.send(wire.ExpireEntry(dir, name)) })
	if wait {
		waitFor(done, control.BriefCacheTime) // after BriefCacheTime the kernel looks the name up again without a notice
	}
}

// StaleNames returns the number of names that edits changed and the kernel has not dropped yet.
func (s *Server) StaleNames() int64 { return s.fs.notifier.staleNameCount.Load() }

// Wait returns when Serve has returned.
func (s *Server) Wait() { <-s.served }

// Unmount unmounts the workspace. The error is EBUSY if the workspace is in use. Serve returns soon
// after, unless another mount namespace has a copy of the mount.
func (s *Server) Unmount() error {
	var err error
	for delay := 5 * time.Millisecond; delay < 200*time.Millisecond; delay *= 2 {
		if err = mounts.Unmount(s.Mountpoint(), false); !errors.Is(err, unix.EBUSY) {
			break
		}

		// Try again: the kernel may not have completed the last close of a file yet.
		time.Sleep(delay)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", s.Mountpoint(), err)
	}

	return nil
}

// Mountpoint returns the absolute path of the mount.
func (s *Server) Mountpoint() string { return s.fs.opts.Mountpoint }

// raiseReadahead has the kernel read 512 KiB ahead instead of 128 KiB, which saves round trips. Only root may
// set the readahead; mounts of other users keep 128 KiB.
func raiseReadahead(mountpoint string) {
	if m, err := mounts.TopmostAt(mountpoint); err == nil && m != nil {
		_ = os.WriteFile(fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", m.Major, m.Minor), []byte("512"), 0)
	}
}
