package fusefs

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// maxReaders bounds how many requests are answered at a time. What waits until changes go on
	// is parked instead, see park.
	maxReaders = 256
	// immediate is how long a read takes at most that found its request waiting.
	immediate = 3 * time.Microsecond
	// crowdedReads is how many such reads in a row call for one more reader.
	crowdedReads = 4
	// calmTime is how long there must be none before a second reader ends.
	calmTime = 20 * time.Millisecond
	// yieldTime is how often a reader yields to Go's scheduler. sysmon preempts a
	// goroutine that has not for 10 ms: it would take the processor from each read(2)
	// and look again every 20 µs, forever.
	yieldTime = 5 * time.Millisecond
	// yieldTimeCrowded is the same while requests of several clients wait. If the system call
	// of a reader takes long, Go's scheduler gives its place to another goroutine. The request
	// that it read then waits until that one yields. With one client at a time, a reader that
	// yields would only wait for the sealers.
	yieldTimeCrowded = 100 * time.Microsecond
	// stuckTime is how long all readers may be answering before one more is
	// started, whatever they wait for.
	stuckTime = time.Millisecond
	// idleTicks is how many times that without a request it takes for the watcher
	// to sleep.
	idleTicks = 1000
)

// readers read requests from the FUSE device and answer them.
//
// As a rule there is one. A request is answered by the goroutine that read it,
// on the thread that the kernel woke for it; a second thread that waits for
// requests would be woken in turn, on another CPU that may have to leave its
// idle state first, which costs more than the work. There are more readers
// while requests are found waiting (many clients), and while one waits for
// something itself: for a disk or a lock.
type readers struct {
	fd       int
	ps       *fuse.ProtocolServer
	log      *slog.Logger
	onAnswer func(Answered) // may be nil
	requests requests
	aside    *aside
	resends  *resends             // nil if there can be none
	answered func(request []byte) // may be nil; called when the kernel has the answer
	// heldBack returns what a request has to wait for, see park.
	heldBack func(request []byte) <-chan struct{}

	wg       sync.WaitGroup
	total    atomic.Int32  // readers
	idle     atomic.Int32  // of them, those in read(2)
	progress atomic.Uint64 // requests read and answers given
	crowded  atomic.Int64  // ns, when requests were last found waiting
	mixed    atomic.Int64  // ns, when such were last of more than one client
	ended    chan struct{} // closed when it is unmounted
	end      func()        // closes it

	parked atomic.Bool // the watcher sleeps
	wake   chan struct{}
}

func newReaders(fd int, ps *fuse.ProtocolServer, log *slog.Logger) *readers {
	r := &readers{fd: fd, ps: ps, log: log, heldBack: func([]byte) <-chan struct{} { return nil }, wake: make(chan struct{}, 1), ended: make(chan struct{}), aside: newAside()}
	r.end = sync.OnceFunc(func() { close(r.ended) })
	return r
}

// needed are the terms of INIT without which the way in which we answer would
// not work. The last of them came with Linux 5.11.
const needed = fuse.CAP_NO_OPEN_SUPPORT | fuse.CAP_NO_OPENDIR_SUPPORT | fuse.CAP_EXPLICIT_INVAL_DATA | fuse.CAP_HANDLE_KILLPRIV_V2

// Blocking runs what may take long for a request. Its reader is not counted meanwhile,
// so that no number of such requests keeps others from being answered.
func (r *readers) Blocking(fn func()) {
	r.total.Add(-1)
	defer r.total.Add(1)
	fn()
}

// run answers requests until the workspace is unmounted.
func (r *readers) run() {
	r.start()
	r.watch()   // until it is unmounted: then it starts no more readers
	r.wg.Wait() // for those that still answer
}

// start adds a reader, if there may be one more.
func (r *readers) start() {
	if r.total.Add(1) > maxReaders {
		r.total.Add(-1)
		return
	}

	// Counted as idle from now on, so that no other is started for the
	// same reason. The last reader may leave as soon as it sees that: by then
	// run must know of this one, or it takes the workspace for unmounted.
	r.wg.Add(1)
	r.idle.Add(1)
	go func() {
		defer r.wg.Done()
		defer r.total.Add(-1)

		b := spareBuffers.Get().(*buffers)
		defer spareBuffers.Put(b)

		(&reader{readers: r, buffers: b, yielded: time.Now()}).loop()
	}()
}

// A reader reads requests and answers them. Its fields are its own.
type reader struct {
	*readers
	*buffers
	poller  poller
	yielded time.Time
	waiting struct { // what it found waiting, in a row
		reads, clients int
	}
	client uint32 // the last one
}

// loop reads and answers until there are readers enough without this one.
func (r *reader) loop() {
	for {
		n, atOnce, err := r.next()
		if errors.Is(err, unix.ENOENT) { // the request was interrupted before we got it
			r.idle.Add(1)
			continue
		}

		if err != nil {
			if !errors.Is(err, unix.ENODEV) {
				r.log.Error("reading requests", "err", err)
			}

			r.end()
			return
		}

		r.noteCrowd(binary.NativeEndian.Uint32(r.in[inPid:]), atOnce)

		if r.parked.Load() {
			select {
			case r.wake <- struct{}{}:
			default: // another reader woke it
			}
		}

		if r.heldBack(r.in[:n]) != nil {
			r.park(r.in[:n], r.goesOn(r.in[:n]), r.answer)
		} else if err := r.answer(r.buffers, n); err != nil {
			r.log.Warn("the kernel refused an answer", "err", err)
		}

		r.progress.Add(1)
		if r.idle.Load() > 0 && !recently(&r.crowded) {
			return // the reader in read(2) is enough
		}
		r.idle.Add(1)
	}
}

