package fusefs

import (
	"cmp"
	"errors"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// maxCopyBytes bounds one COPY_FILE_RANGE: its answer has 32 bits for the length.
const maxCopyBytes = 1 << 30

func timeNow() int64 { return time.Now().UnixNano() }

// Open is answered with ENOSYS once; the kernel then opens files on its own.
// This package keeps no state of open files, and an unlinked file that is open lives until
// FORGET. After the same answer to OpenDir the kernel also caches listings.
func (fs *filesystem) Open(_ <-chan struct{}, _ *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	return fuse.ENOSYS
}

// Flush has nothing to flush: a write that was answered is in the journal.
func (fs *filesystem) Flush(_ <-chan struct{}, _ *fuse.FlushIn) fuse.Status {
	return fuse.ENOSYS
}

func (fs *filesystem) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	id := live.NodeID(in.NodeId)
	n, err := fs.replies.treeOf(id).ReadAt(id, buf, int64(in.Offset))
	if err != nil {
		return nil, fs.replies.status("read", id, err)
	}
	return readResult(buf[:n]), fuse.OK
}

// readResult is the result of a READ whose bytes are in the buffer of the answer already.
type readResult []byte

func (r readResult) Size() int                          { return len(r) }
func (r readResult) Done()                              {}
func (r readResult) Bytes([]byte) ([]byte, fuse.Status) { return r, fuse.OK }
func (r readResult) Readv(dst [][]byte) (int, fuse.Status) {
	n := 0
	for _, d := range dst {
		if len(d) > 0 && n < len(r) && &d[0] != &r[n] {
			copy(d, r[n:])
		}
		n += len(d)
	}

	return min(n, len(r)), fuse.OK
}

func (fs *filesystem) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	id := live.NodeID(in.NodeId)
	if control.IsNode(id) {
		n, err := fs.control.Write(id, data, int64(in.Offset), fs.callers.controlRequest(cancel, &in.InHeader))
		return uint32(n), fs.replies.status("write", id, err)
	}

	who, writer := fs.callers.writerFor(&in.InHeader)
	if who.PID == 0 && in.WriteFlags&fuse.WRITE_CACHE != 0 {
		writer = fs.forest.Writer // the kernel writes back the pages of a mapping: there is no caller
	}

	kill := in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0
	a, privileged := fs.permissions.attrIfSetID(id, kill)
	n, err := writer.Write(id, data, int64(in.Offset), kill)
	if errors.Is(err, live.ErrProtected) && in.WriteFlags&fuse.WRITE_CACHE != 0 {
		fs.notifier.dropRefusedPages(id)
	}
	if err != nil {
		return 0, fs.replies.status("write", id, err)
	}

	if privileged {
		if err := fs.permissions.dropSgid(writer, a, &in.InHeader); err != nil {
			return 0, fs.replies.status("write", id, err)
		}

		// The answer to WRITE has no attributes. With the cached attributes, the kernel would still run the
		// file with the rights of the cleared bits.
		fs.notifier.dropAttr(id)
	}

	fs.recordEvent(Event{Caller: who, Action: events.Modified, Node: id})

	return uint32(n), fuse.OK
}

// Fsync returns when the data would survive a power cut. All files have one journal, so
// earlier writes to other files are safe, too.
func (fs *filesystem) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return fs.replies.status("fsync", live.NodeID(in.NodeId), fs.opts.Store.Sync())
}

// FsyncDir makes the changes of names durable. Like Fsync, it syncs the whole journal.
func (fs *filesystem) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return fs.replies.status("fsyncdir", live.NodeID(in.NodeId), fs.opts.Store.Sync())
}

func (fs *filesystem) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	id := live.NodeID(in.NodeId)
	if control.IsNode(id) {
		return fuse.Status(unix.EOPNOTSUPP)
	}

	who, writer := fs.callers.writerFor(&in.InHeader)
	if err := writer.Fallocate(id, int64(in.Offset), int64(in.Length), in.Mode); err != nil {
		return fs.replies.status("fallocate", id, err)
	}

	fs.recordEvent(Event{Caller: who, Action: events.Modified, Node: id})

	return fs.killPriv("fallocate", writer, id, &in.InHeader)
}

