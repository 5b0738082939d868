package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// TestForkHoldsUpNobody: while a fork goes back to a snapshot from which it differs
// very much, its own changes wait, and those elsewhere do not.
func TestForkHoldsUpNobody(t *testing.T) {
	share := 10
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		share = 1
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
				_, err := s.Forest().Link(first, root, fmt.Sprint("link", i))
				must.OK(t, err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "store"))
			fork, err := s.Main().Forks().New(snapshot.ForkOptions{Name: "side"})
			must.OK(t, err)
			_, err = fork.Capture(snapshot.CaptureOptions{Name: "before"})
			must.OK(t, err)
			alter(t, s, fork.Root())
			_, err = fork.Capture(snapshot.CaptureOptions{Name: "after"})
			must.OK(t, err)
			here, states := mkfile(t, s, s.Main().Root(), "here"), []string{"after", "before"}
			await.True(t, "a write in main, made while one in the fork waits for a restore", func() bool {
				slices.Reverse(states)
				restored, written := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(restored)
					if _, err := fork.Restore(context.Background(), snapshot.RestoreOptions{Name: states[0]}); err != nil {
						t.Error(err)
					}
				}()
				go func() {
					defer close(written)
					for !closed(restored) {
						if _, err := s.Forest().SetAttr(fork.Root(), live.SetAttr{}); err != nil {
							t.Error(err)
						}
					}
				}()
				overtook := false
				for !overtook && !closed(restored) {
					waits := await.Waiting("select", "live.(*trees).lockUnless") > 0
					if _, err := s.Forest().Write(here, []byte("x"), 0, false); err != nil {
						t.Error(err)
					}
					overtook = waits && await.Waiting("select", "live.(*trees).lockUnless") > 0
				}
				await.Receive(t, "the restore", restored)
				await.Receive(t, "the last change in the fork", written)
				return overtook
			})
		})
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func mkfile(t *testing.T, s *snapshot.Store, parent live.NodeID, name string) live.NodeID {
	t.Helper()
	a, err := s.Forest().Create(parent, name, live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	return a.ID
}
