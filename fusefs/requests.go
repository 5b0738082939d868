package fusefs

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/fusefs/wire"
)

// writeSizeOffset is the offset of the size in struct fuse_write_in.
const writeSizeOffset = wire.InHeaderSize + 16

// An AnsweredRequest describes a request that was answered.
type AnsweredRequest struct {
	Op                      string        // the name in wire.Operations, "" for other operations
	Duration                time.Duration // from the read of the request to the answer
	ReadBytes, WrittenBytes int           // bytes of a file
}

// requestCounts has the number of requests of each operation. Few goroutines answer requests, so one
// atomic counter per operation is not contended enough to matter.
type requestCounts [len(wire.Operations)]atomic.Uint64

// describeAnswer describes a request that was answered with size bytes.
func describeAnswer(request []byte, size int, duration time.Duration) AnsweredRequest {
	op := wire.Opcode(request)
	a := AnsweredRequest{Op: wire.Operations[op], Duration: duration}
	switch {
	case op == wire.OpRead && size > wire.OutHeaderSize:
		a.ReadBytes = size - wire.OutHeaderSize
	case op == wire.OpWrite && size > wire.OutHeaderSize && len(request) >= writeSizeOffset+4:
		a.WrittenBytes = int(binary.NativeEndian.Uint32(request[writeSizeOffset:]))
	}

	return a
}

// Counters returns how many requests of each kind were answered, by the name of the kind in the FUSE
// protocol. Under NODES it returns the number of nodes of the forest that the kernel holds.
func (s *Server) Counters() map[string]uint64 {
	m := map[string]uint64{"NODES": uint64(s.fs.replies.lookups.Count())}
	for op, name := range wire.Operations {
		if name != "" {
			m[name] += s.readers.requestCounts[op].Load()
		}
	}

	return m
}
