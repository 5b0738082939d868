package fusefs

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/snapshot/live"
)

// changeOps are the operations that change a view. They wait while a freeze or an edit holds back the
// changes of the view.
var changeOps = [len(wire.Operations)]bool{
	4: true, 6: true, 8: true, 9: true, 10: true, 11: true, 12: true, 13: true, wire.OpWrite: true,
	21: true, 24: true, 35: true, 43: true, 45: true, wire.OpCopyFileRange: true, 51: true,
}

// copyTargetOffset is the offset of the target's node id in struct fuse_copy_file_range_in.
const copyTargetOffset = wire.InHeaderSize + 16

// changeBlocker returns a channel that is closed when a request may be carried out; nil if it may be carried
// out now.
func changeBlocker(freezer live.Freezer, request []byte) <-chan struct{} {
	op, nodeOffset := wire.Opcode(request), wire.NodeOffset
	if op == wire.OpCopyFileRange {
		nodeOffset = copyTargetOffset
	}
	if !changeOps[op] || len(request) < nodeOffset+8 {
		return nil
	}

	id := live.NodeID(binary.NativeEndian.Uint64(request[nodeOffset:]))
	if control.IsNode(id) {
		return nil // a request of the control tree, which is never held back
	}

	return freezer.Blocker(id.View())
}

// maxChangeAnswerBytes is an upper bound of the length of an answer to a change.
const maxChangeAnswerBytes = 4096

// unblockWaiter returns a function that waits until a request that is held back may be carried out.
func (r *readers) unblockWaiter(request []byte) func(context.Context) error {
	request = bytes.Clone(request)
	return func(ctx context.Context) error {
		for wait := r.blocker(request); wait != nil; wait = r.blocker(request) {
			select {
			case <-wait:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
}

// park passes a request to another goroutine, which calls the function wait and then the function handle. A
// waiting request occupies no reader, and no more memory than its own bytes. If its client is killed or the
// workspace is unmounted, the request is not carried out, and fails with EINTR.
func (r *readers) park(request []byte, wait func(context.Context) error, handle func(b *buffers, n int) error) {
	b := &buffers{in: bytes.Clone(request)}
	interrupted, done := r.parking.addParked(wire.Unique(b.in))
	waiting := control.Request{Cancel: interrupted}
	waiting.Caller.PID = binary.NativeEndian.Uint32(b.in[wire.PIDOffset:])
	ctx, stop := waiting.Context()
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

		b.out = make([]byte, maxAnswerBytes(wire.Opcode(b.in)))
		if err != nil {
			r.parking.removeInterrupt(wire.Unique(b.in))
			err = r.reply(b, len(b.in), errorAnswer(b.out, b.in, errno(err)))
		} else {
			err = handle(b, len(b.in))
		}

		if err != nil {
			r.log.Warn("the kernel refused an answer", "err", err)
		}
	})
}

// maxAnswerBytes returns an upper bound of the length of an answer to an operation.
func maxAnswerBytes(op uint32) int {
	if changeOps[op] {
		return maxChangeAnswerBytes
	}
	return maxIO + headerRoom
}
