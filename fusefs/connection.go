package fusefs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A Connection has the terms of a mount: INIT, the first request of the kernel, and the answer of the
// daemon. They outlive the daemon as long as some process has the device open.
type Connection struct{ Init, Answer []byte }

// offers reports whether the kernel offers all capabilities in bits (fuse.CAP_...).
func (c *Connection) offers(bits uint64) bool {
	in := c.Init[inHeader:] // struct fuse_init_in
	flags := uint64(binary.NativeEndian.Uint32(in[12:])) | uint64(binary.NativeEndian.Uint32(in[16:]))<<32
	return flags&bits == bits
}

// minor is x in the version 7.x of the kernel's protocol.
func (c *Connection) minor() uint32 { return binary.NativeEndian.Uint32(c.Init[inHeader+4:]) }

// minInit is the length of INIT up to flags2.
const minInit = inHeader + 20

// TakeOver is Mount for a mount whose daemon has ended: fd is the device, and c the terms that the
// daemon agreed upon. The kernel sends the unanswered requests again.
func TakeOver(o Options, fd int, c Connection) (*Server, error) {
	s, err := serve(o, fd, &c)
	if err != nil {
		return nil, fmt.Errorf("take the mount %s over: %w", o.Mountpoint, err)
	}
	return s, nil
}

// Connection returns the descriptor of the device, which stays open until Serve returns, and the terms.
func (s *Server) Connection() (fd int, c Connection) { return s.readers.fd, *s.connection }

// Resends reports whether the kernel can send requests again (Linux 6.9). If it cannot, a
// connection must not be taken over: clients would wait for answers for ever.
func (s *Server) Resends() bool { return s.connection.offers(fuse.CAP_HAS_RESEND) }

// AnswerTo returns the answer of a mount with these options to INIT.
func AnswerTo(o Options, init []byte) ([]byte, error) {
	fs := &filesystem{RawFileSystem: fuse.NewDefaultRawFileSystem(), opts: o}
	return answerTo(fuse.NewProtocolServer(fs, fs.mountOptions()), init)
}

func answerTo(ps *fuse.ProtocolServer, init []byte) ([]byte, error) {
	if len(init) < minInit {
		return nil, fmt.Errorf("INIT of %d bytes is too short", len(init))
	}
	out := make([]byte, pageSize)
	n, status := ps.HandleRequest([][]byte{init}, [][]byte{out})
	if status != fuse.OK {
		return nil, fmt.Errorf("answer the kernel's INIT: %w", unix.Errno(status))
	}

	return out[:n], nil
}

// connect reads and answers INIT. In a takeover, before has the INIT of the first daemon: it is given
// to go-fuse only, and must have the same answer.
func (r *readers) connect(before *Connection) (*Connection, error) {
	c := &Connection{}

	if before != nil {
		c.Init = before.Init
	} else {
		in := make([]byte, maxIO+slack)
		n, err := read(r.fd, in)
		if err != nil {
			return nil, fmt.Errorf("read the kernel's INIT: %w", err)
		}
		c.Init = bytes.Clone(in[:n])
	}

	var err error
	if c.Answer, err = answerTo(r.ps, c.Init); err != nil {
		return nil, err
	}

	if before != nil {
		if !bytes.Equal(c.Answer, before.Answer) {
			return nil, errors.New("this program would have answered INIT differently: the kernel was promised other terms")
		}
		return c, nil
	}
	if !c.offers(requiredFlags) {
		return nil, fmt.Errorf("the kernel's FUSE (7.%d) is too old; amberfs needs Linux 5.11 or newer", c.minor())
	}
	if err := send(r.fd, c.Answer); err != nil {
		return nil, fmt.Errorf("answer the kernel's INIT: %w", err)
	}

	return c, nil
}

