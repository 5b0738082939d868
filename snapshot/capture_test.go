package snapshot

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
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

// TestIfChanged: nothing is captured when nothing changed, also after the store was
// opened again.
func TestIfChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := CaptureOptions{IfChanged: true}
	for round := range 3 {
		s, err := Open(dir, Options{Quiet: true})
		must.OK(t, err)
		w := s.Main()
		if round > 0 {
			if i, err := w.Capture(o); !errors.Is(err, ErrUnchanged) || i.Seq != uint64(round) {
				t.Errorf("opened anew: %+v, %v", i, err)
			}
		}
		_, err = s.Forest().Create(w.Root(), string(rune('a'+round)), live.NewNode{Mode: unix.S_IFREG | 0o644})
		must.OK(t, err)
		made := capture(t, w, o)
		if i, err := w.Capture(o); !errors.Is(err, ErrUnchanged) || i.Name != made.Name {
			t.Errorf("a second time: %+v, %v", i, err)
		}
		must.OK(t, s.Close())
	}
}
