package loops

import (
	"log/slog"
	"testing"
	"time"
)

// A loop goes on after a panic.
func TestPanic(t *testing.T) {
	g := New(slog.New(slog.DiscardHandler))
	defer g.Wait()
	defer g.Stop()
	g.rest = time.Millisecond
	again := make(chan struct{})
	first := true
	g.Start("a test", func() {
		if first {
			first = false
			panic("a fault")
		}
		close(again)
		<-g.Context.Done()
	})
	select {
	case <-again:
	case <-time.After(time.Minute):
		t.Error("it did not go on")
	}
}
