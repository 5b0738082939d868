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

	"github.com/amberfs/amberfs/fusefs/takeover"
	"github.com/amberfs/amberfs/fusefs/wire"
)

const (
	// maxReaders bounds how many requests are answered at a time. Requests that are held back are parked and
	// occupy no reader, see park.
	maxReaders = 256
	// maxImmediateRead is the longest duration of a read(2) whose request was already waiting.
	maxImmediateRead = 3 * time.Microsecond
	// crowdedReadCount is the number of requests in a row that must have been waiting already when they were
	// read. Then the reads are called crowded, and one more reader is started.
	crowdedReadCount = 4
	// calmTime is the time without crowded reads after which a second reader ends.
	calmTime = 20 * time.Millisecond
	// yieldTime is the time between two calls by which a reader yields to Go's scheduler. The runtime's
	// monitor, sysmon, preempts a goroutine that has not yielded for 10 ms. If a reader never yielded, sysmon
	// would take its processor away in each read(2), and would itself wake every 20 µs.
	yieldTime = 5 * time.Millisecond
	// yieldTimeCrowded replaces yieldTime while requests of several clients wait. If the read(2) of another
	// reader takes long, Go's scheduler gives that reader's processor to another goroutine. The request that
	// was read then waits until a goroutine yields. With one client at a time no request waits for that reason,
	// and a reader that yields would only wait for the goroutines that seal snapshots.
	yieldTimeCrowded = 100 * time.Microsecond
	// stuckTime is how long all readers may be busy with one request each before another reader is started.
	stuckTime = time.Millisecond
	// maxIdleTicks is how many ticks of stuckTime without a request pass before the watcher sleeps.
	maxIdleTicks = 1000
)

// readers read requests from the FUSE device and answer them.
//
// As a rule there is one reader. A request is answered by the goroutine that read it,
// on the thread that the kernel woke for the request. If two threads waited for
// requests, the kernel would wake them in turn, on different CPUs that may have to leave their
// idle state first, which costs more than the work. There are more readers
// while reads find their requests waiting (many clients), and while a reader waits
// for a disk or a lock.
type readers struct {
	fd            int
	ps            *fuse.ProtocolServer
	log           *slog.Logger
	onAnswer      func(AnsweredRequest) // may be nil
	requestCounts requestCounts
	parking       *parkingLot
	resends       *takeover.Resends    // nil without a takeover
	afterAnswer   func(request []byte) // called with a request after its answer was sent; may be nil
	// blocker returns a channel that is closed when a request may be carried out; nil if it may be carried
	// out now.
	blocker func(request []byte) <-chan struct{}

	wg          sync.WaitGroup
	readerCount atomic.Int32  // readers
	idleCount   atomic.Int32  // readers in read(2)
	progress    atomic.Uint64 // the number of requests read, plus the number of answers given
	crowdedAt   atomic.Int64  // when reads were last crowded (ns since 1970), see crowdedReadCount
	mixedAt     atomic.Int64  // when crowded reads last had requests of more than one client (ns since 1970)
	ended       chan struct{} // closed when the workspace is unmounted
	end         func()        // closes ended

	watcherSleeps atomic.Bool
	wake          chan struct{} // wakes the watcher
}

func newReaders(fd int, ps *fuse.ProtocolServer, log *slog.Logger) *readers {
	r := &readers{fd: fd, ps: ps, log: log, blocker: func([]byte) <-chan struct{} { return nil }, wake: make(chan struct{}, 1), ended: make(chan struct{}), parking: newParkingLot()}
	r.end = sync.OnceFunc(func() { close(r.ended) })
	return r
}

// requiredFlags are the capabilities that the kernel must offer in INIT: filesystem relies on them. Linux
// 5.11 has all of them.
const requiredFlags = fuse.CAP_NO_OPEN_SUPPORT | fuse.CAP_NO_OPENDIR_SUPPORT | fuse.CAP_EXPLICIT_INVAL_DATA | fuse.CAP_HANDLE_KILLPRIV_V2

// CallBlocking calls fn, which may take long, for a request. During the call the reader is not counted,
// so that other requests are answered however many such calls there are.
func (r *readers) CallBlocking(fn func()) {
	r.readerCount.Add(-1)
	defer r.readerCount.Add(1)
	fn()
}

