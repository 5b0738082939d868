package fusefs

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestRequests(t *testing.T) {
	request := func(op uint32, size uint32) []byte {
		b := make([]byte, 80)
		binary.NativeEndian.PutUint32(b[4:], op)
		binary.NativeEndian.PutUint32(b[writeSize:], size)
		return b
	}
	var ts requests
	ts.time(request(opcodeRead, 0), outHeader+100, 900*time.Nanosecond)
	ts.time(request(opcodeRead, 0), outHeader, 3*time.Microsecond) // an error
	ts.time(request(opcodeWrite, 4096), outHeader+8, 4*time.Microsecond)
	ts.time(request(opcodeWrite, 4096), outHeader, 2*time.Second) // an error
	ts.time(request(45, 0), outHeader, time.Millisecond)          // RENAME and RENAME2
	ts.time(request(12, 0), outHeader, time.Millisecond)
	ts.time(request(4000, 0), outHeader, time.Second)
	ts.time(nil, 0, time.Second)
	if ts.read.Load() != 100 || ts.written.Load() != 4096 {
		t.Errorf("%d bytes read, %d written", ts.read.Load(), ts.written.Load())
	}
	all := ts.latencies()
	if len(all) != 3 {
		t.Fatalf("%d operations timed: %v", len(all), all)
	}
	if n := all["RENAME"]; n.Count != 2 || n.Seconds != 0.002 || n.Buckets[float64(1<<10)/1e6] != 2 {
		t.Errorf("RENAME: %+v", n)
	}
	r, w := all["READ"], all["WRITE"]
	if r.Count != 2 || r.Buckets[1e-6] != 1 || r.Buckets[2e-6] != 1 || r.Buckets[4e-6] != 2 {
		t.Errorf("READ: %+v", r)
	}
	if w.Count != 2 || w.Buckets[2e-6] != 0 || w.Buckets[4e-6] != 1 || w.Buckets[float64(1<<20)/1e6] != 1 || w.Seconds < 2 {
		t.Errorf("WRITE: %+v", w)
	}
}
