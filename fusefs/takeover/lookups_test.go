package takeover

import (
	"testing"

	"github.com/amberfs/amberfs/snapshot/live"
)

func TestLookups(t *testing.T) {
	l := NewLookups()
	a, b := live.Node(0, 2), live.Node(5, 2)
	forget := func(id live.NodeID, n uint64) bool {
		gone, unknown := l.Forget(id, n)
		if unknown {
			t.Error("a node is unknown that no daemon before handed over")
		}
		return gone
	}
	if l.IsHeld(a) {
		t.Error("held before it was looked up")
	}
	l.Add(a, 1)
	l.Add(a, 1)
	l.Add(b, 1)
	if l.Count() != 2 {
		t.Errorf("%d nodes are held", l.Count())
	}
	if forget(a, 1) || !l.IsHeld(a) {
		t.Error("gone with one reference left")
	}
	if !forget(a, 1) || l.IsHeld(a) {
		t.Error("held without a reference")
	}
	if !l.IsHeld(b) {
		t.Error("another node went too")
	}
	if !forget(b, 9) || l.Count() != 0 {
		t.Error("a forget of too many is not the end")
	}
}

// TestInheritedLookups: a node that an earlier daemon handed over counts as held until the kernel answers that it does
// not hold the node.
func TestInheritedLookups(t *testing.T) {
	l := NewLookups()
	old, unnamed, after := live.Node(0, 2), live.Node(0, 3), live.Node(0, 9)
	l.Inherit(9, 1)
	if !l.IsHeld(old) || l.IsHeld(after) || l.IsHeld(live.Node(1, 2)) {
		t.Error("held are not exactly the nodes below the counters")
	}
	if gone, unknown := l.Forget(old, 5); gone || !unknown || !l.IsHeld(old) {
		t.Error("a forget of unknown count was believed")
	}
	l.Add(old, 1)
	n, dir := l.lookupsSinceTakeover(old)
	l.Add(old, 1)
	if n != 1 || dir != 1 || l.release(old, n) || !l.IsHeld(old) {
		t.Error("released, though it was looked up meanwhile")
	}
	if n, _ = l.lookupsSinceTakeover(old); !l.release(old, n) || l.IsHeld(old) || l.Count() != 0 {
		t.Error("still held, though the kernel does not have it")
	}
	l.Add(unnamed, 1)
	l.Add(unnamed, 2)
	if n, dir = l.lookupsSinceTakeover(unnamed); dir != SeveralDirs || !l.release(unnamed, n) {
		t.Error("one directory of two is named")
	}

	// The kernel may not have processed the answer with a new node yet.
	made := live.Node(0, 4)
	l.Disinherit(made)
	l.Add(made, 1)
	if n, _ = l.lookupsSinceTakeover(made); l.release(made, n) || !l.IsHeld(made) {
		t.Error("released, though the kernel was given it")
	}
	if gone, unknown := l.Forget(made, 1); !gone || unknown {
		t.Error("the count of a new node is not known")
	}
	l.Add(unnamed, 1)
	if gone, unknown := l.Forget(unnamed, 1); !gone || unknown {
		t.Error("not counted, though nothing of it is from a daemon before")
	}
}
