package fusefs

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot/live"
)

// openFlags are those of a file that CREATE opened: the pages that its writes
// leave behind are good for whoever opens it next.
const openFlags = fuse.FOPEN_KEEP_CACHE

// maxCopy bounds one COPY_FILE_RANGE: its answer has 32 bits for the length.
const maxCopy = 1 << 30

func timeNow() int64 { return time.Now().UnixNano() }

// Open is answered with ENOSYS once; the kernel then opens files by itself.
// Nothing is lost: there is no state of an open file here, and what is
// unlinked but open lives until FORGET.
func (fs *filesystem) Open(_ <-chan struct{}, _ *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	fs.counts.add(opOpen)
	return fuse.ENOSYS
}

// OpenDir is answered as Open is; the kernel then also caches listings.
func (fs *filesystem) OpenDir(_ <-chan struct{}, _ *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	fs.counts.add(opOpendir)
	return fuse.ENOSYS
}

// Flush has nothing to flush: a write that was answered is in the journal.
func (fs *filesystem) Flush(_ <-chan struct{}, _ *fuse.FlushIn) fuse.Status {
	fs.counts.add(opFlush)
	return fuse.ENOSYS
}

// Release comes for files that CREATE opened before the first OPEN.
func (fs *filesystem) Release(_ <-chan struct{}, _ *fuse.ReleaseIn) { fs.counts.add(opRelease) }

func (fs *filesystem) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	fs.counts.add(opRead)
	id := live.NodeID(in.NodeId)
	if isControl(id) {
		return fs.control.read(id, buf, int64(in.Offset))
	}
	n, err := fs.forest.ReadAt(id, buf, int64(in.Offset))
	if err != nil {
		return nil, fs.status("read", id, err)
	}
	return inPlace(buf[:n]), fuse.OK
}

// inPlace is the result of a READ that was read into the answer itself.
type inPlace []byte

func (r inPlace) Size() int                          { return len(r) }
func (r inPlace) Done()                              {}
func (r inPlace) Bytes([]byte) ([]byte, fuse.Status) { return r, fuse.OK }
func (r inPlace) Readv(dst [][]byte) (int, fuse.Status) {
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
	fs.counts.add(opWrite)
	id := live.NodeID(in.NodeId)
	if isControl(id) {
		return fs.control.write(cancel, id, data, int64(in.Offset), &in.InHeader)
	}
	kill := in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0
	special := kill && fs.special(id)
	n, err := fs.forest.Write(id, data, int64(in.Offset), kill)
	if err != nil {
		return 0, fs.status("write", id, err)
	}
	if special {
		// The answer to WRITE has no attributes, and the kernel would go on to
		// run the file with the rights that it lost.
		fs.notify.dropAttr(id)
	}
	fs.event(Event{Caller: caller(&in.InHeader), Action: Modified, Node: id})
	return uint32(n), fuse.OK
}

// special reports whether a file has the set-user-ID or set-group-ID bit.
func (fs *filesystem) special(id live.NodeID) bool {
	a, err := fs.forest.GetAttr(id)
	return err == nil && a.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 && a.Mode&unix.S_IFMT == unix.S_IFREG
}

// killPriv does for requests without a flag for it what WRITE does: root alone
// may change a file and leave it set-user-ID.
func (fs *filesystem) killPriv(id live.NodeID, uid uint32) error {
	if uid == 0 || !fs.special(id) {
		return nil
	}
	_, err := fs.forest.SetAttr(id, live.SetAttr{KillPriv: true})
	fs.notify.dropAttr(id)
	return err
}

// Fsync returns when the data would survive a power cut. There is one journal
// for all, so what was written before, to whichever file, is safe too.
func (fs *filesystem) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	fs.counts.add(opFsync)
	return fs.status("fsync", live.NodeID(in.NodeId), fs.forest.Sync())
}

// FsyncDir is Fsync for names.
func (fs *filesystem) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	fs.counts.add(opFsyncdir)
	return fs.status("fsyncdir", live.NodeID(in.NodeId), fs.forest.Sync())
}

func (fs *filesystem) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	fs.counts.add(opFallocate)
	id := live.NodeID(in.NodeId)
	if isControl(id) {
		return fuse.Status(unix.EOPNOTSUPP)
	}
	if err := fs.forest.Fallocate(id, int64(in.Offset), int64(in.Length), in.Mode); err != nil {
		return fs.status("fallocate", id, err)
	}
	fs.event(Event{Caller: caller(&in.InHeader), Action: Modified, Node: id})
	return fs.status("fallocate", id, fs.killPriv(id, in.Uid))
}

// Lseek answers SEEK_DATA and SEEK_HOLE.
func (fs *filesystem) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	fs.counts.add(opLseek)
	id := live.NodeID(in.NodeId)
	if isControl(id) {
		return fs.control.seek(id, int64(in.Offset), int(in.Whence), out)
	}
	off, err := fs.forest.Seek(id, int64(in.Offset), int(in.Whence))
	if err != nil {
		return fs.status("lseek", id, err)
	}
	out.Offset = uint64(off)
	return fuse.OK
}

// CopyFileRange shares the bytes instead of copying them.
func (fs *filesystem) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	fs.counts.add(opCopyFileRange)
	from, to := live.NodeID(in.NodeId), live.NodeID(in.NodeIdOut)
	if isControl(from) || isControl(to) {
		return 0, fuse.EXDEV // makes the kernel read and write instead
	}
	n, err := fs.forest.CopyRange(from, int64(in.OffIn), to, int64(in.OffOut), int64(min(in.Len, maxCopy)))
	if err != nil {
		return 0, fs.status("copy_file_range", to, err)
	}
	fs.event(Event{Caller: caller(&in.InHeader), Action: Modified, Node: to})
	return uint32(n), fs.status("copy_file_range", to, fs.killPriv(to, in.Uid))
}

// Ioctl has none to offer. ENOTTY, unlike ENOSYS, is what programs expect of a
// file that knows no such request.
func (fs *filesystem) Ioctl(_ <-chan struct{}, _ *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, _ []byte) fuse.Status {
	fs.counts.add(opIoctl)
	return fuse.Status(unix.ENOTTY)
}

// StatFs tells the space of the store's disk, less what the store keeps back
// for recovery and gc, so that df agrees with when writes begin to fail.
func (fs *filesystem) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	fs.counts.add(opStatfs)
	var s unix.Statfs_t
	if err := unix.Statfs(fs.store.Dir(), &s); err != nil {
		return fuse.ToStatus(err)
	}
	free, err := fs.store.Free()
	if err != nil {
		return fs.status("statfs", live.NodeID(in.NodeId), err)
	}
	unit := uint64(s.Frsize)
	if unit == 0 {
		unit = uint64(s.Bsize)
	}
	out.Bavail = min(uint64(free)/unit, s.Bavail)
	out.Bfree = s.Bfree - min(s.Bavail-out.Bavail, s.Bfree)
	out.Blocks = s.Blocks
	out.Files, out.Ffree = s.Files, s.Ffree
	out.Bsize, out.Frsize = uint32(s.Bsize), uint32(unit)
	out.NameLen = 255
	return fuse.OK
}