// run answers requests until the workspace is unmounted.
func (r *readers) run() {
	r.addReader()
	r.watch()   // returns after the unmount; from then on no reader is started
	r.wg.Wait() // for the readers that still answer
}

// addReader adds a reader, if there may be one more.
func (r *readers) addReader() {
	if r.readerCount.Add(1) > maxReaders {
		r.readerCount.Add(-1)
		return
	}

	// The new reader counts as idle from now on, so that no second one is started for the same reason. As soon
	// as idleCount is increased, the last other reader may end. So the new reader must be added to wg before,
	// otherwise wg would reach zero, and run would return.
	r.wg.Add(1)
	r.idleCount.Add(1)
	go func() {
		defer r.wg.Done()
		defer r.readerCount.Add(-1)

		b := spareBuffers.Get().(*buffers)
		defer spareBuffers.Put(b)

		(&reader{readers: r, buffers: b, yieldedAt: time.Now()}).loop()
	}()
}

// A reader reads requests and answers them. Only its goroutine uses its own fields.
type reader struct {
	*readers
	*buffers
	poller    poller
	yieldedAt time.Time // when the reader last yielded to the scheduler
	waiting   struct {
		reads         int // requests in a row that were already waiting when they were read
		clientChanges int // how many of these came from another client than the request before
	}
	lastClient uint32 // the id of the client thread of the last request
}

// loop reads and answers requests. It returns when another reader waits for requests and reads are not crowded,
// or when the workspace is unmounted.
func (r *reader) loop() {
	for {
		n, wasWaiting, err := r.next()
		if errors.Is(err, unix.ENOENT) { // the request was interrupted before it was read
			r.idleCount.Add(1)
			continue
		}

		if err != nil {
			if !errors.Is(err, unix.ENODEV) {
				r.log.Error("reading requests", "err", err)
			}

			r.end()
			return
		}

		r.adaptReaders(binary.NativeEndian.Uint32(r.in[wire.PIDOffset:]), wasWaiting)

		if r.watcherSleeps.Load() {
			select {
			case r.wake <- struct{}{}:
			default: // the watcher is awake already
			}
		}

		if r.blocker(r.in[:n]) != nil {
			r.park(r.in[:n], r.unblockWaiter(r.in[:n]), r.answer)
		} else if err := r.answer(r.buffers, n); err != nil {
			r.log.Warn("the kernel refused an answer", "err", err)
		}

		r.progress.Add(1)
		if r.idleCount.Load() > 0 && !isRecent(&r.crowdedAt) {
			return // another reader is in read(2), and one is enough
		}
		r.idleCount.Add(1)
	}
}

// next reads a request of n bytes. wasWaiting reports whether the request was already waiting.
func (r *reader) next() (n int, wasWaiting bool, err error) {
	began := time.Now()
	if since := began.Sub(r.yieldedAt); since > yieldTime || since > yieldTimeCrowded && isRecent(&r.mixedAt) {
		runtime.Gosched()
		r.yieldedAt = began
	}

	wasWaiting = r.idleCount.Load() == 1 && r.poller.await(r.fd, began)
	n, err = r.resends.Read(r.fd, r.in)
	wasWaiting = wasWaiting || time.Since(began) <= maxImmediateRead
	r.progress.Add(1)
	r.idleCount.Add(-1)
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}

	return n, wasWaiting, err
}

// adaptReaders counts the requests in a row that were already waiting (wasWaiting), and how many of these
// came from another client than the request before. After crowdedReadCount of them it starts one more reader.
func (r *reader) adaptReaders(client uint32, wasWaiting bool) {
	w := &r.waiting
	last := r.lastClient
	if client != 0 { // FORGET has no client
		r.lastClient = client
	}

	if !wasWaiting {
		w.reads, w.clientChanges = 0, 0
		return
	}

	if client != last && client != 0 {
		w.clientChanges++
	}
	if w.reads++; w.reads < crowdedReadCount {
		return
	}

	r.crowdedAt.Store(timeNow())
	if w.clientChanges > 1 {
		r.mixedAt.Store(timeNow())
	}
	if r.idleCount.Load() == 0 && int(r.readerCount.Load()) < runtime.NumCPU() {
		r.addReader()
	}

	w.reads, w.clientChanges = 0, 0
}

