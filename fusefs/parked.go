package fusefs

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// changeOps are the operations that change a view. They wait while a freeze or an edit holds back the
// changes of the view.
var changeOps = [len(wire.Operations)]bool{
	4: true, 6: true, 8: true, 9: true, 10: true, 11: true, 12: true, 13: true, wire.OpWrite: true,
	21: true, 24: true, 35: true, 43: true, 45: true, wire.OpCopyFileRange: true, 51: true,
}

// copyTo is the offset of the target's node id in struct fuse_copy_file_range_in.
const copyTo = wire.InHeader + 16

// heldBack returns a channel that is closed when a request may be carried out; nil if it may be carried
// out now.
func heldBack(freezer live.Freezer, request []byte) <-chan struct{} {
	op, at := wire.Opcode(request), wire.NodeAt
	if op == wire.OpCopyFileRange {
		at = copyTo
	}
	if !changeOps[op] || len(request) < at+8 {
		return nil
	}

	id := live.NodeID(binary.NativeEndian.Uint64(request[at:]))
	if control.IsNode(id) {
		return nil // a request of the control tree, which is never held back
	}

	return freezer.Blocker(id.View())
}

// maxChangeAnswer is an upper bound of the length of an answer to a change, in bytes.
const maxChangeAnswer = 4096

// waitHeldBack returns a function that waits until a request that is held back may be carried out.
func (r *readers) waitHeldBack(request []byte) func(context.Context) error {
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

// park calls wait for a request on another goroutine, and afterwards calls then, which handles the request. A
// waiting request occupies no reader, and no more memory than its own bytes. If its client is killed or the
// workspace is unmounted, the request is not carried out, and fails with EINTR.
func (r *readers) park(request []byte, wait func(context.Context) error, then func(b *buffers, n int) error) {
	b := &buffers{in: bytes.Clone(request)}
	interrupted, done := r.parking.addWaiting(wire.Unique(b.in))
	caller := actors.Caller{PID: binary.NativeEndian.Uint32(b.in[wire.PIDAt:])}
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

		b.out = make([]byte, answerBytes(wire.Opcode(b.in)))
		if err != nil {
			r.parking.removeInterrupt(wire.Unique(b.in))
			err = r.reply(b, len(b.in), errorAnswer(b.out, b.in, errno(err)))
		} else {
			err = then(b, len(b.in))
		}

		if err != nil {
			r.log.Warn("the kernel refused an answer", "err", err)
		}
	})
}

// answerBytes is an upper bound of the length of an answer to an operation, in bytes.
func answerBytes(op uint32) int {
	if changeOps[op] {
		return maxChangeAnswer
	}
	return maxIO + slack
}
