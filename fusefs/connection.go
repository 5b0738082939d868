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

// A Connection is what a daemon agreed upon with the kernel, which outlives it as long as
// some process has the device open: the first request, INIT, and the answer.
type Connection struct{ Init, Answer []byte }

// flag is bit n of the terms that the kernel offers.
func (c *Connection) flag(bit uint64) bool {
	in := c.Init[inHeader:] // struct fuse_init_in
	flags := uint64(binary.NativeEndian.Uint32(in[12:])) | uint64(binary.NativeEndian.Uint32(in[16:]))<<32
	return flags&bit == bit
}

// minor is the version 7.x of the protocol that the kernel speaks.
func (c *Connection) minor() uint32 { return binary.NativeEndian.Uint32(c.Init[inHeader+4:]) }

// minInit is the length of INIT up to flags2.
const minInit = inHeader + 20

// TakeOver is Mount for a mount whose daemon is gone: fd is its device. What the daemon had
// read and not answered, the kernel sends again.
func TakeOver(o Options, fd int, c Connection) (*Server, error) {
	s, err := serve(o, fd, &c)
	if err != nil {
		return nil, fmt.Errorf("take the mount %s over: %w", o.Mountpoint, err)
	}
	return s, nil
}

// Connection returns the device and what was agreed upon.
func (s *Server) Connection() (fd int, c Connection) { return s.readers.fd, *s.connection }

// Resends reports whether the kernel can send requests again (Linux 6.9). If it cannot, a
// connection must not be taken over: clients would wait for answers for ever.
func (s *Server) Resends() bool { return s.connection.flag(fuse.CAP_HAS_RESEND) }

// AnswerTo returns what a mount with these options answers to INIT.
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

// connect answers INIT, or prepares for what follows the answer of a daemon before.
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
	if !c.flag(needed) {
		return nil, fmt.Errorf("the kernel's FUSE (7.%d) is too old; amberfs needs Linux 5.11 or newer", c.minor())
	}
	if err := send(r.fd, c.Answer); err != nil {
		return nil, fmt.Errorf("answer the kernel's INIT: %w", err)
	}

	return c, nil
}

// resume has the kernel send again what was not answered, and repeats the notices that it
// may not have got. It must come before the first read: what is read already would be
// sent again, too.
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
		if fs.notify.mayEpoch() {
			fs.notify.send(incEpoch()) // at once, and with it names that no record has any more
		}
	}

	if resent := fs.opts.Resent; resent != nil {
		s.readers.resends.report = func(unique uint64, answered bool) {
			s.readers.Blocking(func() { resent(unique, answered) })
		}
	}

	fs.notify.send(resend())
	fs.repeated = fs.notify.put(&fs.notify.trees, func() { fs.repeat(in) })
	fs.probes.add(in.Orphans...)

	return nil
}

