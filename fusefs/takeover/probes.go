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
	// unanswered are the nodes of ExpectAnswers. postponed are the nodes in unanswered for which a probe was requested.
	unanswered map[live.NodeID]bool
	postponed  []live.NodeID
	closed     bool
	running    bool           // the goroutine that asks is running
	goroutine  sync.WaitGroup // for the end of the goroutine
}

// NewProbes returns the probes of a mount whose device is fd.
func NewProbes(l *Lookups, forest *live.Forest, fd int, log *slog.Logger) *Probes {
	return &Probes{lookups: l, forest: forest, fd: fd, log: log}
}

// ExpectAnswers records nodes that only the answer to a resent request may hand over to the kernel. They are not
// probed before Settle.
func (p *Probes) ExpectAnswers(unanswered map[live.NodeID]bool) {
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
	if !p.running {
		p.running = true
		p.goroutine.Go(p.run)
	}
}

func (p *Probes) run() {
	for {
		p.mu.Lock()
		ids := p.pending
		p.pending, p.running = nil, len(ids) > 0
		if p.closed {
			p.running = false
		}

		running := p.running
		p.mu.Unlock()
		if !running {
			return
		}

		for _, id := range ids {
			if !p.postponeIfUnanswered(id) {
				p.probe(id)
			}
		}
	}
}

// postponeIfUnanswered postpones the probe of a node, and returns true, if the kernel may still wait for the
// answer that hands over the node. Settle probes the node after that answer.
func (p *Probes) postponeIfUnanswered(id live.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unanswered[id] {
		p.postponed = append(p.postponed, id)
	}
	return p.unanswered[id]
}

// Settle records that the kernel has the answers that hand over the nodes in answered. It then makes the
// postponed probes of these nodes.
func (p *Probes) Settle(answered []live.NodeID) {
	p.mu.Lock()
	for _, id := range answered {
		delete(p.unanswered, id)
	}

	postponed := p.postponed
	p.postponed = nil
	p.mu.Unlock()
	p.Add(postponed...)
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
	n, dir := p.lookups.lookupsSinceTakeover(id)
	if n > 0 && dir != SeveralDirs {
		if err := wire.Send(p.fd, wire.ExpireEntry(dir, "/")); err != nil {
			p.log.Warn("the kernel refused a notice", "err", err)
		}
	}
	if kernelHolds(p.fd, id) {
		return
	}

	a, err := p.forest.GetAttr(id)
	unnamed := err != nil || a.Nlink == 0
	if n > 0 && dir == SeveralDirs && !unnamed {
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
	p.goroutine.Wait()
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
