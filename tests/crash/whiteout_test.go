package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestWhiteoutsSurviveKills: a rename with RENAME_WHITEOUT that kill -9 hits has left
// either the file or the whiteout at the old name, never neither and never both a whiteout
// and no file at the new name.
func TestWhiteoutsSurviveKills(t *testing.T) {
	rounds := harness.Count(t, "ROUNDS", 4, 300)
	m := harness.New(t)
	for round := range rounds {
		old, moved := fmt.Sprintf("old%d", round), fmt.Sprintf("new%d", round)
		for _, dir := range []string{old, moved} {
			must.OK(t, os.Mkdir(m.Path(dir), 0o755))
		}
		const most = 20_000
		var created, renamed atomic.Int64
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := range most {
				name := fmt.Sprint(i)
				from, to := m.Path(old, name), m.Path(moved, name)
				if os.WriteFile(from, nil, 0o600) != nil {
					return
				}
				created.Add(1)
				if unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_WHITEOUT) != nil {
					return
				}
				renamed.Add(1)
			}
		}()
		time.Sleep(time.Duration(20+rand.IntN(300)) * time.Millisecond)
		m.Kill()
		<-ended
		m.Start()
		inos := make(map[uint64]string)
		for i := range int(created.Load()) {
			var a, b unix.Stat_t
			name := fmt.Sprint(i)
			errOld, errNew := unix.Lstat(m.Path(old, name), &a), unix.Lstat(m.Path(moved, name), &b)
			whiteout := errOld == nil && a.Mode == unix.S_IFCHR && a.Rdev == 0
			file := errOld == nil && a.Mode&unix.S_IFMT == unix.S_IFREG
			switch {
			case whiteout && errNew == nil && b.Mode&unix.S_IFMT == unix.S_IFREG:
			case file && errNew == unix.ENOENT && i >= int(renamed.Load()):
			default:
				t.Fatalf("round %d: file %d of %d, %d renamed: old %o, %v; new %o, %v", round, i, created.Load(), renamed.Load(), a.Mode, errOld, b.Mode, errNew)
			}
			for _, ino := range []uint64{a.Ino, b.Ino} {
				if other, ok := inos[ino]; ok && ino != 0 {
					t.Fatalf("round %d: file %d has the inode of %s", round, i, other)
				}
				inos[ino] = name
			}
		}
	}
}
