package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// TestForkHoldsUpNobody: while a fork goes back to a snapshot from which it differs
// very much, no write elsewhere waits for it.
func TestForkHoldsUpNobody(t *testing.T) {
	share, limit := 10, time.Second
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		share, limit = 1, 50*time.Millisecond
	}
	for what, alter := range map[string]func(t *testing.T, s *snapshot.Store, root live.NodeID){
		"nested directories": func(t *testing.T, s *snapshot.Store, root live.NodeID) {
			for range max(2400, 5000/share) {
				root = mkdir(t, s, root, "d")
			}
		},
		"nested directories of long names": func(t *testing.T, s *snapshot.Store, root live.NodeID) {
			for range 5000 / share {
				root = mkdir(t, s, root, fmt.Sprintf("%0255d", 0))
			}
		},
		"changed files": func(t *testing.T, s *snapshot.Store, root live.NodeID) {
			for i := range 100_000 / share {
				mkfile(t, s, root, fmt.Sprint("file", i))
			}
		},
		"links of one inode": func(t *testing.T, s *snapshot.Store, root live.NodeID) {
			first := mkfile(t, s, root, "first")
			for i := range 64_000 / share {
				if _, err := s.Forest().Link(first, root, fmt.Sprint("link", i)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "store"))
			fork, err := s.Main().Forks().New(snapshot.ForkOptions{Name: "side"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fork.Capture(snapshot.CaptureOptions{Name: "before"}); err != nil {
				t.Fatal(err)
			}
			alter(t, s, fork.Root())
			if _, err := fork.Capture(snapshot.CaptureOptions{Name: "after"}); err != nil {
				t.Fatal(err)
			}
			// A lock is held as long in each run; what else the machine does is not.
			var waits []time.Duration
			for range 5 {
				waits = append(waits, longestWait(t, s, func() {
					for _, name := range []string{"before", "after"} {
						if _, err := fork.Restore(context.Background(), snapshot.RestoreOptions{Name: name}); err != nil {
							t.Error(err)
						}
					}
				}))
				if waits[len(waits)-1] <= limit {
					break
				}
			}
			t.Logf("the longest write of each run: %v", waits)
			if least := slices.Min(waits); least > limit {
				t.Errorf("a write waited for %v", least)
			}
		})
	}
}

// longestWait returns how long a write in main took at most while fn ran.
func longestWait(t *testing.T, s *snapshot.Store, fn func()) (longest time.Duration) {
	file := mkfile(t, s, s.Main().Root(), fmt.Sprint("written", time.Now().UnixNano()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	for {
		select {
		case <-done:
			return longest
		case <-time.After(200 * time.Microsecond):
		}
		start := time.Now()
		if _, err := s.Forest().Write(file, []byte("x"), 0, false); err != nil {
			t.Error(err)
		}
		longest = max(longest, time.Since(start))
	}
}

func mkfile(t *testing.T, s *snapshot.Store, parent live.NodeID, name string) live.NodeID {
	t.Helper()
	a, err := s.Forest().Create(parent, name, live.Create{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	return a.ID
}
