package fusefs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot/live"
)

// A Replay has inotify(7) tell of names that came or went by a restore. The kernel
// sends such events for system calls, not for notices of a daemon; so a process of the
// daemon's own makes and removes the names once more, and is answered without anything
// being done: a name that came is absent until that process has made it, and one that
// went is there until it has removed it. All others see what is.
//
// The process looks up Token in the root first. That says by which thread number the
// kernel knows it; the answer, Accepted, says that its changes are not for real. Of a
// thread that is known nothing else is changed: what it asks for beyond is refused.
type Replay struct {
	Token string
	Came  []live.Entry
	// Went are names with what was there (live.Entry.Was).
	Went []live.Entry
}

// Accepted is the error of a lookup of Replay.Token.
const Accepted = unix.ENOTUNIQ

// replay is a Replay under way.
type replay struct {
	token string
	pid   atomic.Uint32 // 0 until the token came

	mu   sync.Mutex
	came map[live.Entry]bool
	went map[live.Entry]ghost
}

// ghost is what a name that went led to.
type ghost struct {
	id  live.NodeID
	dir bool
}

func newReplay(r *Replay) *replay {
	out := &replay{token: r.Token, came: make(map[live.Entry]bool), went: make(map[live.Entry]ghost)}
	for _, e := range r.Came {
		out.came[live.Entry{Parent: e.Parent, Name: e.Name}] = true
	}
	for _, e := range r.Went {
		out.went[live.Entry{Parent: e.Parent, Name: e.Name}] = ghost{e.Was, e.WasDir}
	}
	return out
}

// Replay begins a replay, after the kernel has forgotten the names that came, or ends
// it with nil: then its process must have ended.
func (s *Server) Replay(r *Replay) {
	if r == nil {
		s.fs.replay.Store(nil)
		return
	}
	if s.notify.mayEpoch() { // else a mount on one of them would go with the name
		s.notify.invalidate(live.Invalidation{Entries: r.Came})
	}
	s.fs.replay.Store(newReplay(r))
}

// replaying is the replay that a request belongs to, nil for none.
func (fs *filesystem) replaying(h *fuse.InHeader) *replay {
	if r := fs.replay.Load(); r != nil && h.Pid != 0 && r.pid.Load() == h.Pid {
		return r
	}
	return nil
}

// greeted reports whether a lookup is that of the token.
func (fs *filesystem) greeted(h *fuse.InHeader, name string) bool {
	r := fs.replay.Load()
	return r != nil && name == r.token && h.Pid != 0 && r.pid.CompareAndSwap(0, h.Pid)
}

// lookup answers a lookup of a name that came or went; !ok for any other.
func (r *replay) lookup(fs *filesystem, h *fuse.InHeader, name string, out *fuse.EntryOut) (status fuse.Status, ok bool) {
	e := live.Entry{Parent: live.NodeID(h.NodeId), Name: name}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.came[e] {
		return fuse.ENOENT, true // for this lookup only
	}
	g, ok := r.went[e]
	if !ok || fs.isThere(e) {
		return 0, false
	}
	a, err := fs.forest.GetAttr(g.id)
	if err != nil { // the kernel has forgotten it
		a = live.Attr{ID: g.id, Mode: unix.S_IFREG | 0o600, Nlink: 1, UID: h.Uid, GID: h.Gid}
		if g.dir {
			a.Mode = unix.S_IFDIR | 0o700
		}
	}
	fs.entry(out, &a)
	out.SetEntryTimeout(0)
	out.SetAttrTimeout(0)
	return fuse.OK, true
}

// made answers who makes a name that came: it leads to what is there.
func (r *replay) made(fs *filesystem, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	e := live.Entry{Parent: live.NodeID(h.NodeId), Name: name}
	r.mu.Lock()
	came := r.came[e]
	delete(r.came, e)
	r.mu.Unlock()
	if !came {
		return fuse.EPERM
	}
	a, err := fs.forest.Lookup(e.Parent, name)
	if err != nil {
		return fs.status("replay", e.Parent, err)
	}
	fs.entry(out, &a)
	return fuse.OK
}

// removed answers who removes a name that went, unless somebody has made it anew.
func (r *replay) removed(fs *filesystem, h *fuse.InHeader, name string) fuse.Status {
	e := live.Entry{Parent: live.NodeID(h.NodeId), Name: name}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, went := r.went[e]; !went || fs.isThere(e) {
		return fuse.EPERM
	}
	delete(r.went, e)
	return fuse.OK
}

// isThere reports whether a name leads somewhere.
func (fs *filesystem) isThere(e live.Entry) bool {
	_, err := fs.forest.Lookup(e.Parent, e.Name)
	return err == nil
}
