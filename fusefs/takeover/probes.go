package takeover

import (
	"errors"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Probes ask the kernel, for one node after the other, whether it holds a node that the earlier daemon handed
// over. The kernel may have to write a file back before it answers, so a separate goroutine asks, which holds
// no lock and handles no request.
type Probes struct {
	lookups *Lookups
	forest  *live.Forest
	fd      int // the FUSE device
	log     *slog.Logger

	mu      sync.Mutex // guards the fields below
	pending []live.NodeID
	// unanswered are the nodes of Expect. early are the nodes in unanswered for which a probe was requested.
	unanswered map[live.NodeID]bool
	early      []live.NodeID
	closed     bool
	running    sync.WaitGroup
	active     bool // the goroutine runs
}

// NewProbes returns the probes of a mount whose device is fd.
func NewProbes(l *Lookups, forest *live.Forest, fd int, log *slog.Logger) *Probes {
	return &Probes{lookups: l, forest: forest, fd: fd, log: log}
}

// Expect records nodes that only the answer to a resent request may hand over to the kernel. They are not
// probed before Settled.
func (p *Probes) Expect(unanswered map[live.NodeID]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unanswered = unanswered
}

// Add probes nodes in the background.

func (p *Probes) Add(ids ...live.NodeID) {
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

func (p *Probes) run() {
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

// tooEarly reports whether the kernel may still wait for the answer that hands over a node. Then Settled
// probes the node after that answer.
func (p *Probes) tooEarly(id live.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unanswered[id] {
		p.early = append(p.early, id)
	}
	return p.unanswered[id]
}

// Settled records that the kernel has the answers that hand over these nodes, and probes the nodes among them
// that were added before.
func (p *Probes) Settled(known []live.NodeID) {
	p.mu.Lock()
	for _, id := range known {
		delete(p.unanswered, id)
	}

	early := p.early
	p.early = nil
	p.mu.Unlock()
	p.Add(early...)
}

// probe releases a node if the kernel does not hold it.
//
// A node may have been handed over in an answer that the kernel has not processed yet, so that the kernel
// does not hold it yet. From the lookup until it holds the node, the kernel has the directory of the lookup
// locked. A notice also locks the directory of its name. So after a notice for this directory, for the
// impossible name "/", the kernel has processed the answer. A later lookup increases the count, and
// Lookups.release then keeps the node. A node that was created without a name is not inherited after its
// answer, see Lookups.Disinherit.
func (p *Probes) probe(id live.NodeID) {
	n, via := p.lookups.sinceTakeover(id)
	if n > 0 && via != Several {
		if err := wire.Send(p.fd, wire.ExpireEntry(via, "/")); err != nil {
			p.log.Warn("the kernel refused a notice", "err", err)
		}
	}
	if kernelHolds(p.fd, id) {
		return
	}

	a, err := p.forest.GetAttr(id)
	unnamed := err != nil || a.Nlink == 0
	if n > 0 && via == Several && !unnamed {
		return
	}
	if p.lookups.release(id, n) {
		p.forest.Takeover.Forget(id)
	}
}

// Close discards the pending probes, and returns when the goroutine has ended.
func (p *Probes) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.running.Wait()
}

// kernelHolds asks the kernel whether it holds a node: a notice for an unknown node fails with ENOENT.
func kernelHolds(fd int, id live.NodeID) bool {
	for {
		_, err := unix.Write(fd, wire.InvalPages(id, -1))
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.ENOENT)
		}
	}
}