// repeat drops what the kernel may have cached before an edit: name by name, because INC_EPOCH
// drops no pages, and unmounts what is mounted on a name.
func (fs *filesystem) repeat(in live.Inheritance) {
	if len(in.Notices)+len(in.Stale) == 0 {
		return
	}
	defer fs.notify.edits.Add(-1)

	mounted, names := fs.notify.mountPoints(), make(map[uint32]map[live.Entry]bool)
	drop := func(inv live.Invalidation) {
		for i, e := range inv.Entries {
			view := e.Parent.View()
			if names[view] == nil {
				names[view] = fs.onMounts(view, mounted(view))
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
		var gone live.Invalidation // perhaps no state has them any more
		for _, name := range names {
			gone.Entries = append(gone.Entries, live.Entry{Parent: live.Node(view, live.RootIno), Name: name})
		}

		drop(gone)
		fs.namesOf(view, drop)
	}

	fs.forest.Told()
}

// resend makes the kernel send all requests again that were read and not answered.
func resend() []byte { return notice(fuse.NOTIFY_RESEND, struct{}{}, "") }

// resentBit of a request's number is set when it is sent again.
const resentBit = 1 << 63

// resends are the requests that the kernel sends again to the daemon after the one that
// read them first. It sends them before all others.
type resends struct {
	forest *live.Forest
	report func(unique uint64, answered bool) // may be nil
	// settled is called with the nodes that no request sent again is answered with, see Forest.Settled.
	settled func(known []live.NodeID)
	deadly  map[uint64]bool
	over    atomic.Bool // all of them were read
	mu      sync.Mutex  // held around a read, and what follows it, until over
}

func newResends(forest *live.Forest, o Options) *resends {
	s := &resends{forest: forest, deadly: make(map[uint64]bool)}
	for _, unique := range o.Poison {
		s.deadly[unique] = true
	}
	return s
}

// read is read(2). A request that was carried out is known to the forest when it returns.
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

	switch op, unique := opcode(b[:n]), requestOf(b); {
	case op == opcodeForget || op == opcodeBatchForget || op == opcodeInterrupt: // they overtake others
	case unique&resentBit != 0:
		s.forest.Done(unique &^ resentBit)
	default:
		s.over.Store(true)
		s.settled(s.forest.Settled())
	}

	return n, nil
}

// begin is called before a request is carried out, and may wait. It reports whether daemons have died
// of the request, which must not be carried out then.
func (s *resends) begin(request []byte) (deadly bool) {
	unique := requestOf(request)
	if s == nil || unique&resentBit == 0 {
		return false
	}
	if unique &^= resentBit; s.deadly[unique] {
		return true
	}
	if s.report != nil {
		s.report(unique, false)
	}

	return false
}

// answered is called when the kernel has the answer to a request.
func (fs *filesystem) answered(request []byte) {
	unique, op := requestOf(request), opcode(request)
	if unique&resentBit != 0 && fs.opts.Resent != nil && op != opcodeInterrupt {
		fs.opts.Resent(unique&^resentBit, true)
	}
	if carriedOutOnce[op] && (op != opcodeWrite || control.IsNode(live.NodeID(binary.NativeEndian.Uint64(request[inNode:])))) {
		fs.forest.Answered(unique &^ resentBit)
	}
}

// carriedOutOnce are the operations whose records have the number of the request. A WRITE
// is one if it is a command.
var carriedOutOnce = [len(operations)]bool{
	6: true, 8: true, 9: true, 10: true, 11: true, 12: true, 13: true, opcodeWrite: true,
	21: true, 24: true, 35: true, 45: true, 51: true,
}

// probes ask the kernel whether it holds inherited nodes, one after the other. The kernel
// may have to write a file back for the answer, so no request and no lock waits for it.
type probes struct {
	fs *filesystem
	fd int // of the notifier

	mu      sync.Mutex
	pending []live.NodeID
	// unanswered are nodes that the kernel may only get to know by an answer, and early are those of
	// them that it would have been asked about.
	unanswered map[live.NodeID]bool
	early      []live.NodeID
	closed     bool
	running    sync.WaitGroup
	active     bool
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
				p.ask(id)
			}
		}
	}
}

// tooEarly reports whether the kernel may wait for the answer that describes a node.
func (p *probes) tooEarly(id live.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unanswered[id] {
		p.early = append(p.early, id)
	}
	return p.unanswered[id]
}

// settled notes that the kernel has got the answers that described these nodes.
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

// ask releases a node if the kernel does not hold it.
//
// The kernel may not have got to an answer that it was given: then it does not hold the node yet.
// While it waits for such an answer, and until it holds the node, it has the directory locked that
// the node is looked up in. So a notice for that directory, about no name that can be there, comes
// after it. What is looked up later is counted, and found by release. A node that was made without a
// name is not inherited from the answer on, see filesystem.again.
func (p *probes) ask(id live.NodeID) {
	n, via := p.fs.lookups.since(id)
	if n > 0 && via != several {
		p.fs.notify.send(expired(via, "/"))
	}
	if holds(p.fd, id) {
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

// close returns when nothing is asked any more.
func (p *probes) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
}

// holds reports whether the kernel holds a node.
func holds(fd int, id live.NodeID) bool {
	for {
		_, err := unix.Write(fd, invalPages(id, -1))
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.ENOENT)
		}
	}
}
