package fusefs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	// maxReaders bounds how many requests are answered at a time. It is only
	// reached when nearly all of them wait, as while changes are frozen.
	maxReaders = 256
	// atOnce is a read that found its request waiting already.
	atOnce = 3 * time.Microsecond
	// busyRow is how many such reads in a row call for one more reader.
	busyRow = 4
	// calm is how long there must be none before a reader more than one goes.
	calm = 20 * time.Millisecond
	// yieldEvery is how often a reader goes through Go's scheduler. Who does not
	// for 10 ms is taken for one that should give way: sysmon would take the
	// processor from each read(2) and look again every 20 µs, for ever.
	yieldEvery = 5 * time.Millisecond
	// yieldMany is the same while requests of several clients wait. A reader whose
	// system call took long has lost its place there, and waits, with a request in
	// its hands, until another one yields. With one client at a time, who yields
	// only waits for the sealers.
	yieldMany = 100 * time.Microsecond
	// stuck is how long all readers may be answering before one more is
	// started, whatever they wait for.
	stuck = time.Millisecond
	// asleep is after how many times that without a request nobody watches.
	asleep = 1000
)

// readers read requests from the FUSE device and answer them.
//
// As a rule there is one. A request is answered by the goroutine that read it,
// on the thread that the kernel woke for it; a second thread that waits for
// requests would be woken in turn, on another CPU that may have to leave its
// idle state first, which costs more than the work. There are more readers
// while requests are found waiting (many clients), and while one waits for
// something itself: for a disk, a lock, or the end of a freeze.
type readers struct {
	fd  int
	ps  *fuse.ProtocolServer
	log *slog.Logger
	// times, if any, are kept of all requests.
	times *timings

	wg       sync.WaitGroup
	total    atomic.Int32  // readers
	waiting  atomic.Int32  // of them, those in read(2)
	progress atomic.Uint64 // requests read and answers given
	crowded  atomic.Int64  // ns, when requests were last found waiting
	several  atomic.Int64  // ns, when such were last of more than one client
	gone     atomic.Bool   // unmounted

	parked atomic.Bool // the watcher sleeps
	wake   chan struct{}
}

func newReaders(fd int, ps *fuse.ProtocolServer, log *slog.Logger) *readers {
	return &readers{fd: fd, ps: ps, log: log, wake: make(chan struct{}, 1)}
}

// buffers hold one request and one answer. They are no part of the heap: they
// are large, and for the most part never touched.
type buffers struct{ in, out []byte }

// inPid is where struct fuse_in_header has the client's thread.
const inPid = 32

// slack is room for the headers beside the data of the largest request.
const slack = 8 << 10

func newBuffers() (buffers, error) {
	in, err := unix.Mmap(-1, 0, maxIO+slack, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return buffers{}, fmt.Errorf("buffer for requests: %w", err)
	}
	out, err := unix.Mmap(-1, 0, maxIO+slack, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		_ = unix.Munmap(in)
		return buffers{}, fmt.Errorf("buffer for answers: %w", err)
	}
	return buffers{in, out}, nil
}

func (b buffers) free() {
	_ = unix.Munmap(b.in)
	_ = unix.Munmap(b.out)
}

// needed are the terms of INIT without which the way in which we answer would
// not work. The last of them came with Linux 5.11.
const needed = fuse.CAP_NO_OPEN_SUPPORT | fuse.CAP_NO_OPENDIR_SUPPORT | fuse.CAP_EXPLICIT_INVAL_DATA | fuse.CAP_HANDLE_KILLPRIV_V2

// greet answers the first request, INIT, and returns the minor version of the
// protocol that the kernel speaks.
func (r *readers) greet() (minor uint32, err error) {
	b, err := newBuffers()
	if err != nil {
		return 0, err
	}
	defer b.free()
	n, err := read(r.fd, b.in)
	if err != nil {
		return 0, fmt.Errorf("read the kernel's greeting: %w", err)
	}
	const header, size = 40, 16 // struct fuse_in_header, the first fields of struct fuse_init_in
	if n < header+size {
		return 0, errors.New("the kernel's greeting is too short")
	}
	minor = binary.NativeEndian.Uint32(b.in[header+4:])
	if flags := binary.NativeEndian.Uint32(b.in[header+12:]); flags&needed != needed {
		return 0, fmt.Errorf("the kernel's FUSE (7.%d) is too old; amberfs needs Linux 5.11 or newer", minor)
	}
	if err := r.answer(b, n); err != nil {
		return 0, fmt.Errorf("answer the kernel's greeting: %w", err)
	}
	return minor, nil
}

