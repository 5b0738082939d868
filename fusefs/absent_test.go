package fusefs

import (
	"encoding/binary"
	"testing"

	"github.com/amberfs/amberfs/fusefs/wire"
)

// interruptFor is the INTERRUPT of a request, as the kernel sends it.
func interruptFor(id uint64) []byte {
	b := make([]byte, wire.InHeaderSize+8)
	binary.NativeEndian.PutUint32(b[4:], wire.OpInterrupt)
	binary.NativeEndian.PutUint64(b[8:], 1000)
	binary.NativeEndian.PutUint64(b[wire.InHeaderSize:], id)
	return b
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// TestInterruptLasts: the kernel sends one INTERRUPT for a request. Until the request is answered, the INTERRUPT counts
// each time the request is parked, even if it arrived before the request was parked first.
func TestInterruptLasts(t *testing.T) {
	id, ok := interruptTarget(interruptFor(7))
	if !ok || id != 7 {
		t.Fatal(id, ok)
	}
	for _, early := range []bool{true, false} {
		a := newParkingLot()
		if early && a.recordInterrupt(id) {
			t.Error("nothing is being fetched yet")
		}
		first, done := a.addParked(id)
		if closed(first) != early {
			t.Errorf("the first fetch knows: %v", !early)
		}
		if !early && !a.recordInterrupt(id) {
			t.Error("something is being fetched")
		}
		if !closed(first) {
			t.Error("the first fetch does not know")
		}
		done()
		second, done := a.addParked(id)
		if !closed(second) {
			t.Error("the second fetch does not know")
		}
		if other, done := a.addParked(8); closed(other) {
			t.Error("another request was interrupted")
		} else {
			done()
		}
		done()
		a.removeInterrupt(id)
		if len(a.interrupted) != 0 || len(a.parked) != 0 || a.interruptedCount.Load() != 0 {
			t.Errorf("%d and %d requests are kept", len(a.interrupted), len(a.parked))
		}
	}
}
