package posix_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

func flock(t *testing.T, dir string) {
	path := write(t, dir+"/f", "x")
	a, b := open(t, path, os.O_RDWR), open(t, path, os.O_RDWR)
	must.OK(t, unix.Flock(int(a.Fd()), unix.LOCK_EX))
	wantErr(t, unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	wantErr(t, unix.Flock(int(b.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	must.OK(t, unix.Flock(int(a.Fd()), unix.LOCK_SH))
	must.OK(t, unix.Flock(int(b.Fd()), unix.LOCK_SH|unix.LOCK_NB))
	must.OK(t, unix.Flock(int(b.Fd()), unix.LOCK_UN))
	must.OK(t, unix.Flock(int(a.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	// Closing releases them.
	must.OK(t, a.Close())
	must.OK(t, unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}

// Open file description locks: fcntl locks that two descriptors of one process
// can hold against each other.
func fcntlLocks(t *testing.T, dir string) {
	path := write(t, dir+"/f", "0123456789")
	a, b := open(t, path, os.O_RDWR), open(t, path, os.O_RDWR)
	set := func(f *os.File, typ int16, start, length int64) error {
		return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: typ, Start: start, Len: length})
	}
	must.OK(t, set(a, unix.F_WRLCK, 0, 5))
	wantErr(t, set(b, unix.F_WRLCK, 4, 1), unix.EAGAIN)
	wantErr(t, set(b, unix.F_RDLCK, 0, 0), unix.EAGAIN)
	must.OK(t, set(b, unix.F_WRLCK, 5, 5))
	must.OK(t, set(a, unix.F_UNLCK, 2, 3))
	must.OK(t, set(b, unix.F_WRLCK, 2, 3))
	held := unix.Flock_t{Type: unix.F_WRLCK, Start: 0, Len: 10}
	must.OK(t, unix.FcntlFlock(b.Fd(), unix.F_OFD_GETLK, &held))
	if held.Type != unix.F_WRLCK || held.Start != 0 || held.Len != 2 {
		t.Errorf("held: type %d, %d+%d", held.Type, held.Start, held.Len)
	}
	must.OK(t, a.Close())
	must.OK(t, set(b, unix.F_WRLCK, 0, 0))
}
