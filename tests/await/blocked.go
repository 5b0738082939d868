package await

import (
	"strings"
	"testing"
)

// Blocked returns when so many goroutines wait inside a function, such as
// "(*Barrier).Wait": what they wait for has not happened.
func Blocked(t testing.TB, n int, function string) {
	t.Helper()
	True(t, "waiting in "+function, func() bool { return Waiting("", function) >= n })
}

// Waiting is how many goroutines wait inside a function, in a state such as "chan receive" if
// that is not empty.
func Waiting(state, function string) (n int) {
	for _, g := range strings.Split(goroutines(), "\n\n") {
		now, stack, _ := strings.Cut(g, "\n")
		if strings.Contains(stack, function+"(") && strings.Contains(now, state) && !strings.Contains(now, "running") && !strings.Contains(now, "runnable") {
			n++
		}
	}
	return n
}
