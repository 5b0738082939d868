package fusefs

import (
	"bytes"
	"context"
	"encoding/binary"
	"log"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// slowFS answers GETATTR. The answer for node 2 waits.
type slowFS struct {
	fuse.RawFileSystem
	release chan struct{}
}

func (s *slowFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if in.NodeId == 2 {
		<-s.release
	}
	if in.NodeId == 3 {
		panic("three")
	}
	out.Ino = in.NodeId
	return fuse.OK
}

// A device stands for /dev/fuse: the kernel's end of a pair of sockets.
type device struct {
	t      *testing.T
	kernel int
}

func newDevice(t *testing.T) (d *device, fd int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must.OK(t, err)
	t.Cleanup(func() {
		unix.Close(pair[0])
		unix.Close(pair[1])
	})
	tv := unix.Timeval{Sec: 60}
	must.OK(t, unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv))
	return &device{t, pair[0]}, pair[1]
}

// send sends a request: struct fuse_in_header and the body.
func (d *device) send(op uint32, unique, node uint64, body ...uint32) {
	d.t.Helper()
	b := binary.NativeEndian.AppendUint32(nil, uint32(40+4*len(body)))
	b = binary.NativeEndian.AppendUint32(b, op)
	b = binary.NativeEndian.AppendUint64(b, unique)
	b = binary.NativeEndian.AppendUint64(b, node)
	b = append(b, make([]byte, 16)...)
	for _, v := range body {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	_, err := unix.Write(d.kernel, b)
	must.OK(d.t, err)
}

// receive returns the unique and the error of the next answer.
func (d *device) receive() (unique uint64, code int32) {
	d.t.Helper()
	b := make([]byte, 4096)
	n, err := unix.Read(d.kernel, b)
	if err != nil || n < 16 {
		d.t.Fatalf("no answer: %d bytes, %v", n, err)
	}
	return binary.NativeEndian.Uint64(b[8:]), int32(binary.NativeEndian.Uint32(b[4:]))
}

const (
	reqGetAttr = 3
	reqUnlink  = 10
	reqInit    = 26
)

func (d *device) init(flags uint32) { d.send(reqInit, 1, 0, 7, 40, 1<<17, flags, 0) }

func TestGreeting(t *testing.T) {
	d, fd := newDevice(t)
	r := newReaders(fd, fuse.NewProtocolServer(&slowFS{RawFileSystem: fuse.NewDefaultRawFileSystem()}, &fuse.MountOptions{}), slog.New(slog.DiscardHandler))
	d.init(0)
	if _, err := r.connect(nil); err == nil || !strings.Contains(err.Error(), "5.11") {
		t.Errorf("an old kernel: %v", err)
	}
	d.init(requiredFlags)
	c, err := r.connect(nil)
	if err != nil || c.Minor() != 40 {
		t.Errorf("%+v, %v", c, err)
	}
	if unique, code := d.receive(); unique != 1 || code != 0 {
		t.Errorf("answer to %d: %d", unique, code)
	}
}

// TestReaders: while the only reader waits, another reader is started. It ends when one reader is enough.
func TestReaders(t *testing.T) {
	d, fd := newDevice(t)
	fs := &slowFS{fuse.NewDefaultRawFileSystem(), make(chan struct{})}
	var panics bytes.Buffer
	opts := &fuse.MountOptions{Logger: log.New(&panics, "", 0)}
	r := newReaders(fd, fuse.NewProtocolServer(fs, opts), slog.New(slog.DiscardHandler))
	d.init(requiredFlags)
	_, err := r.connect(nil)
	must.OK(t, err)
	d.receive()
	done := make(chan struct{})
	go func() { r.run(); close(done) }()

	d.send(reqGetAttr, 2, 2, 0, 0, 0, 0)
	for i := uint64(3); i < 20; i++ {
		d.send(reqGetAttr, i, 1, 0, 0, 0, 0)
		if unique, code := d.receive(); unique != i || code != 0 {
			t.Fatalf("answer to %d: %d, want %d", unique, code, i)
		}
	}
	close(fs.release)
	if unique, code := d.receive(); unique != 2 || code != 0 {
		t.Errorf("answer to %d: %d", unique, code)
	}
	d.send(reqGetAttr, 20, 3, 0, 0, 0, 0)
	if unique, code := d.receive(); unique != 20 || code != -int32(unix.EIO) {
		t.Errorf("a panic: answer to %d: %d", unique, code)
	}
	if !strings.Contains(panics.String(), "three") {
		t.Errorf("the log says %q", panics.String())
	}
	i := uint64(100)
	await.True(t, "one reader is left", func() bool {
		i++
		d.send(reqGetAttr, i, 1, 0, 0, 0, 0)
		d.receive()
		return r.readerCount.Load() == 1
	})
	must.OK(t, unix.Shutdown(d.kernel, unix.SHUT_RDWR))
	<-done
}

// shortFS lacks what an UNLINK needs until over is closed.
type shortFS struct {
	slowFS
	parking *parkingLot
	over    chan struct{}
}

func (s *shortFS) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	select {
	case <-s.over:
		return s.slowFS.Unlink(cancel, h, name)
	default:
		return s.parking.addDelay(s)
	}
}

