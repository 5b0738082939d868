package fusefs

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot/live"
)

// cached is how long the kernel may trust what it was told. Nobody but this
// mount changes the tree, and what changes from inside is taken back by
// notices, so it may as well be forever.
const cached = 365 * 24 * time.Hour

// seconds splits nanoseconds since 1970 as struct timespec has them: the
// fraction is never negative, also before 1970.
func seconds(ns int64) (sec uint64, nsec uint32) {
	s, n := ns/1e9, ns%1e9
	if n < 0 {
		s, n = s-1, n+1e9
	}
	return uint64(s), uint32(n)
}

// nanoseconds is the reverse of seconds; what does not fit into an int64 is
// cut to the nearest time that does.
func nanoseconds(sec uint64, nsec uint32) int64 {
	const most = math.MaxInt64/1_000_000_000 - 1
	s := int64(sec)
	s = min(max(s, -most), most)
	return s*1e9 + int64(nsec)
}

func fillAttr(out *fuse.Attr, a *live.Attr) {
	out.Ino = uint64(a.ID)
	out.Size = uint64(a.Size)
	out.Blocks = uint64(a.Blocks)
	out.Atime, out.Atimensec = seconds(a.Atime)
	out.Mtime, out.Mtimensec = seconds(a.Mtime)
	out.Ctime, out.Ctimensec = seconds(a.Ctime)
	out.Mode = a.Mode
	out.Nlink = a.Nlink
	out.Uid, out.Gid = a.UID, a.GID
	out.Rdev = a.Rdev
	out.Blksize = 4096
}

// fillStatx is fillAttr for statx(2), which also tells the time of birth.
func fillStatx(out *fuse.Statx, attr *live.Attr) {
	var a fuse.Attr
	fillAttr(&a, attr)
	out.Mask = unix.STATX_BASIC_STATS
	out.Blksize, out.Nlink = a.Blksize, a.Nlink
	out.Uid, out.Gid = a.Uid, a.Gid
	out.Mode = uint16(a.Mode)
	out.Ino, out.Size, out.Blocks = a.Ino, a.Size, a.Blocks
	out.Atime.Sec, out.Atime.Nsec = a.Atime, a.Atimensec
	out.Mtime.Sec, out.Mtime.Nsec = a.Mtime, a.Mtimensec
	out.Ctime.Sec, out.Ctime.Nsec = a.Ctime, a.Ctimensec
	out.RdevMajor, out.RdevMinor = unix.Major(uint64(a.Rdev)), unix.Minor(uint64(a.Rdev))
	if attr.Btime != 0 {
		out.Mask |= unix.STATX_BTIME
		out.Btime.Sec, out.Btime.Nsec = seconds(attr.Btime)
	}
}

// entry answers with a node of the tree and counts that the kernel holds it.
func (fs *filesystem) entry(out *fuse.EntryOut, a *live.Attr) {
	if t, ok := fs.capturedAt(a.ID); ok {
		a.Mtime = t
	}
	out.NodeId = uint64(a.ID)
	fillAttr(&out.Attr, a)
	out.SetEntryTimeout(cached)
	out.SetAttrTimeout(cached)
	fs.lookups.add(a.ID)
}

// absent answers that a name leads nowhere and may be remembered as such.
func absent(out *fuse.EntryOut, d time.Duration) fuse.Status {
	if d == 0 {
		return fuse.ENOENT
	}
	out.NodeId = 0
	out.SetEntryTimeout(d)
	return fuse.OK
}

func caller(h *fuse.InHeader) live.Caller {
	return live.Caller{UID: h.Uid, GID: h.Gid, PID: h.Pid}
}

// changer returns the caller of a change with its actor, and the forest for its changes.
func (fs *filesystem) changer(h *fuse.InHeader) (live.Caller, *live.Forest) {
	c := caller(h)
	c.Actor = fs.store.Actors().Of(c.PID, c.UID, live.NodeID(h.NodeId).View())
	return c, fs.forest.As(c.Actor)
}
