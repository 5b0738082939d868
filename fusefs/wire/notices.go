package wire

import (
	"encoding/binary"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot/live"
)

// notice encodes a message to the kernel that answers no request. The name follows the body. The kernel
// carries a notice out during the write(2) to the FUSE device (fuse_notify in fs/fuse/dev.c). go-fuse is not
// used for notices, because it has no INC_EPOCH.
func notice(code int32, body any, name string) []byte {
	// The error is ignored: Append fails only for types without a fixed size.
	b, _ := binary.Append(make([]byte, OutHeaderSize), binary.NativeEndian, body)
	if name != "" {
		b = append(append(b, name...), 0)
	}

	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	// The constants of go-fuse are negated codes. In the header of a notice, the code is positive.
	binary.NativeEndian.PutUint32(b[4:], uint32(-code))

	return b
}

// InvalPages returns a notice that drops the attributes of a node, and its pages from the byte offset off to the
// end: the contents of a file, or the listing of a directory. If off is -1, the notice drops the attributes alone.
func InvalPages(id live.NodeID, off int64) []byte {
	return notice(fuse.NOTIFY_INVAL_INODE, fuse.NotifyInvalInodeOut{Ino: uint64(id), Off: off, Length: -1}, "")
}

// InvalEntry returns a notice that drops a name from the kernel's cache, also a name that is cached as absent.
func InvalEntry(parent live.NodeID, name string) []byte {
	return notice(fuse.NOTIFY_INVAL_ENTRY, fuse.NotifyInvalEntryOut{Parent: uint64(parent), NameLen: uint32(len(name))}, name)
}

// ExpireEntry returns a notice that has the kernel look a name up again. If a directory was created under this
// name before the notice, InvalEntry would drop the name of the new directory, and getcwd(2) would fail for the
// programs in the directory; ExpireEntry does not. Linux before 6.2 ignores the flag and drops the name.
func ExpireEntry(parent live.NodeID, name string) []byte {
	out := fuse.NotifyInvalEntryOut{Parent: uint64(parent), NameLen: uint32(len(name)), Flags: fuse.EXPIRE_ONLY}
	return notice(fuse.NOTIFY_INVAL_ENTRY, out, name)
}

// DeleteEntry returns a notice that drops a name as InvalEntry does, and makes inotify(7) report that the node
// under this name was deleted.
func DeleteEntry(parent live.NodeID, name string, node live.NodeID) []byte {
	out := fuse.NotifyInvalDeleteOut{Parent: uint64(parent), Child: uint64(node), NameLen: uint32(len(name))}
	return notice(fuse.NOTIFY_DELETE, out, name)
}

// IncEpoch returns a notice that has the kernel look every cached name up again.
func IncEpoch() []byte { return notice(fuse.NOTIFY_INC_EPOCH, struct{}{}, "") }

// EpochMinor is x in the number 7.x of the first version of the protocol with INC_EPOCH (Linux 6.16).
const EpochMinor = 44

// Resend returns a notice that has the kernel send again all requests that were read and not answered.
func Resend() []byte { return notice(fuse.NOTIFY_RESEND, struct{}{}, "") }
