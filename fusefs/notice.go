package fusefs

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot/live"
)

// Notices go from the daemon to the kernel: a message without a request, which
// write(2) on the FUSE device carries out before it returns
// (fuse_notify in fs/fuse/dev.c). struct fuse_out_header comes first: length,
// the code where an answer has its error, and a unique of zero.
//
// They are written here and not by go-fuse, which knows no INC_EPOCH.
const noticeHeader = 16

func notice(code int32, size int) []byte {
	b := make([]byte, noticeHeader+size)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	// An answer carries -errno, a notice its code as it is: go-fuse's
	// constants are negated codes.
	binary.NativeEndian.PutUint32(b[4:], uint32(-code))
	return b
}

// invalInode drops the attributes of a node and its cached pages: the bytes of
// a file, the listing of a directory.
func invalInode(id live.NodeID) []byte {
	b := notice(fuse.NOTIFY_INVAL_INODE, 24)
	p := b[noticeHeader:]
	binary.NativeEndian.PutUint64(p, uint64(id))
	binary.NativeEndian.PutUint64(p[8:], 0) // from the first byte
	neg := int64(-1)
	binary.NativeEndian.PutUint64(p[16:], uint64(neg)) // to the last
	return b
}

// invalPages drops the pages of a node from a byte on, and its attributes.
func invalPages(id live.NodeID, from int64) []byte {
	b := invalInode(id)
	binary.NativeEndian.PutUint64(b[noticeHeader+8:], uint64(from))
	return b
}

// invalAttr drops the attributes of a node alone.
func invalAttr(id live.NodeID) []byte { return invalPages(id, -1) }

// invalEntry drops what the kernel knows about a name, also that it is absent.
func invalEntry(parent live.NodeID, name string) []byte {
	b := notice(fuse.NOTIFY_INVAL_ENTRY, 16+len(name)+1)
	p := b[noticeHeader:]
	binary.NativeEndian.PutUint64(p, uint64(parent))
	binary.NativeEndian.PutUint32(p[8:], uint32(len(name)))
	copy(p[16:], name)
	return b
}

// deleted tells that a name was removed, together with the node that it led to:
// what invalEntry does, and besides whoever watches the node (inotify) hears
// that it is gone.
func deleted(parent live.NodeID, name string, node live.NodeID) []byte {
	b := notice(fuse.NOTIFY_DELETE, 24+len(name)+1)
	p := b[noticeHeader:]
	binary.NativeEndian.PutUint64(p, uint64(parent))
	binary.NativeEndian.PutUint64(p[8:], uint64(node))
	binary.NativeEndian.PutUint32(p[16:], uint32(len(name)))
	copy(p[24:], name)
	return b
}

// incEpoch makes every name that the kernel knows be looked up again.
func incEpoch() []byte { return notice(fuse.NOTIFY_INC_EPOCH, 0) }

// epochMinor is the version 7.x of the protocol that brought INC_EPOCH
// (Linux 6.16).
const epochMinor = 44

// send writes a notice or an answer. A node or name that the kernel does not
// know (ENOENT) is as good as dropped, and a request that it no longer waits
// for needs no answer.
func send(fd int, b []byte) error {
	for {
		_, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}
