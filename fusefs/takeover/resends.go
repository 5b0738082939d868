package takeover

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Resends handles the requests that the kernel sends again to the daemon of a takeover. The kernel
// sends them before all new requests.
type Resends struct {
	takeover  live.Takeover
	report    func(unique uint64, answered bool)
	onSettled func(answered []live.NodeID)
	poison    map[uint64]bool // requests that daemons died of, by number
	allRead   atomic.Bool     // set when all resent requests were read
	mu        sync.Mutex      // until allRead is set, mu is locked from before read(2) until Read returns
}

// NewResends returns a Resends of a takeover. Requests in poison are not carried out. report, which may be nil, is
// called with answered false before a request is carried out. onSettled is called when all resent requests
// were read. Its argument has the nodes in the answers to all other inherited requests: the kernel has these
// answers, see live.Takeover.SettleRequests.
func NewResends(t live.Takeover, poison []uint64, report func(unique uint64, answered bool), onSettled func(answered []live.NodeID)) *Resends {
	s := &Resends{takeover: t, report: report, onSettled: onSettled, poison: make(map[uint64]bool)}
	for _, unique := range poison {
		s.poison[unique] = true
	}
	return s
}

// Read is read(2) of a request. Before it returns a request that was sent again, it has the forest look up
// whether the request was carried out.
func (s *Resends) Read(fd int, b []byte) (int, error) {
	if s == nil || s.allRead.Load() {
		return wire.Read(fd, b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	n, err := wire.Read(fd, b)
	if err != nil || n < wire.InHeaderSize || s.allRead.Load() {
		return n, err
	}

	switch op, unique := wire.Opcode(b[:n]), wire.Unique(b); {
	case op == wire.OpForget || op == wire.OpBatchForget || op == wire.OpInterrupt:
		// The kernel sends these before the resent requests, so they do not show that all resent requests were
		// read.
	case unique&wire.ResentBit != 0:
		s.takeover.WasCarriedOut(unique &^ wire.ResentBit)
	default:
		s.allRead.Store(true)
		s.onSettled(s.takeover.SettleRequests())
	}

	return n, nil
}

// BeginRequest is called before a request is carried out. For a request that was sent again it calls report, which
// may block. If earlier daemons have died of the request, BeginRequest returns true, and the caller must not
// carry the request out.
func (s *Resends) BeginRequest(request []byte) (poison bool) {
	unique := wire.Unique(request)
	if s == nil || unique&wire.ResentBit == 0 {
		return false
	}
	if unique &^= wire.ResentBit; s.poison[unique] {
		return true
	}
	if s.report != nil {
		s.report(unique, false)
	}

	return false
}

// ReportAnswer is called when the kernel has the answer to a request. If the request was sent again, it calls
// report, which may be nil. If the request is a change that the forest records with the request's number, it
// reports the answer to t.
func ReportAnswer(t live.Takeover, report func(unique uint64, answered bool), request []byte) {
	unique, op := wire.Unique(request), wire.Opcode(request)
	if unique&wire.ResentBit != 0 && report != nil && op != wire.OpInterrupt {
		report(unique&^wire.ResentBit, true)
	}
	if onceOps[op] && (op != wire.OpWrite || control.IsNode(live.NodeID(binary.NativeEndian.Uint64(request[wire.NodeOffset:])))) {
		t.MarkAnswered(unique &^ wire.ResentBit)
	}
}

// onceOps are the operations that must not be carried out twice. Their journal records contain the request's
// number, by which a repeated request is recognized. A WRITE has such a record only if it writes a command to
// a control file.
var onceOps = [len(wire.Operations)]bool{
	6: true, 8: true, 9: true, 10: true, 11: true, 12: true, 13: true, wire.OpWrite: true,
	21: true, 24: true, 35: true, 45: true, 51: true,
}
