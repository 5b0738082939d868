package live

import (
	"sync"

	"github.com/amberfs/amberfs/snapshot/journal"
)

// If the daemon dies before it answers a request, the kernel sends the request to the next
// daemon again, under the same number. It must not be carried out twice, so the record of a
// change has the number of its request, and recovery finds out which were carried out.

// hasRequest reports whether records of a type have the number of their request. The others
// say what an inode is to be, and not how it changes: repeating them changes nothing.
func hasRequest(t journal.Type) bool {
	switch t {
	case recCreate, recLink, recUnlink, recRename, recSetXattr, recRemoveXattr:
		return true
	}
	return false
}

// answer returns the node that the answer to a record's request describes, 0 if it
// describes none.
func (r *record) answer() NodeID {
	if r.kind == recCreate || r.kind == recLink {
		return Node(r.view, r.ino)
	}
	return 0
}

// requests are those that were carried out, by number.
type requests struct {
	mu         sync.Mutex
	unanswered map[uint64]carried // the kernel may not have the answer
	inherited  map[uint64]carried // recovery found them; the daemon before answered most of them
}

// carried is what its answer says of a request that was carried out.
type carried struct {
	node   NodeID
	record any // of the catalogue, if recovery found it in the journal
}

// For is As for the changes of a request of the kernel. Answered must be called after the
// answer. It is for requests of one record: to create, link, rename or remove a name, or to
// set or remove an extended attribute.
func (f *Forest) For(actor string, request uint64) *Forest { return &Forest{f.forest, actor, request} }

// carriedOut adds a request.
func (r *requests) carriedOut(request uint64, answer NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered[request] = carried{node: answer}
}

// inherit adds a request that recovery found.
func (r *requests) inherit(request uint64, c carried) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inherited[request] = c
}

// Answered notes that the kernel has the answer to a request, or does not wait for it.
func (f *Takeover) Answered(request uint64) {
	r := &f.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unanswered, request)
}

// Done reports whether a request that the kernel sent again was carried out by the daemon
// before, and returns the node that the answer describes: what was created or linked, 0
// for others. It may be asked again until Answered.
func (f *Takeover) Done(request uint64) (answer NodeID, done bool) {
	r := &f.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	c, done := r.unanswered[request]
	if !done {
		if c, done = r.inherited[request]; done {
			r.unanswered[request] = c
		}
	}
	return c.node, done
}

// Record returns the record that carried out a request for which Done reports true; nil if that is
// not in the journal any more.
func (f *Takeover) Record(request uint64) any {
	r := &f.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unanswered[request].record
}

// Settled notes that Done was called for each request that the kernel sent again. It returns the nodes
// that the answers to the others described: the kernel has those answers.
func (f *Takeover) Settled() (known []NodeID) {
	r := &f.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	for request, c := range r.inherited {
		if _, again := r.unanswered[request]; !again && c.node != 0 {
			known = append(known, c.node)
		}
	}
	r.inherited = make(map[uint64]carried)
	return known
}

// nodes returns the nodes that the answers to inherited requests describe.
func (r *requests) nodes() map[NodeID]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[NodeID]bool)
	for _, c := range r.inherited {
		all[c.node] = true
	}
	return all
}

func (r *requests) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered, r.inherited = make(map[uint64]carried), make(map[uint64]carried)
}

// SetRequests is Requests of the last checkpoint.
func (tx *Tx) SetRequests(all map[uint64]uint64) {
	for request, answer := range all {
		tx.f.requests.inherit(request, carried{node: NodeID(answer)})
	}
}

// Requests returns those that the kernel may send again to the next daemon, with the nodes
// that their answers describe.
func (tx *Tx) Requests() map[uint64]uint64 {
	r := &tx.f.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[uint64]uint64, len(r.inherited)+len(r.unanswered))
	for _, these := range []map[uint64]carried{r.inherited, r.unanswered} {
		for request, c := range these {
			all[request] = uint64(c.node)
		}
	}
	return all
}

// CarriedOut notes that a record of the caller's own type carries out a request.
func (tx *Tx) CarriedOut(request uint64, record any) {
	if tx.f.mu.replaying {
		tx.f.requests.inherit(request, carried{record: record})
	} else {
		tx.f.requests.carriedOut(request, 0)
	}
}
