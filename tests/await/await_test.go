package await

import "testing"

func TestAwait(t *testing.T) {
	gate, done := make(chan int), make(chan struct{})
	for range 2 {
		go func() { waitAtGate(gate); done <- struct{}{} }()
	}
	Blocked(t, 2, "await.waitAtGate")
	close(gate)
	for range 2 {
		Receive(t, "the end", done)
	}
	n := 0
	True(t, "three", func() bool { n++; return n == 3 })
}

//go:noinline
func waitAtGate(gate chan int) { <-gate }
