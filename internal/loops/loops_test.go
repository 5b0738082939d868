package loops

import (
	"log/slog"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/await"
)

// TestPanic: a loop is started again after a panic.
func TestPanic(t *testing.T) {
	g := New(slog.New(slog.DiscardHandler))
	defer g.Wait()
	defer g.Stop()
	g.restartPause = time.Millisecond
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
	await.Receive(t, "it goes on", again)
}