// resume has the kernel send the unanswered requests again, and repeats the notices that the earlier
// daemon may not have sent. It must be called before the first read, because the kernel would also send
// again the requests that this daemon has read.
func (s *Server) resume() error {
	fs := s.fs
	in, err := fs.forest.Inherit()
	if err != nil {
		return err
	}

	s.readers.resends = newResends(fs.forest, fs.opts)
	s.readers.resends.settled = fs.probes.settled
	fs.probes.unanswered = in.Unanswered
	if len(in.Notices)+len(in.Stale) > 0 {
		fs.notify.edits.Add(1)
		if fs.notify.mayUseEpoch() {
			// This drops all names at once, also names that are in no record of the journal any more.
			fs.notify.send(incEpoch())
		}
	}

	if resent := fs.opts.Resent; resent != nil {
		s.readers.resends.report = func(unique uint64, answered bool) {
			s.readers.Blocking(func() { resent(unique, answered) })
		}
	}

	fs.notify.send(resendNotice())
	fs.repeated = fs.notify.enqueue(&fs.notify.trees, func() { fs.repeatNotices(in) })
	fs.probes.add(in.Orphans...)

	return nil
}

// repeatNotices drops the names and pages that the kernel may have cached before an edit of the earlier
// daemon. It drops them name by name, because INC_EPOCH drops no pages, and would unmount other file
// systems that are mounted on a name.
func (fs *filesystem) repeatNotices(in live.Inheritance) {
	if len(in.Notices)+len(in.Stale) == 0 {
		return
	}
	defer fs.notify.edits.Add(-1)

	mounted, names := fs.notify.mountPoints(), make(map[uint32]map[live.Entry]bool)
	drop := func(inv live.Invalidation) {
		for i, e := range inv.Entries {
			view := e.Parent.View()
			if names[view] == nil {
				names[view] = fs.mountPointNames(view, mounted(view))
			}

			inv.Entries[i].MountPoint = names[view][live.Entry{Parent: e.Parent, Name: e.Name}]
		}

		fs.notify.drop(inv)
	}
	for _, inv := range in.Notices {
		drop(inv)
	}

	for view, names := range in.Stale {
		fs.opts.Logger.Info("the kernel may have outdated names of a workspace, and drops all", "view", view)

		// The names in the root may be in no state of the workspace any more.
		var root live.Invalidation
		for _, name := range names {
			root.Entries = append(root.Entries, live.Entry{Parent: live.Node(view, live.RootIno), Name: name})
		}

		drop(root)
		fs.dropAllNames(view, drop)
	}

	fs.forest.Told()
}

// resendNotice makes the kernel send all requests again that were read and not answered.
func resendNotice() []byte { return notice(fuse.NOTIFY_RESEND, struct{}{}, "") }

// resentBit is set in the number of a request that the kernel sends again.
const resentBit = 1 << 63

// resends handles the requests that the kernel sends again to the daemon of a takeover. The kernel
// sends them before all new requests.
type resends struct {
	forest *live.Forest
	report func(unique uint64, answered bool) // Options.Resent; may be nil
	// settled is called when all of them were read, with the nodes that none of their answers has, see
	// Forest.Settled.
	settled func(known []live.NodeID)
	poison  map[uint64]bool // requests that daemons died of, by number
	over    atomic.Bool     // all resent requests were read
	mu      sync.Mutex      // a reader locks it from its read(2) to the return of read, until over
}

func newResends(forest *live.Forest, o Options) *resends {
	s := &resends{forest: forest, poison: make(map[uint64]bool)}
	for _, unique := range o.Poison {
		s.poison[unique] = true
	}
	return s
}

