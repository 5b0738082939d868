package fusefs

import "sync/atomic"

// The requests that are counted, by the names of the FUSE protocol.
const (
	opLookup = iota
	opForget
	opGetAttr
	opSetAttr
	opReadlink
	opSymlink
	opMknod
	opMkdir
	opUnlink
	opRmdir
	opRename
	opLink
	opOpen
	opRead
	opWrite
	opStatfs
	opFsync
	opSetXattr
	opGetXattr
	opListXattr
	opRemoveXattr
	opFlush
	opOpendir
	opReaddir
	opReaddirplus
	opFsyncdir
	opCreate
	opTmpfile
	opIoctl
	opFallocate
	opLseek
	opCopyFileRange
	opRelease
	opStatx
	opCount
)

var opNames = [opCount]string{
	"LOOKUP", "FORGET", "GETATTR", "SETATTR", "READLINK", "SYMLINK", "MKNOD", "MKDIR", "UNLINK", "RMDIR",
	"RENAME", "LINK", "OPEN", "READ", "WRITE", "STATFS", "FSYNC", "SETXATTR", "GETXATTR", "LISTXATTR",
	"REMOVEXATTR", "FLUSH", "OPENDIR", "READDIR", "READDIRPLUS", "FSYNCDIR", "CREATE", "TMPFILE", "IOCTL",
	"FALLOCATE", "LSEEK", "COPY_FILE_RANGE", "RELEASE", "STATX",
}

// counters counts requests by opcode. Few goroutines answer requests, so plain
// atomics do not contend enough to matter.
type counters [opCount]atomic.Uint64

func (c *counters) add(op int) { c[op].Add(1) }

func (c *counters) snapshot() map[string]uint64 {
	m := make(map[string]uint64, opCount)
	for i := range c {
		m[opNames[i]] = c[i].Load()
	}
	return m
}
