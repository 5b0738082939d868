package fusefs

import (
	"encoding/binary"
	"math/bits"
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

// requests counts requests. Few goroutines answer them, so plain atomics do not
// contend enough to matter.
type requests struct {
	counts        [len(operations)]atomic.Uint64
	times         [len(operations)]histogram // only if somebody asked for them
	read, written atomic.Uint64              // bytes
}

type histogram struct {
	nanos   atomic.Int64
	buckets [latencyBuckets + 1]atomic.Uint64 // the last: more than all
}

// opcode returns the number of a request's operation, 0 if it has no name.
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

// count notes a request.
func (r *requests) count(request []byte) { r.counts[opcode(request)].Add(1) }

// time notes that a request was answered with size bytes after so long.
func (r *requests) time(request []byte, size int, took time.Duration) {
	op := opcode(request)
	h := &r.times[op]
	h.nanos.Add(int64(took))
	micros := uint64((took + time.Microsecond - 1) / time.Microsecond)
	h.buckets[min(bits.Len64(max(micros, 1)-1), latencyBuckets)].Add(1)
	switch {
	case op == opcodeRead && size > outHeader:
		r.read.Add(uint64(size - outHeader))
	case op == opcodeWrite && size > outHeader && len(request) >= writeSize+4:
		r.written.Add(uint64(binary.NativeEndian.Uint32(request[writeSize:])))
	}
}

func (h *histogram) latency() Latency {
	l := Latency{Seconds: time.Duration(h.nanos.Load()).Seconds(), Buckets: make(map[float64]uint64, latencyBuckets)}
	for i := range h.buckets {
		l.Count += h.buckets[i].Load()
		if i < latencyBuckets {
			l.Buckets[float64(uint64(1)<<i)/1e6] = l.Count
		}
	}
	return l
}

// add puts together what are two operations in the protocol and one to everybody
// else, as RENAME and RENAME2.
func (l Latency) add(other Latency) Latency {
	for most, n := range l.Buckets {
		other.Buckets[most] += n
	}
	other.Count += l.Count
	other.Seconds += l.Seconds
	return other
}

// Counters returns how many requests of each kind were answered, by their
// names in the FUSE protocol, and under NODES the number of nodes of the tree
// that the kernel holds.
func (s *Server) Counters() map[string]uint64 {
	m := map[string]uint64{"NODES": uint64(s.fs.lookups.count())}
	for op, name := range operations {
		if name != "" {
			m[name] += s.readers.requests.counts[op].Load()
		}
	}
	return m
}

// Latencies tells how long requests took, by FUSE operation; of none unless
// Options.Timed was set.
func (s *Server) Latencies() map[string]Latency { return s.readers.requests.latencies() }

func (r *requests) latencies() map[string]Latency {
	out := make(map[string]Latency)
	for op, name := range operations {
		if l := r.times[op].latency(); name != "" && l.Count > 0 {
			out[name] = out[name].add(l)
		}
	}
	return out
}

// Transferred tells how many bytes the kernel has read and written so far,
// which is less than what programs did by what it had in its cache. Zero unless
// Options.Timed was set.
func (s *Server) Transferred() (read, written uint64) {
	return s.readers.requests.read.Load(), s.readers.requests.written.Load()
}
