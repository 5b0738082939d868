package fusefs

import (
	"testing"
	"time"
)

// TestRemovalsOfManyForks: the memory for bookmarks is bounded for any number of forks.
func TestRemovalsOfManyForks(t *testing.T) {
	var r removals
	for view := range uint32(2 * maxBookmarks) {
		if !r.recordIfDue(view+1, time.Now()) {
			t.Errorf("the first removal in fork %d", view+1)
		}
	}
	if len(r.bookmarks) > maxBookmarks {
		t.Errorf("%d forks are kept", len(r.bookmarks))
	}
	if r.recordIfDue(2*maxBookmarks, time.Now()) {
		t.Error("the second removal in a row")
	}
}