// isRecent reports whether a time (ns since 1970) is at most calmTime ago.
func isRecent(t *atomic.Int64) bool { return timeNow()-t.Load() <= int64(calmTime) }

// answer counts and handles the request in b.in[:n], and sends the answer.
func (r *readers) answer(b *buffers, n int) error {
	r.requestCounts[wire.Opcode(b.in[:n])].Add(1)
	return r.answerSince(time.Now(), b, n)
}

// answerSince handles a request and sends the answer. A request that has been parked is handled again; began
// is the time at which it was handled first.
func (r *readers) answerSince(began time.Time, b *buffers, n int) error {
	size, status := r.handle(b, n)
	if status == fuse.OK {
		if delay := r.parking.takeDelay(b.out[:size]); delay != nil {
			r.park(b.in[:n], delay.Await, func(b *buffers, n int) error { return r.answerSince(began, b, n) })
			return nil
		}
	}

	r.parking.removeInterrupt(wire.Unique(b.in))

	var err error
	if status != fuse.OK {
		size, err = 0, syscall.Errno(status)
	} else if size > 0 { // FORGET and INTERRUPT have no answer
		err = r.reply(b, n, size)
	}

	if r.onAnswer != nil {
		r.onAnswer(describeAnswer(b.in[:n], size, time.Since(began)))
	}

	return err
}

// handle carries out a request. It writes the answer to b.out and returns its length.
func (r *readers) handle(b *buffers, n int) (size int, status fuse.Status) {
	if id, ok := interruptTarget(b.in[:n]); ok {
		return r.handleInterrupt(b, n, id)
	}
	if r.resends.BeginRequest(b.in[:n]) {
		return errorAnswer(b.out, b.in[:n], unix.EIO), fuse.OK
	}

	beforeHandling(b.in[:n])
	return r.ps.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
}

// reply sends the answer b.out[:size] to the request b.in[:n].
func (r *readers) reply(b *buffers, n, size int) error {
	beforeAnswer(b.in[:n])
	err := wire.Send(r.fd, b.out[:size])
	if r.afterAnswer != nil {
		r.afterAnswer(b.in[:n])
	}
	return err
}

// watch is the watcher: until the unmount it starts one more reader whenever all readers have been
// answering for stuckTime. It sleeps while there are no requests.
func (r *readers) watch() {
	tick := time.Tick(stuckTime) // the runtime's timer runs only while a goroutine waits for tick
	var last uint64
	quietTicks := 0

	for {
		select {
		case <-r.ended:
			return
		case <-tick:
		}

		now := r.progress.Load()
		if now != last {
			last, quietTicks = now, 0
			continue
		}

		if r.idleCount.Load() == 0 {
			r.addReader()
			continue
		}

		if quietTicks++; quietTicks < maxIdleTicks {
			continue
		}

		quietTicks = 0
		r.watcherSleeps.Store(true)

		// Sleep only if no reader has made progress: a reader that has may not have seen that watcherSleeps is
		// set, and would not wake the watcher.
		if r.progress.Load() == last {
			select {
			case <-r.ended:
				return
			case <-r.wake:
			}
		}

		r.watcherSleeps.Store(false)
	}
}

// buffers are the memory for one request (in) and its answer (out).
type buffers struct{ in, out []byte }

// headerRoom is the size of the part of a buffer for headers, in bytes. A buffer also has maxIO bytes for data.
const headerRoom = 8 << 10

// spareBuffers are the buffers of readers that have ended, for the next readers.
var spareBuffers = sync.Pool{New: func() any {
	b := &buffers{make([]byte, maxIO+headerRoom), make([]byte, maxIO+headerRoom)}
	// Touch each page now. If the process is killed while read(2) allocates a page of the buffer, the kernel
	// ends the request with EIO, and does not send it again.
	for i := 0; i < len(b.in); i += pageSize {
		b.in[i] = 1
	}
	return b
}}

const pageSize = 4096