// next reads a request of n bytes. It reports whether that was waiting already.
func (r *reader) next() (n int, atOnce bool, err error) {
	began := time.Now()
	if since := began.Sub(r.yielded); since > yieldTime || since > yieldTimeCrowded && recently(&r.mixed) {
		runtime.Gosched()
		r.yielded = began
	}

	atOnce = r.idle.Load() == 1 && r.poller.await(r.fd, began)
	n, err = r.resends.read(r.fd, r.in)
	atOnce = atOnce || time.Since(began) <= immediate
	r.progress.Add(1)
	r.idle.Add(-1)
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}

	return n, atOnce, err
}

// noteCrowd counts requests that were found waiting, and how often the client was
// another one; many of them in a row call for one more reader.
func (r *reader) noteCrowd(client uint32, atOnce bool) {
	w := &r.waiting
	last := r.client
	if client != 0 { // FORGET has no client
		r.client = client
	}

	if !atOnce {
		w.reads, w.clients = 0, 0
		return
	}

	if client != last && client != 0 {
		w.clients++
	}
	if w.reads++; w.reads < crowdedReads {
		return
	}

	r.crowded.Store(timeNow())
	if w.clients > 1 {
		r.mixed.Store(timeNow())
	}
	if r.idle.Load() == 0 && int(r.total.Load()) < runtime.NumCPU() {
		r.start()
	}

	w.reads, w.clients = 0, 0
}

// recently reports whether a time (ns) lies less than calmTime back.
func recently(t *atomic.Int64) bool { return timeNow()-t.Load() <= int64(calmTime) }

// answer handles the request in b.in[:n]. What the kernel no longer waits for
// (ENOENT) needs no answer.
func (r *readers) answer(b *buffers, n int) error {
	r.requests[opcode(b.in[:n])].Add(1)
	return r.answerSince(time.Now(), b, n)
}

// answerSince is answer for a request that began to be handled at a time.
func (r *readers) answerSince(began time.Time, b *buffers, n int) error {
	size, status := r.handle(b, n)
	if status == fuse.OK {
		if delay := r.aside.take(b.out[:size]); delay != nil {
			r.park(b.in[:n], delay.Await, func(b *buffers, n int) error { return r.answerSince(began, b, n) })
			return nil
		}
	}

	r.aside.answered(requestOf(b.in))

	var err error
	if status != fuse.OK {
		size, err = 0, syscall.Errno(status)
	} else if size > 0 { // FORGET and INTERRUPT have no answer
		err = r.reply(b, n, size)
	}

	if r.onAnswer != nil {
		r.onAnswer(answered(b.in[:n], size, time.Since(began)))
	}

	return err
}

// handle returns how many bytes the answer has, which is not sent.
func (r *readers) handle(b *buffers, n int) (size int, status fuse.Status) {
	if id, ok := interruptOf(b.in[:n]); ok {
		size, status = r.interrupt(b, n, id)
	} else if r.resends.begin(b.in[:n]) {
		size = failure(b.out, b.in[:n], unix.EIO)
	} else {
		beforeHandling(b.in[:n])
		size, status = r.ps.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
	}
	return size, status
}

// reply sends an answer of so many bytes.
func (r *readers) reply(b *buffers, n, size int) error {
	beforeAnswer(b.in[:n])
	err := send(r.fd, b.out[:size])
	if r.answered != nil {
		r.answered(b.in[:n])
	}
	return err
}

// watch starts one more reader whenever all of them are stuck in answering, until it is
// unmounted. It sleeps while there are no requests.
func (r *readers) watch() {
	tick := time.Tick(stuckTime) // it runs only while a goroutine waits for it
	var last uint64
	quiet := 0

	for {
		select {
		case <-r.ended:
			return
		case <-tick:
		}

		now := r.progress.Load()
		if now != last {
			last, quiet = now, 0
			continue
		}

		if r.idle.Load() == 0 {
			r.start()
			continue
		}

		if quiet++; quiet < idleTicks {
			continue
		}

		quiet = 0
		r.parked.Store(true)

		if r.progress.Load() == last { // else a reader saw no watcher to wake
			select {
			case <-r.ended:
				return
			case <-r.wake:
			}
		}

		r.parked.Store(false)
	}
}

// buffers are for one request and one answer.
type buffers struct{ in, out []byte }

// inNode is where struct fuse_in_header has the node.
const inNode = 16

// inPid is where struct fuse_in_header has the client's thread.
const inPid = 32

// slack is room for the headers beside the data of the largest request.
const slack = 8 << 10

// spareBuffers are those that no reader has at present: readers come and go while
// requests are large.
var spareBuffers = sync.Pool{New: func() any {
	b := &buffers{make([]byte, maxIO+slack), make([]byte, maxIO+slack)}
	// If the process is killed while read(2) makes a page of the buffer, the kernel ends the
	// request with EIO, and does not send it again.
	for at := 0; at < len(b.in); at += pageSize {
		b.in[at] = 1
	}
	return b
}}

const pageSize = 4096
