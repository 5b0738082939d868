package fusefs

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/cas"
)

// A request may need an object that is only on a remote, or memory (cas.Delay). Such a request has
// changed nothing yet. It is parked until that is there, and then handled again from the beginning.
//
// Its handler answers with a status above all errnos. With that status, take finds the error.
type aside struct {
	mu     sync.Mutex
	next   int32
	delays map[int32]cas.Delay
	// Of requests, by number: those that wait, with a channel that an
	// INTERRUPT closes, and those that an INTERRUPT came for. The kernel sends one for
	// the first signal that a client gets, so it counts until the request is answered.
	waiting     map[uint64]chan struct{}
	interrupted map[uint64]bool
	count       atomic.Int32 // of interrupted
}

func newAside() *aside {
	return &aside{delays: make(map[int32]cas.Delay), waiting: make(map[uint64]chan struct{}), interrupted: make(map[uint64]bool)}
}

// asideStatus is the first status of a request that is put aside.
const asideStatus = 1 << 20

const (
	opcodeForget      = 2
	opcodeInterrupt   = 36
	opcodeBatchForget = 42
)

// put keeps an error, and returns the status that stands for it.
func (a *aside) put(err cas.Delay) fuse.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = (a.next + 1) & (asideStatus - 1)
	a.delays[a.next] = err
	return fuse.Status(asideStatus + a.next)
}

// take returns the error that an answer stands for, nil for any other answer.
func (a *aside) take(answer []byte) cas.Delay {
	if len(answer) < outHeader {
		return nil
	}
	status := -int32(binary.NativeEndian.Uint32(answer[4:]))
	if status < asideStatus {
		return nil
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	err := a.delays[status-asideStatus]
	delete(a.delays, status-asideStatus)

	return err
}

// requestOf returns the number of a message's request.
func requestOf(message []byte) uint64 { return binary.NativeEndian.Uint64(message[8:]) }

// interruptOf returns the number of the request that an INTERRUPT is for.
func interruptOf(message []byte) (id uint64, ok bool) {
	if len(message) < inHeader+8 || binary.NativeEndian.Uint32(message[4:]) != opcodeInterrupt {
		return 0, false
	}
	return binary.NativeEndian.Uint64(message[inHeader:]), true
}

// interrupt notes that an INTERRUPT came for a request. It reports whether that waits.
func (a *aside) interrupt(id uint64) (waiting bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if !a.interrupted[id] {
		a.interrupted[id] = true
		a.count.Add(1)
		if ch := a.waiting[id]; ch != nil {
			close(ch)
		}
	}

	return a.waiting[id] != nil
}

// answered forgets a request.
func (a *aside) answered(id uint64) {
	if a.count.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.interrupted[id] {
		delete(a.interrupted, id)
		a.count.Add(-1)
	}
}

// wait returns a channel that is closed when there was an INTERRUPT for a request, until
// done is called.
func (a *aside) wait(id uint64) (interrupted <-chan struct{}, done func()) {
	ch := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()

	a.waiting[id] = ch
	if a.interrupted[id] {
		close(ch)
	}

	return ch, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, id)
	}
}

// interrupt handles an INTERRUPT for a request. Its answer is an error, for which the
// kernel sends it again, only while that request is neither handled nor waits.
func (r *readers) interrupt(b *buffers, n int, id uint64) (size int, status fuse.Status) {
	if r.aside.interrupt(id) {
		return 0, fuse.OK
	}
	size, status = r.ps.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
	if size > 0 {
		r.aside.answered(id)
	}

	return size, status
}

// failure makes an answer of an error.
func failure(answer, request []byte, errno syscall.Errno) int {
	n, _ := binary.Encode(answer, binary.NativeEndian, fuse.OutHeader{Length: outHeader, Status: -int32(errno), Unique: requestOf(request)})
	return n
}
