package fusefs

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

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

// park has a request wait, without a reader and with no more memory than it has bytes. Then it is
// handled. If the client is killed, it is not carried out.
func (r *readers) park(request []byte, wait <-chan struct{}) {
	b := &buffers{bytes.Clone(request), make([]byte, maxChanged)}
	interrupted, done := r.aside.wait(requestOf(b.in))
	caller := actors.Caller{PID: binary.NativeEndian.Uint32(b.in[inPid:])}
	ctx, stop := control.Request{Caller: caller, Cancel: interrupted}.Context()

	r.wg.Go(func() {
		for wait != nil && ctx.Err() == nil {
			select {
			case <-wait:
				wait = r.heldBack(b.in)
			case <-ctx.Done():
			case <-r.ended:
				stop()
			}
		}
		killed := ctx.Err() != nil
		stop()
		done()
		var err error
		if killed {
			r.aside.answered(requestOf(b.in))
			err = r.reply(b, len(b.in), failure(b.out, b.in, unix.EINTR))
		} else {
			err = r.answer(b, len(b.in))
		}
		if err != nil {
			r.log.Warn("the kernel refused an answer", "err", err)
		}
	})
}
