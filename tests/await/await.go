// Package await waits in tests for what has to happen, however long a busy machine takes. It
// gives up after [Limit], and then shows what every goroutine does.
//
// Imported by: tests.
package await

import (
	"runtime"
	"testing"
	"time"
)

// Limit is long, as only what hangs takes it.
const Limit = 2 * time.Minute

// True returns when ok does.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s\n%s", Limit, what, goroutines())
		}
	}
}

// Receive returns what comes out of a channel, or the zero value if it is closed.
func Receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Limit):
		t.Fatalf("not after %v: %s\n%s", Limit, what, goroutines())
	}
	return v
}

func goroutines() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
