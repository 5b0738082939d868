package engine

import (
	"testing"
	"time"
)

// TestAlone: a seal leaves a processor to writers, but not when a reader waits for it and
// they write much.
func TestAlone(t *testing.T) {
	end := int64(0)
	p := &Pacer{JournalEnd: func() int64 { return end }, JournalOutgrown: func() bool { return false }}
	write := func(n int64) { end += n }
	look := func() bool {
		p.measuredAt.Store(0)
		return p.IsThrottled()
	}
	write(100)
	if !look() {
		t.Error("it takes both beside a writer")
	}
	p.measuredAt.Store(time.Now().Add(time.Hour).UnixNano()) // no tick is over
	if !p.IsThrottled() {
		t.Error("it takes both right after a writer")
	}
	if look() {
		t.Error("it leaves one, and there is no writer")
	}
	write(2 * idleTickBytes)
	if !look() {
		t.Error("it takes both beside much writing that nobody waits behind")
	}
	look()
	done := p.BeginUrgent()
	write(4096)
	if !look() {
		t.Error("it takes both beside a little writing while somebody waits")
	}
	write(2 * idleTickBytes)
	if look() {
		t.Error("it leaves one beside much writing while somebody waits")
	}
	done()
}
