package fusefs

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"time"
)

// opcodes are the requests of the protocol that are timed, by their numbers
// (enum fuse_opcode of linux/fuse.h).
var opcodes = [...]string{
	1: "LOOKUP", 2: "FORGET", 3: "GETATTR", 4: "SETATTR", 5: "READLINK", 6: "SYMLINK", 8: "MKNOD", 9: "MKDIR",
	10: "UNLINK", 11: "RMDIR", 12: "RENAME", 13: "LINK", 14: "OPEN", 15: "READ", 16: "WRITE", 17: "STATFS",
	18: "RELEASE", 20: "FSYNC", 21: "SETXATTR", 22: "GETXATTR", 23: "LISTXATTR", 24: "REMOVEXATTR", 25: "FLUSH",
	27: "OPENDIR", 28: "READDIR", 29: "RELEASEDIR", 30: "FSYNCDIR", 34: "ACCESS", 35: "CREATE", 36: "INTERRUPT",
	39: "IOCTL", 42: "BATCH_FORGET", 43: "FALLOCATE", 44: "READDIRPLUS", 45: "RENAME2", 46: "LSEEK",
	47: "COPY_FILE_RANGE", 50: "SYNCFS", 51: "TMPFILE", 52: "STATX",
}

const (
	opcodeRead  = 15
	opcodeWrite = 16

	inHeader  = 40            // struct fuse_in_header
	outHeader = 16            // struct fuse_out_header
	writeSize = inHeader + 16 // where struct fuse_write_in has its size
)

// latencyBuckets is the number of buckets of a histogram: up to 1 µs, 2 µs,
// 4 µs, … 1 s.
const latencyBuckets = 21

// A Latency tells how long requests of one kind took, from when they were read
// to when they were answered.
type Latency struct {
	Count   uint64
	Seconds float64 // of all together
	// Buckets holds how many took at most so many seconds, by that.
	Buckets map[float64]uint64
}

// timings time requests. They are kept only when somebody asked for figures.
type timings struct {
	ops           [len(opcodes)]timing
	read, written atomic.Uint64 // bytes
}

type timing struct {
	nanos   atomic.Int64
	buckets [latencyBuckets + 1]atomic.Uint64 // the last: more than all
}

// add notes a request that was answered with size bytes after so long.
func (t *timings) add(request []byte, size int, took time.Duration) {
	if len(request) < inHeader {
		return
	}
	op := binary.NativeEndian.Uint32(request[4:])
	if op >= uint32(len(opcodes)) {
		return
	}
	o := &t.ops[op]
	o.nanos.Add(int64(took))
	micros := uint64((took + time.Microsecond - 1) / time.Microsecond)
	o.buckets[min(bits.Len64(max(micros, 1)-1), latencyBuckets)].Add(1)
	switch {
	case op == opcodeRead && size > outHeader:
		t.read.Add(uint64(size - outHeader))
	case op == opcodeWrite && size > outHeader && len(request) >= writeSize+4:
		t.written.Add(uint64(binary.NativeEndian.Uint32(request[writeSize:])))
	}
}

func (t *timings) snapshot() map[string]Latency {
	out := make(map[string]Latency)
	for op := range t.ops {
		o := &t.ops[op]
		l := Latency{Seconds: time.Duration(o.nanos.Load()).Seconds(), Buckets: make(map[float64]uint64, latencyBuckets)}
		for i := range o.buckets {
			l.Count += o.buckets[i].Load()
			if i < latencyBuckets {
				l.Buckets[float64(uint64(1)<<i)/1e6] = l.Count
			}
		}
		if l.Count > 0 && opcodes[op] != "" {
			out[opcodes[op]] = l
		}
	}
	return out
}

// Latencies tells how long requests took, by FUSE operation; nil unless
// Options.Timed was set.
func (s *Server) Latencies() map[string]Latency {
	if s.readers.times == nil {
		return nil
	}
	return s.readers.times.snapshot()
}

// Transferred tells how many bytes the kernel has read and written so far,
// which is less than what programs did by what it had in its cache. Zero unless
// Options.Timed was set.
func (s *Server) Transferred() (read, written uint64) {
	if s.readers.times == nil {
		return 0, 0
	}
	return s.readers.times.read.Load(), s.readers.times.written.Load()
}
