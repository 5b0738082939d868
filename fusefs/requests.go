package fusefs

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// operations are the requests of the protocol that are counted, by their numbers
// (enum fuse_opcode of linux/fuse.h).
var operations = [...]string{
	1: "LOOKUP", 2: "FORGET", 3: "GETATTR", 4: "SETATTR", 5: "READLINK", 6: "SYMLINK", 8: "MKNOD", 9: "MKDIR",
	10: "UNLINK", 11: "RMDIR", 12: "RENAME", 13: "LINK", 14: "OPEN", 15: "READ", 16: "WRITE", 17: "STATFS",
	18: "RELEASE", 20: "FSYNC", 21: "SETXATTR", 22: "GETXATTR", 23: "LISTXATTR", 24: "REMOVEXATTR", 25: "FLUSH",
	27: "OPENDIR", 28: "READDIR", 29: "RELEASEDIR", 30: "FSYNCDIR", 34: "ACCESS", 35: "CREATE", 36: "INTERRUPT",
	39: "IOCTL", 42: "FORGET", 43: "FALLOCATE", 44: "READDIRPLUS", 45: "RENAME", 46: "LSEEK",
	47: "COPY_FILE_RANGE", 50: "SYNCFS", 51: "TMPFILE", 52: "STATX",
}

const (
	opcodeRead  = 15
	opcodeWrite = 16

	inHeader  = 40            // struct fuse_in_header
	outHeader = 16            // struct fuse_out_header
	writeSize = inHeader + 16 // the offset of the size in struct fuse_write_in
)

// An AnsweredRequest describes a request that was answered.
type AnsweredRequest struct {
	Op            string        // the name in operations, "" for an operation that is not there
	Took          time.Duration // from its reading to its answer
	Read, Written int           // bytes of a file
}

// requests counts requests by their operations. Few goroutines answer requests, so one
// atomic counter per operation is not contended enough to matter.
type requests [len(operations)]atomic.Uint64

// opcode returns the number of a request's operation, 0 if it is not in operations.
func opcode(request []byte) uint32 {
	if len(request) < inHeader {
		return 0
	}
	op := binary.NativeEndian.Uint32(request[4:])
	if op >= uint32(len(operations)) {
		return 0
	}

	return op
}

// describeAnswer describes a request that was answered with size bytes.
func describeAnswer(request []byte, size int, took time.Duration) AnsweredRequest {
	op := opcode(request)
	a := AnsweredRequest{Op: operations[op], Took: took}
	switch {
	case op == opcodeRead && size > outHeader:
		a.Read = size - outHeader
	case op == opcodeWrite && size > outHeader && len(request) >= writeSize+4:
		a.Written = int(binary.NativeEndian.Uint32(request[writeSize:]))
	}

	return a
}

// Counters returns how many requests of each kind were answered, by their
// names in the FUSE protocol, and under NODES the number of nodes of the tree
// that the kernel holds.
func (s *Server) Counters() map[string]uint64 {
	m := map[string]uint64{"NODES": uint64(s.fs.lookups.count())}
	for op, name := range operations {
		if name != "" {
			m[name] += s.readers.requests[op].Load()
		}
	}

	return m
}
