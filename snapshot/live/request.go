package live

import (
	"sync"

	"github.com/amberfs/amberfs/snapshot/journal"
)

// If the daemon dies before it answers a request, the kernel sends the request again, with the same
// number, to the next daemon. The next daemon must not make the change twice. So the record of a change
// contains the number of its request, and recovery collects the requests that have taken effect.

// hasRequest reports whether records of a type contain the number of their request. Records of the other types set
// an inode to given values, so a repetition of the change by the same request has no effect.
func hasRequest(t journal.Type) bool {
	switch t {
	case recCreate, recLink, recUnlink, recRename, recSetXattr, recRemoveXattr:
		return true
	}
	return false
}

// answer returns the node that the answer to the record's request describes, or 0.
func (r *record) answer() NodeID {
	if r.kind == recCreate || r.kind == recLink {
		return Node(r.view, r.ino)
	}
	return 0
}

// doneRequests are the requests that have taken effect, by number.
type doneRequests struct {
	mu         sync.Mutex
	unanswered map[uint64]requestResult // requests of this daemon that the kernel may wait for
	inherited  map[uint64]requestResult // requests that recovery found; the previous daemon has answered most of them
}

// requestResult is the part of a request's answer that recovery found.
type requestResult struct {
	node   NodeID // see record.answer
	record any    // the record of the catalogue, if recovery found one in the journal; else nil
}

// ForRequest returns the writer for the changes by an actor, as WithActor does, and records that they belong to a
// request of the kernel. The caller calls MarkAnswered after it has sent the answer. ForRequest may only be used
// for requests that append one record: to create, link, rename or remove a name, or to set or remove an extended
// attribute.
func (w Writer) ForRequest(actor string, request uint64) Writer {
	return Writer{w.Reader, actor, request}
}

// add adds a request that has taken effect. answer is the node that the answer to it describes, or 0.
func (r *doneRequests) add(request uint64, answer NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered[request] = requestResult{node: answer}
}

func (r *doneRequests) addInherited(request uint64, c requestResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inherited[request] = c
}

// MarkAnswered records that the kernel has received the answer to a request, or does not wait for an answer.
func (t Takeover) MarkAnswered(request uint64) {
	r := &t.trees.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unanswered, request)
}

// WasCarriedOut reports whether the previous daemon has made the change of a request that the kernel sent again.
// answer is the created or linked node that the answer describes, or 0. WasCarriedOut may be called several times
// before MarkAnswered.
func (t Takeover) WasCarriedOut(request uint64) (answer NodeID, done bool) {
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

// CatalogueRecord returns the catalogue record of a request for which WasCarriedOut returned true. It returns nil
// if the journal no longer contains the record.
func (t Takeover) CatalogueRecord(request uint64) any {
	r := &t.trees.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unanswered[request].record
}

// SettleRequests is called after WasCarriedOut was called for every request that the kernel sent again. The kernel
// has received the answers to all other inherited requests. SettleRequests returns the nodes that these answers
// describe.
func (t Takeover) SettleRequests() (known []NodeID) {
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

// inheritedNodes returns the nodes that the answers to inherited requests describe.
func (r *doneRequests) inheritedNodes() map[NodeID]bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	all := make(map[NodeID]bool)
	for _, c := range r.inherited {
		all[c.node] = true
	}

	return all
}

func (r *doneRequests) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unanswered, r.inherited = make(map[uint64]requestResult), make(map[uint64]requestResult)
}

// SetRequests sets the inherited requests to the result of Requests that the last checkpoint stored.
func (tx *Tx) SetRequests(all map[uint64]uint64) {
	for request, answer := range all {
		tx.trees.requests.addInherited(request, requestResult{node: NodeID(answer)})
	}
}

// Requests returns, for a checkpoint, the requests that the kernel may send again to the next daemon, and
// the node that each answer describes.
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

// MarkCarriedOut records, in a recovery, that a request has taken effect. record is the record of its change, which is
// of the caller's own type.
func (tx *Tx) MarkCarriedOut(request uint64, record any) {
	tx.trees.requests.addInherited(request, requestResult{record: record})
}
