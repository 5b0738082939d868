package snapshot

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// Blocked returns when a goroutine waits for something inside a function, such as
// "(*Barrier).Wait", in which gc waits for whatever puts objects.
func Blocked(t *testing.T, function string) {
	t.Helper()
	buf := make([]byte, 4<<20)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			state, stack, _ := strings.Cut(g, "\n")
			if strings.Contains(stack, function+"(") && !strings.Contains(state, "running") && !strings.Contains(state, "runnable") {
				return
			}
		}
	}
	t.Fatalf("nothing waits in %s", function)
}
