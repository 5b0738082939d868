package fusefs

import (
	"context"
	"encoding/binary"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/control"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A request may need an object that is not on this machine (live.Absent). It has
// changed nothing then, so it is put aside until the object is here, and answered from
// the beginning. Meanwhile nothing is locked, and its reader is not counted.
//
// The error of such a request is a status that no system call has, made of a number
// under which the error is kept.
type aside struct {
	mu      sync.Mutex
	next    int32
	absent  map[int32]*live.Absent
	waiting map[uint64]chan struct{} // requests, by number; closed by an INTERRUPT
}

// asideStatus is the first status of a request that is put aside.
const asideStatus = 1 << 20

const opcodeInterrupt = 36

// put keeps an error, and returns the status that stands for it.
func (a *aside) put(err *live.Absent) fuse.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.absent == nil {
		a.absent, a.waiting = make(map[int32]*live.Absent), make(map[uint64]chan struct{})
	}
	a.next = (a.next + 1) & (asideStatus - 1)
	a.absent[a.next] = err
	return fuse.Status(asideStatus + a.next)
}

// take returns the error that an answer stands for, nil for any other answer.
func (a *aside) take(answer []byte) *live.Absent {
	if len(answer) < outHeader {
		return nil
	}
	status := -int32(binary.NativeEndian.Uint32(answer[4:]))
	if status < asideStatus {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.absent[status-asideStatus]
	delete(a.absent, status-asideStatus)
	return err
}

// interrupt reports whether a message is the INTERRUPT of a request that was put aside,
// which then knows.
func (a *aside) interrupt(message []byte) bool {
	if len(message) < inHeader+8 || binary.NativeEndian.Uint32(message[4:]) != opcodeInterrupt {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := binary.NativeEndian.Uint64(message[inHeader:])
	ch := a.waiting[id]
	if ch == nil {
		return false
	}
	close(ch)
	delete(a.waiting, id) // it comes once
	return true
}

// fetch brings an object here that a request needs. It ends when the client is killed,
// or the workspace unmounted.
func (r *readers) fetch(request []byte, absent *live.Absent) (err error) {
	id := binary.NativeEndian.Uint64(request[8:])
	interrupted := make(chan struct{})
	r.aside.mu.Lock()
	r.aside.waiting[id] = interrupted
	r.aside.mu.Unlock()
	defer func() {
		r.aside.mu.Lock()
		defer r.aside.mu.Unlock()
		delete(r.aside.waiting, id)
	}()
	caller := live.Caller{PID: binary.NativeEndian.Uint32(request[inPid:])}
	ctx, stop := control.Request{Caller: caller, Cancel: interrupted}.Context()
	defer stop()
	done := make(chan error, 1)
	go func() { done <- absent.Fetch(ctx) }()
	r.Blocking(func() {
		select {
		case err = <-done:
		case <-ctx.Done():
			err = context.Canceled
		case <-r.ended:
			err = context.Canceled
		}
	})
	return err
}

// failure makes an answer of an error.
func failure(answer, request []byte, errno syscall.Errno) int {
	binary.NativeEndian.PutUint32(answer, outHeader)
	binary.NativeEndian.PutUint32(answer[4:], uint32(-int32(errno)))
	copy(answer[8:outHeader], request[8:16])
	return outHeader
}
