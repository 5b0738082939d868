package keeper

import (
	"testing"

	"golang.org/x/sys/unix"
)

// apartOfFirst is the thread of a call of apart by the first thread, which runs what initializes packages.
var apartOfFirst = func() (thread int) {
	callOnOwnThread(func() { thread = unix.Gettid() })
	return thread
}()

// TestApart: what is apart never has the first thread.
func TestApart(t *testing.T) {
	if apartOfFirst == 0 || apartOfFirst == unix.Getpid() {
		t.Errorf("thread %d of process %d", apartOfFirst, unix.Getpid())
	}
}
