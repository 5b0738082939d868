package fusefs

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// changes are the operations that change a view, and so wait while its changes are held back: by
// a freeze, or by an edit.
var changes = [len(operations)]bool{
	4: true, 6: true, 8: true, 9: true, 10: true, 11: true, 12: true, 13: true, opcodeWrite: true,
	21: true, 24: true, 35: true, 43: true, 45: true, opcodeCopy: true, 51: true,
}

const (
	opcodeCopy = 47
	copyTo     = inHeader + 16 // where struct fuse_copy_file_range_in has the node that is written to
)

// heldBack returns what is closed when a request may be carried out, nil if that is now.
func (fs *filesystem) heldBack(request []byte) <-chan struct{} {
	op, at := opcode(request), inNode
	if op == opcodeCopy {
		at = copyTo
	}
	if !changes[op] || len(request) < at+8 {
		return nil
	}

	id := live.NodeID(binary.NativeEndian.Uint64(request[at:]))
	if control.IsNode(id) {
		return nil // a command
	}

	return fs.forest.HeldBack(id.View())
}

// maxChanged is more than the answer to a change takes, in bytes.
const maxChanged = 4096

// goesOn returns a function that waits until a request that is held back may be carried out.
func (r *readers) goesOn(request []byte) func(context.Context) error {
	request = bytes.Clone(request)
	return func(ctx context.Context) error {
		for wait := r.heldBack(request); wait != nil; wait = r.heldBack(request) {
			select {
			case <-wait:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
}

// park has a request wait, without a reader and with no more memory than it has bytes. Then it is
// handled by then. If the client is killed or the workspace unmounted, it is not carried out.
func (r *readers) park(request []byte, wait func(context.Context) error, then func(b *buffers, n int) error) {
	b := &buffers{in: bytes.Clone(request)}
	interrupted, done := r.aside.wait(requestOf(b.in))
	caller := actors.Caller{PID: binary.NativeEndian.Uint32(b.in[inPid:])}
	ctx, stop := control.Request{Caller: caller, Cancel: interrupted}.Context()
	result := make(chan error, 1)
	go func() { result <- wait(ctx) }()

	r.wg.Go(func() {
		var err error
		select {
		case err = <-result:
		case <-ctx.Done():
			err = context.Canceled
		case <-r.ended:
			err = context.Canceled
		}

		stop()
		done()

		b.out = make([]byte, answerBytes(opcode(b.in)))
		if err != nil {
			r.aside.answered(requestOf(b.in))
			err = r.reply(b, len(b.in), failure(b.out, b.in, errno(err)))
		} else {
			err = then(b, len(b.in))
		}

		if err != nil {
			r.log.Warn("the kernel refused an answer", "err", err)
		}
	})
}

// answerBytes is at least what the answer to an operation takes.
func answerBytes(op uint32) int {
	if changes[op] {
		return maxChanged
	}
	return maxIO + slack
}
