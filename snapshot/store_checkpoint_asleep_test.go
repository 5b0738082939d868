package snapshot

import (
	"testing"
	"time"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestCheckpointsSleep while there is nothing to write down.
func TestCheckpointsSleep(t *testing.T) {
	s := quietStore(t)
	s.ckpt.LastPos.Store(s.log.End())
	woken := make(chan struct{})
	go func() {
		s.ckpt.AwaitChange(0, time.Time{})
		close(woken)
	}()
	await.Blocked(t, 1, "(*Checkpointer).awaitRecord")
	s.ckpt.CheckSoon()
	await.Receive(t, "it was asked, and wakes up", woken)
	_, err := s.forest.Create(live.Node(live.MainView, live.RootIno), "a", live.NewNode{Mode: 0o100644})
	must.OK(t, err)
	s.ckpt.AwaitChange(0, time.Time{}) // it returns
}
