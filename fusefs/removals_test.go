package fusefs

import (
	"testing"
	"time"
)

// TestRemovalsOfManyForks: memory is bounded, however many forks there were.
func TestRemovalsOfManyForks(t *testing.T) {
	var r removals
	for view := range uint32(2 * maxMarked) {
		if !r.due(view+1, time.Now()) {
			t.Errorf("the first removal in fork %d", view+1)
		}
	}
	if len(r.forks) > maxMarked {
		t.Errorf("%d forks are kept", len(r.forks))
	}
	if r.due(2*maxMarked, time.Now()) {
		t.Error("the second removal in a row")
	}
}
