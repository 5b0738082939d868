package live

import (
	"sync"

	"github.com/amberfs/amberfs/snapshot/journal"
)

// If the daemon dies before it answers a request, the kernel sends the request again, with the same
// number, to the next daemon. It must not be carried out twice. So the record of a change has the
// number of its request, and recovery collects the requests that were carried out.

// hasRequest reports whether records of a type have the number of their request. The other types
// set an inode to given values, so carrying them out twice does no harm.
func hasRequest(t journal.Type) bool {
	switch t {
	case recCreate, recLink, recUnlink, recRename, recSetXattr, recRemoveXattr:
		return true
	}
	return false
}

// answer returns the node that is described by the answer to a record's request, or 0.
func (r *record) answer() NodeID {
	if r.kind == recCreate || r.kind == recLink {
		return Node(r.view, r.ino)
	}
	return 0
}

// requests are the requests that were carried out, by number.
type requests struct {
	mu         sync.Mutex
	unanswered map[uint64]requestResult // the kernel may not have the answers yet
	inherited  map[uint64]requestResult // found by recovery; the daemon before has answered most of them
}

// requestResult is the part of a request's answer that recovery found.
type requestResult struct {
	node   NodeID // see record.answer
	record any    // the record of the catalogue, if recovery found one in the journal; else nil
}

// For returns the writer for the changes of an actor, as As does, that a request of the kernel asks for.
// The caller calls Answered after it has sent the answer. For may only be used for requests that append one
// record: to create, link, rename or remove a name, or to set or remove an extended attribute.
func (w Writer) For(actor string, request uint64) Writer { return Writer{w.Reader, actor, request} }

// add adds a request that was carried out. answer is the node that its answer describes.
func (r *requests) add(request uint64, answer NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered[request] = requestResult{node: answer}
}

// inherit adds a request that recovery found.
func (r *requests) inherit(request uint64, c requestResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inherited[request] = c
}

// Answered records that the kernel has the answer to a request, or does not wait for it.
func (t Takeover) Answered(request uint64) {
	r := &t.trees.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unanswered, request)
}

// Done reports whether a request that the kernel sent again was already carried out by the daemon
// before. answer is the node that the answer describes, which was created or linked, else 0. Done may be
// called several times before Answered.
func (t Takeover) Done(request uint64) (answer NodeID, done bool) {
	r := &t.trees.requests
	r.mu.Lock()
	defer r.mu.Unlock()

	if c, ok := r.unanswered[request]; ok {
		return c.node, true
	}

	c, done := r.inherited[request]
	if done {
		r.unanswered[request] = c
	}

	return c.node, done
}

// Record returns the record that carried out a request for which Done returned true. It returns nil if
// the record is not in the journal any more.
func (t Takeover) Record(request uint64) any {
	r := &t.trees.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unanswered[request].record
}

// Settled is called after Done was called for every request that the kernel sent again. It returns the
// nodes that the answers to all other inherited requests described: the kernel has these answers.
func (t Takeover) Settled() (known []NodeID) {
	r := &t.trees.requests
	r.mu.Lock()
	defer r.mu.Unlock()

	for request, c := range r.inherited {
		if _, again := r.unanswered[request]; !again && c.node != 0 {
			known = append(known, c.node)
		}
	}

	r.inherited = make(map[uint64]requestResult)

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
	r.unanswered, r.inherited = make(map[uint64]requestResult), make(map[uint64]requestResult)
}

// SetRequests sets the inherited requests to the result of Requests at the last checkpoint.
func (tx *Tx) SetRequests(all map[uint64]uint64) {
	for request, answer := range all {
		tx.trees.requests.inherit(request, requestResult{node: NodeID(answer)})
	}
}

// Requests returns the requests that the kernel may send again to the next daemon, with the nodes
// that their answers describe, for a checkpoint.
func (tx *Tx) Requests() map[uint64]uint64 {
	r := &tx.trees.requests
	r.mu.Lock()
	defer r.mu.Unlock()

	all := make(map[uint64]uint64, len(r.inherited)+len(r.unanswered))
	for _, part := range []map[uint64]requestResult{r.inherited, r.unanswered} {
		for request, c := range part {
			all[request] = uint64(c.node)
		}
	}

	return all
}

// CarriedOut records that a record of the caller's own type carries out a request.
func (tx *Tx) CarriedOut(request uint64, record any) {
	if tx.trees.mu.replaying {
		tx.trees.requests.inherit(request, requestResult{record: record})
	} else {
		tx.trees.requests.add(request, 0)
	}
}
