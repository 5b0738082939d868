package api_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/amberfs/amberfs/service"
	through "github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestFollowNewThroughMount: where the socket cannot be reached, too, events from now on are
// those that come, and not those that were.
func TestFollowNewThroughMount(t *testing.T) {
	m := harness.New(t)
	mkdir := func(name string) {
		t.Helper()
		if err := os.Mkdir(m.Path(name), 0o755); err != nil {
			t.Error(err)
		}
	}
	mkdir("before")
	c, err := through.Open(t.Context(), through.Target{Store: t.TempDir(), Root: m.Dir})
	must.OK(t, err)
	defer c.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	paths := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		done <- c.Do(ctx, service.Log{Follow: true, New: true}, through.Streams{Item: func(raw json.RawMessage) error {
			var e events.Event
			err := json.Unmarshal(raw, &e)
			select {
			case paths <- e.Path:
			default: // one is enough
			}
			return err
		}}, nil)
	}()
	harness.Eventually(t, "an event", func() bool {
		mkdir("after")
		if err := os.Remove(m.Path("after")); err != nil {
			t.Error(err)
		}
		return len(paths) > 0
	})
	if path := <-paths; path != "after" {
		t.Errorf("the first event is of %q", path)
	}
	stop()
	<-done
}
