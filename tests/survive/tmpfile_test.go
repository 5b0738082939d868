package survive_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestUnansweredFileWithoutName: a file without a name whose daemon is killed before it answers is the
// one that was made, and the program can write to it.
func TestUnansweredFileWithoutName(t *testing.T) {
	p := newPointed(t)
	for range harness.Count(t, "ROUNDS", 10, 200) {
		must.OK(t, os.WriteFile(p.Path("f"), nil, 0o644))
		var before, made unix.Stat_t
		must.OK(t, unix.Stat(p.Path("f"), &before))
		must.OK(t, os.Remove(p.Path("f")))

		p.arm(t, "answer", "")
		fd, err := unix.Open(p.Dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o640)
		must.OK(t, err)
		_, err = unix.Write(fd, []byte("no name"))
		must.OK(t, errors.Join(err, unix.Fstat(fd, &made), unix.Close(fd)))

		// The kernel tries again if it does not find what an answer describes.
		if made.Ino != before.Ino+1 {
			t.Errorf("the file after inode %d is %d", before.Ino, made.Ino)
		}
	}
}
