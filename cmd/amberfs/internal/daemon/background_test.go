package daemon

import (
	"sync/atomic"
	"testing"
)

// TestBackground: the store goes on telling of snapshots while the daemon waits for the end of
// what it has begun.
func TestBackground(t *testing.T) {
	var b background
	var begun, ended atomic.Int32
	for range 100 {
		b.goUnlessClosed(func() {
			begun.Add(1)
			b.goUnlessClosed(func() { ended.Add(1) })
			ended.Add(1)
		})
	}
	b.close()
	if n := ended.Load(); begun.Load() != 100 || n < 100 {
		t.Errorf("%d of at least 100 have ended", n)
	}
	b.goUnlessClosed(func() { t.Error("it begins after the end") })
	b.wg.Wait()
}
