package daemon

import (
	"runtime"
	"testing"
	"time"
)

// TestGarbage: garbage is given back once nothing more is allocated.
func TestGarbage(t *testing.T) {
	new(garbage).bound()
	var keep [][]byte
	for range 64 {
		keep = append(keep, make([]byte, 1<<20))
	}
	runtime.KeepAlive(keep)
	mapped := func() uint64 {
		return sample("/memory/classes/heap/free:bytes") + sample("/memory/classes/heap/objects:bytes")
	}
	before := mapped()
	for end := time.Now().Add(10 * restTime); mapped() > 16<<20; time.Sleep(restTime / 10) {
		if time.Now().After(end) {
			t.Fatalf("of %d bytes there are still %d", before, mapped())
		}
	}
}
