package fusefs

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestTimings(t *testing.T) {
	request := func(op uint32, size uint32) []byte {
		b := make([]byte, 80)
		binary.NativeEndian.PutUint32(b[4:], op)
		binary.NativeEndian.PutUint32(b[writeSize:], size)
		return b
	}
	var ts timings
	ts.add(request(opcodeRead, 0), outHeader+100, 900*time.Nanosecond)
	ts.add(request(opcodeRead, 0), outHeader, 3*time.Microsecond) // an error
	ts.add(request(opcodeWrite, 4096), outHeader+8, 4*time.Microsecond)
	ts.add(request(opcodeWrite, 4096), outHeader, 2*time.Second) // an error
	ts.add(request(4000, 0), outHeader, time.Second)
	ts.add(nil, 0, time.Second)
	if ts.read.Load() != 100 || ts.written.Load() != 4096 {
		t.Errorf("%d bytes read, %d written", ts.read.Load(), ts.written.Load())
	}
	all := ts.snapshot()
	if len(all) != 2 {
		t.Fatalf("%d operations timed: %v", len(all), all)
	}
	r, w := all["READ"], all["WRITE"]
	if r.Count != 2 || r.Buckets[1e-6] != 1 || r.Buckets[2e-6] != 1 || r.Buckets[4e-6] != 2 {
		t.Errorf("READ: %+v", r)
	}
	if w.Count != 2 || w.Buckets[2e-6] != 0 || w.Buckets[4e-6] != 1 || w.Buckets[float64(1<<20)/1e6] != 1 || w.Seconds < 2 {
		t.Errorf("WRITE: %+v", w)
	}
}