func (s *shortFS) Error() string { return "something is short" }

func (s *shortFS) Await(ctx context.Context) error {
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestParked: requests that are held back, or that wait for an object or memory, take no reader, and all of them are
// answered in the end.
func TestParked(t *testing.T) {
	for _, heldBack := range []bool{true, false} {
		d, fd := newDevice(t)
		fs := &shortFS{slowFS: slowFS{RawFileSystem: fuse.NewDefaultRawFileSystem()}, over: make(chan struct{})}
		r := newReaders(fd, fuse.NewProtocolServer(fs, &fuse.MountOptions{}), slog.New(slog.DiscardHandler))
		fs.parking = r.parking
		if heldBack {
			r.blocker = func(request []byte) <-chan struct{} {
				if wire.Opcode(request) != reqUnlink || closed(fs.over) {
					return nil
				}
				return fs.over
			}
		}
		d.init(requiredFlags)
		_, err := r.connect(nil)
		must.OK(t, err)
		d.receive()
		done := make(chan struct{})
		go func() { r.run(); close(done) }()

		const many = 2 * maxReaders
		for i := range uint64(many) {
			d.send(reqUnlink, 10+i, 1, 'x')
			d.send(reqGetAttr, 10_000+i, 1, 0, 0, 0, 0)
			if unique, code := d.receive(); unique != 10_000+i || code != 0 {
				t.Fatalf("answer to %d: %d, want %d", unique, code, 10_000+i)
			}
		}
		if n := r.readerCount.Load(); n > 4 {
			t.Errorf("%d readers while %d requests wait", n, many)
		}
		close(fs.over)
		answered := make(map[uint64]bool)
		for range many {
			unique, code := d.receive()
			if answered[unique] || code != -int32(unix.ENOSYS) {
				t.Errorf("answer to %d: %d", unique, code)
			}
			answered[unique] = true
		}
		if n := r.requestCounts[reqUnlink].Load(); n != many {
			t.Errorf("%d requests were counted, of %d", n, many)
		}
		must.OK(t, unix.Shutdown(d.kernel, unix.SHUT_RDWR))
		<-done
	}
}

// TestLastReaders: the last readers end while the watcher starts others.
func TestLastReaders(t *testing.T) {
	empty, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must.OK(t, err)
	defer unix.Close(empty)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				newReaders(empty, nil, slog.New(slog.NewTextHandler(slowLog{}, nil))).run()
			}
		})
	}
	all.Wait()
}

// A slowLog takes about as long as the watcher waits before it starts a reader.
type slowLog struct{}

func (slowLog) Write(b []byte) (int, error) {
	time.Sleep(2*stuckTime - 100*time.Microsecond + rand.N(200*time.Microsecond))
	return len(b), nil
}

func TestInPlace(t *testing.T) {
	r := readResult("hello")
	if n, st := r.Readv([][]byte{r}); n != 5 || st != fuse.OK {
		t.Errorf("onto itself: %d, %v", n, st)
	}
	a, b := make([]byte, 2), make([]byte, 9)
	if n, _ := r.Readv([][]byte{a, b}); n != 5 || string(a)+string(b[:3]) != "hello" {
		t.Errorf("in two parts: %d, %q %q", n, a, b)
	}
}

// TestPanicOfTheNotifier: after a panic in a notice, the caller that waits for the notice continues, and so does the
// notifier.
func TestPanicOfTheNotifier(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_WRONLY, 0)
	must.OK(t, err)
	n := &notifier{log: slog.New(slog.DiscardHandler), fd: fd}
	n.held = func(live.NodeID) bool { panic("a fault") }
	for range 2 {
		await.Receive(t, "a notice that will not come", n.enqueue(&n.treeQueue, func() { n.drop(live.Invalidation{Entries: make([]live.Entry, 1)}) }))
	}
	n.close()
}
