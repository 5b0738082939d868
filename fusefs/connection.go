package fusefs

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/takeover"
	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/snapshot/live"
)

// TakeOver is Mount for a mount whose daemon has ended: fd is the device, and c has the terms (INIT and its
// answer) upon which that daemon and the kernel agreed. The kernel sends the unanswered requests again.
func TakeOver(o Options, fd int, c takeover.Connection) (*Server, error) {
	s, err := newServer(o, fd, &c)
	if err != nil {
		return nil, fmt.Errorf("take the mount %s over: %w", o.Mountpoint, err)
	}
	return s, nil
}

// Connection returns the descriptor of the device, which stays open until Serve returns, and the terms.
func (s *Server) Connection() (fd int, c takeover.Connection) { return s.readers.fd, *s.connection }

// CanResend reports whether the kernel can send requests again (Linux 6.9). If it cannot, a
// connection must not be taken over: clients would wait for answers for ever.
func (s *Server) CanResend() bool { return s.connection.Offers(fuse.CAP_HAS_RESEND) }

// AnswerInit returns the answer that a mount with the options o would give to INIT.
func AnswerInit(o Options, init []byte) ([]byte, error) {
	return answerInit(fuse.NewProtocolServer(fuse.NewDefaultRawFileSystem(), o.serverOptions()), init)
}

func answerInit(ps *fuse.ProtocolServer, init []byte) ([]byte, error) {
	if len(init) < takeover.MinInitBytes {
		return nil, fmt.Errorf("INIT of %d bytes is too short", len(init))
	}
	out := make([]byte, pageSize)
	n, status := ps.HandleRequest([][]byte{init}, [][]byte{out})
	if status != fuse.OK {
		return nil, fmt.Errorf("answer the kernel's INIT: %w", unix.Errno(status))
	}

	return out[:n], nil
}

// connect reads and answers INIT. In a takeover, previous has the INIT and the answer of the first daemon. Then
// connect passes this INIT to go-fuse and sends nothing to the kernel. It fails if the answer of go-fuse
// differs from the first daemon's answer.
func (r *readers) connect(previous *takeover.Connection) (*takeover.Connection, error) {
	c := &takeover.Connection{}

	if previous != nil {
		c.Init = previous.Init
	} else {
		in := make([]byte, maxIO+headerRoom)
		n, err := wire.Read(r.fd, in)
		if err != nil {
			return nil, fmt.Errorf("read the kernel's INIT: %w", err)
		}
		c.Init = bytes.Clone(in[:n])
	}

	var err error
	if c.Answer, err = answerInit(r.ps, c.Init); err != nil {
		return nil, err
	}

	if previous != nil {
		if !bytes.Equal(c.Answer, previous.Answer) {
			return nil, errors.New("this program would have answered INIT differently: the kernel was promised other terms")
		}
		return c, nil
	}
	if !c.Offers(requiredFlags) {
		return nil, fmt.Errorf("the kernel's FUSE (7.%d) is too old; amberfs needs Linux 5.11 or newer", c.Minor())
	}
	if err := wire.Send(r.fd, c.Answer); err != nil {
		return nil, fmt.Errorf("answer the kernel's INIT: %w", err)
	}

	return c, nil
}

// inheritNodes records that the kernel may hold every node that the earlier daemon may have returned in an answer.
func (s *Server) inheritNodes() {
	fs := s.fs
	ino, view := fs.forest.Counters.Next()
	fs.replies.lookups.Inherit(ino, view)
	fs.control.TakeOver(view)
	fs.overlays.tookOver = true

	fs.notifier.onUnnamed = func(id live.NodeID) {
		if fs.replies.lookups.IsInherited(id) {
			fs.replies.probes.Add(id)
		}
	}
}

// resumeRequests has the kernel send the unanswered requests again, and repeats the notices that the earlier
// daemon may not have sent. It must be called before the first read, because the kernel would also send
// again the requests that this daemon has read.
func (s *Server) resumeRequests() error {
	fs, n, probes := s.fs, s.fs.notifier, s.fs.replies.probes
	in, err := fs.forest.Takeover.Inherit()
	if err != nil {
		return err
	}

	report := fs.opts.OnResent
	if report != nil {
		report = func(unique uint64, answered bool) {
			s.readers.CallBlocking(func() { fs.opts.OnResent(unique, answered) })
		}
	}

	s.readers.resends = takeover.NewResends(fs.forest.Takeover, fs.opts.Poison, report, probes.Settle)
	probes.ExpectAnswers(in.Unanswered)
	outdated := len(in.Notices)+len(in.Stale) > 0
	if outdated {
		n.pendingEditCount.Add(1)
	}

	if outdated && n.mayUseEpoch() {
		// INC_EPOCH drops all names at once, also names that no record of the journal has any more.
		n.send(wire.IncEpoch())
	}

	n.send(wire.Resend())
	notices := takeover.Notices{Store: fs.opts.Store, MountPoints: n.mountPoints, Drop: n.drop, Log: fs.opts.Logger}
	repeated := n.enqueue(&n.treeQueue, func() {
		if outdated {
			defer n.pendingEditCount.Add(-1)
			notices.Repeat(in)
		}
	})
	fs.callers.awaitNotices = func() { s.readers.CallBlocking(func() { n.await(repeated, 0) }) }
	probes.Add(in.Orphans...)

	return nil
}