// killPriv clears the set-user-ID and set-group-ID bits of a file that was changed. The answer to op has no
// attributes, so killPriv also has the kernel drop the cached ones.
func (fs *filesystem) killPriv(op string, writer live.Writer, id live.NodeID, h *fuse.InHeader) fuse.Status {
	changed, err := fs.permissions.killPriv(writer, id, h)
	if changed {
		fs.notifier.dropAttr(id)
	}
	return fs.replies.status(op, id, err)
}

// Lseek answers SEEK_DATA and SEEK_HOLE.
func (fs *filesystem) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	id := live.NodeID(in.NodeId)
	off, err := fs.replies.treeOf(id).Seek(id, int64(in.Offset), int(in.Whence))
	out.Offset = uint64(off)
	return fs.replies.status("lseek", id, err)
}

// CopyFileRange makes the two files share the bytes, and copies none.
func (fs *filesystem) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	from, to := live.NodeID(in.NodeId), live.NodeID(in.NodeIdOut)
	if control.IsNode(from) || control.IsNode(to) {
		return 0, fuse.EXDEV // EXDEV makes the kernel copy by reads and writes instead
	}

	h := in.InHeader
	h.NodeId = in.NodeIdOut
	who, writer := fs.callers.writerFor(&h)
	n, err := writer.CopyRange(from, int64(in.OffIn), to, int64(in.OffOut), int64(min(in.Len, maxCopyBytes)))
	if err != nil {
		return 0, fs.replies.status("copy_file_range", to, err)
	}

	fs.recordEvent(Event{Caller: who, Action: events.Modified, Node: to})
	if err := fs.permissions.recordCopy(writer, to, from); err != nil {
		return uint32(n), fs.replies.status("copy_file_range", to, err)
	}

	return uint32(n), fs.killPriv("copy_file_range", writer, to, &h)
}

// Ioctl supports no request. Programs expect ENOTTY for such a request, not ENOSYS. ENOTTY is also the only
// answer to FS_IOC_GETFLAGS after which overlayfs copies a file up from this file system.
func (fs *filesystem) Ioctl(_ <-chan struct{}, _ *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, _ []byte) fuse.Status {
	return fuse.Status(unix.ENOTTY)
}

// StatFs returns the space of the store's disk, less what the store reserves for recovery and gc, so that df
// shows no free space when writes begin to fail.
//
// A fork sees its own limit or, without a limit, the space of the disk rounded down to a
// power of two. The exact space would reveal the writes of other forks, and whether some content was in
// the store before.
func (fs *filesystem) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	var s unix.Statfs_t
	if err := unix.Statfs(fs.opts.Store.Dir(), &s); err != nil {
		return fuse.ToStatus(err)
	}

	free, err := fs.opts.Store.FreeBytes()
	if err != nil {
		return fs.replies.status("statfs", live.NodeID(in.NodeId), err)
	}

	unit := uint64(cmp.Or(s.Frsize, s.Bsize))
	out.Bavail = min(uint64(free)/unit, s.Bavail)
	out.Bfree = s.Bfree - min(s.Bavail-out.Bavail, s.Bfree)
	out.Blocks = s.Blocks
	out.Files, out.Ffree = s.Files, s.Ffree
	out.Bsize, out.Frsize = uint32(s.Bsize), uint32(unit)
	out.NameLen = 255
	if ws := fs.control.WorkspaceOf(live.NodeID(in.NodeId)); ws == nil || ws.IsFork() {
		out.Bavail, out.Blocks = forkSpace(ws, uint64(free), unit)
		out.Bfree, out.Files, out.Ffree = out.Bavail, 0, 0
	}

	return fuse.OK
}

// forkSpace returns the available space and the size of a fork, in blocks. free is the free space of the disk
// in bytes. ws is nil when the fork has ended.
func forkSpace(ws *snapshot.Workspace, free, blockSize uint64) (avail, blocks uint64) {
	if free > 0 {
		free = 1 << (bits.Len64(free) - 1)
	}
	if ws == nil {
		return free / blockSize, free / blockSize
	}

	used, limit := ws.Quota().Usage()
	if limit > 0 {
		free = min(free, uint64(max(0, limit-used)))
	} else {
		used = ws.Status().LogicalBytes
	}

	return free / blockSize, (free + uint64(used)) / blockSize
}
