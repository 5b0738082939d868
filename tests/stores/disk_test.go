package stores_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/stores"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// long reports whether the exhaustive forms of the tests are asked for; the others
// take samples.
var long = os.Getenv("AMBERFS_TEST_LONG") != ""

// TestEveryOperationOfTheDiskFails: the i-th operation fails, for i = 0, 1, 2…,
// below the whole store. The caller gets an error, no file has other bytes
// than before, and after the next opening all that was answered is there.
func TestEveryOperationOfTheDiskFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		t.Run(errno.Error(), func(t *testing.T) {
			for i := int64(0); ; i += 1 + i/fromEnvStep() {
				if !failOnce(t, i, errno) {
					t.Logf("%d operations", i)
					return
				}
			}
		})
	}
}

// fromEnvStep is how densely operations are chosen: 1/n of those before are
// passed over. EVERY=1 passes over none.
func fromEnvStep() int64 {
	switch {
	case os.Getenv("EVERY") != "":
		return 1 << 40
	case !long:
		return 1
	}
	return 12
}

// failOnce reports whether the operation was reached.
func failOnce(t *testing.T, i int64, errno syscall.Errno) bool {
	dir := filepath.Join(t.TempDir(), "store")
	mem := vfstest.NewMem()
	var ops atomic.Int64
	var calm atomic.Bool // while the test looks
	disk := stores.AskingDisk{FS: mem, Ask: func() error {
		if !calm.Load() && ops.Add(1) == i+1 {
			return errno
		}
		return nil
	}}
	look := func(s *snapshot.Store) string {
		calm.Store(true)
		defer calm.Store(false)
		return stores.Digest(t, s)
	}
	d := &stores.Diary{Look: look}
	var broken error
	if s, err := stores.OpenOn(dir, disk); err == nil {
		d.Note(look(s))
		x := &stores.Walker{T: t, R: rand.New(rand.NewPCG(5, 5)), S: s}
		broken = stores.RandomSteps(t, x, d, 30)
		if broken != nil {
			// Reading goes on, and nothing has changed by half: it is as before
			// the step or as after it.
			d.Note(look(s))
			if journalFailed(s) {
				if _, err := s.Forest().Create(s.Main().Root(), "more", live.NewNode{Mode: 0o100644}); err == nil {
					t.Errorf("operation %d: changes go on after the journal has failed", i)
				}
				if err := s.Sync(); err == nil {
					t.Errorf("operation %d: something was called durable after the journal has failed", i)
				}
			}
		}
		if err := s.Close(); err != nil && broken == nil {
			broken = err
		}
	} else {
		broken = err
	}
	if broken != nil && !errors.Is(broken, errno) && !strings.Contains(broken.Error(), errno.Error()) && !errors.Is(broken, errs.NoSpace) {
		t.Errorf("operation %d: %v, which hides %v", i, broken, errno)
	}
	s, err := stores.OpenOn(dir, mem)
	if err != nil {
		t.Fatalf("operation %d: opening after it: %v", i, err)
	}
	defer s.Close()
	if got := stores.Digest(t, s); len(d.Pages) > 0 {
		if k := slices.Index(d.Pages[max(0, len(d.Pages)-2):], got); k < 0 {
			t.Fatalf("operation %d: after the next opening something that was answered is missing, or there is more", i)
		}
	}
	return ops.Load() > i
}

func journalFailed(s *snapshot.Store) bool {
	return strings.Contains(s.Main().Status().Health, "journal")
}
