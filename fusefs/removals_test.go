package fusefs

import (
	"testing"
	"time"
)

// TestRemovalsOfEndedForks: nothing is kept of forks that have ended.
func TestRemovalsOfEndedForks(t *testing.T) {
	var r removals
	for view := range uint32(100) {
		if !r.due(view+1, time.Now(), func(other uint32) bool { return other == view+1 }) {
			t.Errorf("the first removal in fork %d", view+1)
		}
	}
	if len(r.forks) > 1 {
		t.Errorf("%d forks are kept", len(r.forks))
	}
	if r.due(100, time.Now(), func(uint32) bool { return true }) {
		t.Error("the second removal in a row")
	}
}
