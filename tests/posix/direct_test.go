package posix_test

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/must"
)

// iocb is struct iocb of io_submit(2) on little-endian machines.
type iocb struct {
	_      [2]uint64 // data, key, rw_flags
	opcode uint16
	_      int16 // priority
	fd     uint32
	buf    uint64
	nbytes uint64
	_      [3]uint64 // offset, reserved, flags, resfd
}

// directAsync: what an asynchronous write with O_DIRECT wrote is what a read
// through the page cache finds from its completion on, also when others read,
// and so fill the cache, while it is under way.
func directAsync(t *testing.T, dir string) {
	const size, rounds = 512 << 10, 60
	path := dir + "/f"
	w, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o644)
	must.OK(t, err)
	defer w.Close()
	must.OK(t, w.Truncate(size))
	r := open(t, path, os.O_RDONLY)

	var ctx uintptr
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&ctx)), 0); errno != 0 {
		t.Fatal(errno)
	}
	defer unix.Syscall(unix.SYS_IO_DESTROY, ctx, 0, 0)
	buf, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must.OK(t, err)
	defer unix.Munmap(buf)

	var over atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			b := make([]byte, size)
			for !over.Load() {
				if _, err := r.ReadAt(b, 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	got := make([]byte, size)
	for k := range rounds {
		for i := range buf {
			buf[i] = byte(k)
		}
		cb := &iocb{opcode: 1, fd: uint32(w.Fd()), buf: uint64(uintptr(unsafe.Pointer(&buf[0]))), nbytes: size}
		list := [1]*iocb{cb}
		if _, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, ctx, 1, uintptr(unsafe.Pointer(&list))); errno != 0 {
			t.Fatal(errno)
		}
		var event [4]uint64 // struct io_event: data, obj, res, res2
		if _, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, ctx, 1, 1, uintptr(unsafe.Pointer(&event)), 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		runtime.KeepAlive(cb)
		if event[2] != size {
			t.Fatalf("round %d: wrote %d", k, int64(event[2]))
		}
		_, err = r.ReadAt(got, 0)
		must.OK(t, err)
		if !bytes.Equal(got, buf) {
			i := 0
			for got[i] == buf[i] {
				i++
			}
			t.Errorf("round %d: byte %d is %d after the write of %d was complete", k, i, got[i], k)
			break
		}
	}
	over.Store(true)
	wg.Wait()
}
