package snapshot

import (
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/await"
)

// TestCaptureReachesTheDisk: a snapshot for which the caller does not wait survives a
// power cut later, with everything that was written before it.
func TestCaptureReachesTheDisk(t *testing.T) {
	now := time.Now()
	s := openAt(t, &now)
	capture(t, s.Main(), CaptureOptions{Name: "v1"})
	end := s.log.End()
	await.True(t, "all of the journal is on the disk", func() bool { return s.log.DurablePos() >= end })
}