// run answers requests until the workspace is unmounted.
func (r *readers) run() {
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		r.watch(done)
		close(watched)
	}()
	r.start()
	r.wg.Wait()
	close(done)
	<-watched
}

// start adds a reader, if there may be one more.
func (r *readers) start() {
	if r.total.Add(1) > maxReaders {
		r.total.Add(-1)
		return
	}
	b, err := newBuffers()
	if err != nil {
		r.total.Add(-1)
		r.log.Error("one reader less", "err", err)
		return
	}
	// Counted as waiting from now on, so that nobody starts another for the
	// same reason. The last reader may leave as soon as it sees that: by then
	// run must know of this one, or it takes the workspace for unmounted.
	r.wg.Add(1)
	r.waiting.Add(1)
	go func() {
		defer r.wg.Done()
		defer r.total.Add(-1)
		defer b.free()
		r.loop(b)
	}()
}

// loop reads and answers until there are readers enough without it.
func (r *readers) loop(b buffers) {
	row, others := 0, 0
	var last uint32
	yielded := time.Now()
	var e eager
	for {
		began := time.Now()
		if since := began.Sub(yielded); since > yieldEvery || since > yieldMany && timeNow()-r.several.Load() < int64(calm) {
			runtime.Gosched()
			yielded = began
		}
		already := r.waiting.Load() == 1 && e.await(r.fd, began)
		n, err := read(r.fd, b.in)
		waited := time.Since(began)
		r.progress.Add(1)
		left := r.waiting.Add(-1)
		if errors.Is(err, unix.ENOENT) { // the request was interrupted before we got it
			r.waiting.Add(1)
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			if !errors.Is(err, unix.ENODEV) {
				r.log.Error("reading requests", "err", err)
			}
			r.gone.Store(true)
			return
		}
		client := binary.NativeEndian.Uint32(b.in[inPid:])
		if !already && waited > atOnce {
			row, others = 0, 0
		} else {
			if client != last && client != 0 { // FORGET is nobody's
				others++
			}
			if row++; row >= busyRow {
				r.crowded.Store(timeNow())
				if others > 1 {
					r.several.Store(timeNow())
				}
				if left == 0 && int(r.total.Load()) < runtime.NumCPU() {
					r.start()
				}
				row, others = 0, 0
			}
		}
		if client != 0 {
			last = client
		}
		if r.parked.Load() && r.parked.CompareAndSwap(true, false) {
			r.wake <- struct{}{}
		}
		if err := r.answer(b, n); err != nil {
			r.log.Warn("the kernel refused an answer", "err", err)
		}
		r.progress.Add(1)
		if r.waiting.Load() > 0 && timeNow()-r.crowded.Load() > int64(calm) {
			return // whoever waits in read(2) now is enough
		}
		r.waiting.Add(1)
	}
}

// answer handles the request in b.in[:n]. What the kernel no longer waits for
// (ENOENT) needs no answer.
func (r *readers) answer(b buffers, n int) error {
	if r.times != nil {
		began := time.Now()
		size, err := r.handle(b, n)
		r.times.add(b.in[:n], size, time.Since(began))
		return err
	}
	_, err := r.handle(b, n)
	return err
}

// handle returns how many bytes it answered with.
func (r *readers) handle(b buffers, n int) (size int, err error) {
	size, status := r.ps.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
	if status != fuse.OK {
		return 0, syscall.Errno(status)
	}
	if size == 0 {
		return 0, nil // FORGET and INTERRUPT have no answer
	}
	err = send(r.fd, b.out[:size])
	if errors.Is(err, unix.ENODEV) {
		return size, nil
	}
	return size, err
}

// watch starts one more reader whenever all of them are stuck in answering,
// until done is closed. It sleeps while there are no requests.
func (r *readers) watch(done <-chan struct{}) {
	tick := time.NewTicker(stuck)
	defer tick.Stop()
	var last uint64
	quiet := 0
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		now := r.progress.Load()
		if now != last {
			last, quiet = now, 0
			continue
		}
		if r.waiting.Load() == 0 && !r.gone.Load() {
			r.start()
			continue
		}
		if quiet++; quiet < asleep {
			continue
		}
		quiet = 0
		tick.Stop()
		r.parked.Store(true)
		if r.progress.Load() != last && r.parked.CompareAndSwap(true, false) {
			// A request came in between, and its reader saw nobody to wake.
			tick.Reset(stuck)
			continue
		}
		select {
		case <-done:
			return
		case <-r.wake:
		}
		tick.Reset(stuck)
	}
}