// read is read(2). When it returns a request that was sent again, the forest has looked up whether
// the request was carried out.
func (s *resends) read(fd int, b []byte) (int, error) {
	if s == nil || s.over.Load() {
		return read(fd, b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	n, err := read(fd, b)
	if err != nil || n < inHeader || s.over.Load() {
		return n, err
	}

	switch op, unique := opcode(b[:n]), requestNumber(b); {
	case op == opcodeForget || op == opcodeBatchForget || op == opcodeInterrupt: // the kernel sends these before others
	case unique&resentBit != 0:
		s.forest.Done(unique &^ resentBit)
	default:
		s.over.Store(true)
		s.settled(s.forest.Settled())
	}

	return n, nil
}

// begin is called before a request is carried out. It reports a request that was sent again, see
// Options.Resent, and may wait for the report. If earlier daemons have died of the request, begin returns
// true, and the caller must not carry the request out.
func (s *resends) begin(request []byte) (poison bool) {
	unique := requestNumber(request)
	if s == nil || unique&resentBit == 0 {
		return false
	}
	if unique &^= resentBit; s.poison[unique] {
		return true
	}
	if s.report != nil {
		s.report(unique, false)
	}

	return false
}

// onAnswered is called when the kernel has the answer to a request. It tells the keeper about a request
// that was sent again, and the forest about a change that it records with the number of the request.
func (fs *filesystem) onAnswered(request []byte) {
	unique, op := requestNumber(request), opcode(request)
	if unique&resentBit != 0 && fs.opts.Resent != nil && op != opcodeInterrupt {
		fs.opts.Resent(unique&^resentBit, true)
	}
	if onceOps[op] && (op != opcodeWrite || control.IsNode(live.NodeID(binary.NativeEndian.Uint64(request[inNode:])))) {
		fs.forest.Answered(unique &^ resentBit)
	}
}

// onceOps are the operations that must not be carried out twice: their records have the number of the
// request. A WRITE is one of them only if it writes a command to a control file.
var onceOps = [len(operations)]bool{
	6: true, 8: true, 9: true, 10: true, 11: true, 12: true, 13: true, opcodeWrite: true,
	21: true, 24: true, 35: true, 45: true, 51: true,
}

// probes ask the kernel, for one node after the other, whether it holds a node that the earlier daemon
// handed over. The kernel may have to write a file back for the answer, so a goroutine of its own asks,
// which holds no lock and handles no request.
type probes struct {
	fs *filesystem
	fd int // the descriptor of the notifier

	mu      sync.Mutex // guards the fields below
	pending []live.NodeID
	// unanswered are nodes that the kernel may learn of only by an answer to a request that it sends
	// again. early are the nodes of these for which a probe came too early.
	unanswered map[live.NodeID]bool
	early      []live.NodeID
	closed     bool
	running    sync.WaitGroup
	active     bool // the goroutine runs
}

func newProbes(fs *filesystem, fd int) *probes { return &probes{fs: fs, fd: fd} }

func (p *probes) add(ids ...live.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.closed || len(ids) == 0 {
		return
	}

	p.pending = append(p.pending, ids...)
	if !p.active {
		p.active = true
		p.running.Go(p.run)
	}
}

func (p *probes) run() {
	for {
		p.mu.Lock()
		ids := p.pending
		p.pending, p.active = nil, len(ids) > 0
		if p.closed {
			p.active = false
		}

		active := p.active
		p.mu.Unlock()
		if !active {
			return
		}

		for _, id := range ids {
			if !p.tooEarly(id) {
				p.probe(id)
			}
		}
	}
}

// tooEarly reports whether the kernel may still wait for the answer that describes a node. Then the
// node is probed after that answer.
func (p *probes) tooEarly(id live.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unanswered[id] {
		p.early = append(p.early, id)
	}
	return p.unanswered[id]
}

// settled records that the kernel has the answers that described these nodes.
func (p *probes) settled(known []live.NodeID) {
	p.mu.Lock()
	for _, id := range known {
		delete(p.unanswered, id)
	}

	early := p.early
	p.early = nil
	p.mu.Unlock()
	p.add(early...)
}

// probe releases a node if the kernel does not hold it.
//
// A node may have been handed over in an answer that the kernel has not processed yet, so that the
// kernel does not hold it yet. From the lookup until it holds the node, the kernel has locked the
// directory of the lookup. A notice also locks the directory of its name. So after a notice for this
// directory, for the impossible name "/", the kernel has processed the answer. A later lookup increases
// the count, and lookups.release then keeps the node. A node that was made without a name is not
// inherited after its answer, see filesystem.answerAgain.
func (p *probes) probe(id live.NodeID) {
	n, via := p.fs.lookups.sinceTakeover(id)
	if n > 0 && via != several {
		p.fs.notify.send(expireEntry(via, "/"))
	}
	if kernelHolds(p.fd, id) {
		return
	}

	a, err := p.fs.forest.GetAttr(id)
	unnamed := err != nil || a.Nlink == 0
	if n > 0 && via == several && !unnamed {
		return
	}
	if p.fs.lookups.release(id, n) {
		p.fs.forest.Forget(id)
	}
}

// close discards the pending probes, and returns when the goroutine has ended.
func (p *probes) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
}

// kernelHolds asks the kernel whether it holds a node: a notice for an unknown node fails with ENOENT.
func kernelHolds(fd int, id live.NodeID) bool {
	for {
		_, err := unix.Write(fd, invalPages(id, -1))
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.ENOENT)
		}
	}
}
