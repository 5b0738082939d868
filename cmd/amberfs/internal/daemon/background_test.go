package daemon

import (
	"sync/atomic"
	"testing"
)

// TestBackground: close waits for all running goroutines, also for those that are started while it waits. After
// close, no goroutine is started.
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
