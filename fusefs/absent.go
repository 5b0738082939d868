package fusefs

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/fusefs/wire"
)

// parkingLot has the requests that wait for an object on a remote, or for memory (cas.DelayError), and
// the requests that were interrupted. A request that waits has changed nothing yet: it is parked
// until the object or the memory is available, and then handled again from the beginning.
//
// The handler of such a request returns a status of at least minDelayStatus, which is above all errnos.
// takeDelay returns the cas.DelayError of such a status.
type parkingLot struct {
	mu              sync.Mutex // guards the fields below
	lastDelayNumber int32      // the number of the newest delay in delays
	delays          map[int32]cas.DelayError
	// parked has a channel for each parked request, by the request's number. An INTERRUPT closes the
	// channel.
	parked map[uint64]chan struct{}
	// interrupted are the unanswered requests for which an INTERRUPT arrived, by number. The kernel sends one
	// INTERRUPT for a request, at the first signal to the client, so the entry stays until the request is
	// answered.
	interrupted      map[uint64]bool
	interruptedCount atomic.Int32 // len(interrupted)
}

func newParkingLot() *parkingLot {
	return &parkingLot{delays: make(map[int32]cas.DelayError), parked: make(map[uint64]chan struct{}), interrupted: make(map[uint64]bool)}
}

// minDelayStatus is the status of the delay with the number 0. It is larger than all errnos.
const minDelayStatus = 1 << 20

// addDelay stores a delay, and returns the status by which takeDelay finds it.
func (a *parkingLot) addDelay(err cas.DelayError) fuse.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastDelayNumber = (a.lastDelayNumber + 1) & (minDelayStatus - 1)
	a.delays[a.lastDelayNumber] = err
	return fuse.Status(minDelayStatus + a.lastDelayNumber)
}

// takeDelay returns the delay whose status is in the header of an answer, and removes the delay from a.delays.
// It returns nil if the status is the status of no delay.
func (a *parkingLot) takeDelay(answer []byte) cas.DelayError {
	if len(answer) < wire.OutHeaderSize {
		return nil
	}
	status := -int32(binary.NativeEndian.Uint32(answer[4:]))
	if status < minDelayStatus {
		return nil
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	err := a.delays[status-minDelayStatus]
	delete(a.delays, status-minDelayStatus)

	return err
}

// interruptTarget returns the number of the request that an INTERRUPT interrupts. ok is false for
// other messages.
func interruptTarget(message []byte) (id uint64, ok bool) {
	if len(message) < wire.InHeaderSize+8 || binary.NativeEndian.Uint32(message[4:]) != wire.OpInterrupt {
		return 0, false
	}
	return binary.NativeEndian.Uint64(message[wire.InHeaderSize:]), true
}

// recordInterrupt records an INTERRUPT for a request. It reports whether the request is parked.
func (a *parkingLot) recordInterrupt(id uint64) (parked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if !a.interrupted[id] {
		a.interrupted[id] = true
		a.interruptedCount.Add(1)
		if ch := a.parked[id]; ch != nil {
			close(ch)
		}
	}

	return a.parked[id] != nil
}

// removeInterrupt removes the INTERRUPT of a request that was answered.
func (a *parkingLot) removeInterrupt(id uint64) {
	if a.interruptedCount.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.interrupted[id] {
		delete(a.interrupted, id)
		a.interruptedCount.Add(-1)
	}
}

// addParked records that a request is parked, until the caller calls done. An INTERRUPT for the request
// closes the returned channel. If the INTERRUPT arrived before this call, the channel is closed already.
func (a *parkingLot) addParked(id uint64) (interrupted <-chan struct{}, done func()) {
	ch := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()

	a.parked[id] = ch
	if a.interrupted[id] {
		close(ch)
	}

	return ch, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.parked, id)
	}
}

// handleInterrupt handles an INTERRUPT for the request id. If the request is neither being handled nor parked, the
// answer to the INTERRUPT is an error, after which the kernel sends the INTERRUPT again.
func (r *readers) handleInterrupt(b *buffers, n int, id uint64) (size int, status fuse.Status) {
	if r.parking.recordInterrupt(id) {
		return 0, fuse.OK
	}
	size, status = r.ps.HandleRequest([][]byte{b.in[:n]}, [][]byte{b.out})
	if size > 0 {
		r.parking.removeInterrupt(id)
	}

	return size, status
}

// errorAnswer writes the answer to a failed request into answer, and returns its length.
func errorAnswer(answer, request []byte, errno syscall.Errno) int {
	n, _ := binary.Encode(answer, binary.NativeEndian, fuse.OutHeader{Length: wire.OutHeaderSize, Status: -int32(errno), Unique: wire.Unique(request)})
	return n
}
