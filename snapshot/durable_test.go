package snapshot

import (
	"testing"
	"time"
)

// TestCaptureReachesTheDisk: a snapshot for which the caller does not wait survives a
// power cut soon after, with everything that was written before it.
func TestCaptureReachesTheDisk(t *testing.T) {
	now := time.Now()
	s := openAt(t, &now)
	capture(t, s.Main(), CaptureOptions{Name: "v1"})
	end := s.log.End()
	for began := time.Now(); s.log.Durable() < end; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("durable up to %d of %d after 10 s", s.log.Durable(), end)
		}
	}
}
