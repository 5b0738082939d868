package journal

import (
	"testing"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// TestSyncFarBehind: a log that no process syncs becomes durable automatically when there is
// much of it, so that the next opening has little to read.
func TestSyncFarBehind(t *testing.T) {
	j := mustOpen(t, memOptions(vfstest.NewMem()))
	defer j.Close()
	add := func() {
		t.Helper()
		_, err := j.Append(1, make([]byte, 4<<10), nil, false)
		must.OK(t, err)
	}
	for range 100 {
		add()
	}
	if n := j.sync.durablePos.Load(); n != 0 {
		t.Fatalf("%d bytes of a short log were synced", n)
	}
	j.sync.maxUnsynced = 64 << 10
	for range 10 { // more than a segment
		add()
	}
	await.True(t, "much of it is durable", func() bool { return j.sync.durablePos.Load() >= 400<<10 })
}
