package keeper

import (
	"testing"

	"golang.org/x/sys/unix"
)

// threadInInit is the thread of a call of callOnOwnThread by the first thread, which initializes packages.
var threadInInit = func() (thread int) {
	callOnOwnThread(func() { thread = unix.Gettid() })
	return thread
}()

// TestOwnThread: callOnOwnThread never uses the first thread.
func TestOwnThread(t *testing.T) {
	if threadInInit == 0 || threadInInit == unix.Getpid() {
		t.Errorf("thread %d of process %d", threadInInit, unix.Getpid())
	}
}
