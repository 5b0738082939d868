package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// callers determines the caller of a request and the caller's actor. It also determines whether an earlier
// daemon carried the request out.
type callers struct {
	store  *snapshot.Store
	forest *live.Forest
	// recordsRequestNumbers is set if the records of changes have the numbers of their requests, because the
	// kernel can send the requests again to the next daemon.
	recordsRequestNumbers bool
	// awaitNotices returns when the kernel has the notices that the earlier daemon may not have sent.
	awaitNotices func()
}

func caller(h *fuse.InHeader) actors.Caller {
	return actors.Caller{UID: h.Uid, GID: h.Gid, PID: h.Pid}
}

// writerFor returns the caller of a change with its actor, and the writer that records the caller's changes as
// changes of this actor.
func (c *callers) writerFor(h *fuse.InHeader) (actors.Caller, live.Writer) {
	who := caller(h)
	who.Actor = c.store.Actors().ActorOf(who.PID, who.UID, live.NodeID(h.NodeId).View())
	return who, c.forest.WithActor(who.Actor)
}

// onceWriterFor is writerFor for a change that must not be made twice: its record has the number of the
// request, so that the next daemon recognizes a request that was carried out.
func (c *callers) onceWriterFor(h *fuse.InHeader) (actors.Caller, live.Writer) {
	who, writer := c.writerFor(h)
	if c.recordsRequestNumbers {
		writer = c.forest.ForRequest(who.Actor, h.Unique&^wire.ResentBit)
	}
	return who, writer
}

// carriedOut reports whether an earlier daemon carried out a request that the kernel sent again, and
// returns the node that the request made or linked.
func (c *callers) carriedOut(h *fuse.InHeader) (id live.NodeID, ok bool) {
	if h.Unique&wire.ResentBit == 0 {
		return 0, false
	}
	return c.forest.Takeover.WasCarriedOut(h.Unique &^ wire.ResentBit)
}

// controlRequest returns a request to the control tree with its caller. If the kernel sent the request again,
// the result also has the effect that the request had in an earlier daemon (Carried).
func (c *callers) controlRequest(cancel <-chan struct{}, h *fuse.InHeader) control.Request {
	r := control.Request{Cancel: cancel, Resent: h.Unique&wire.ResentBit != 0}
	r.Caller = caller(h)
	if c.recordsRequestNumbers {
		r.Caller.Request = h.Unique &^ wire.ResentBit
	}
	if r.Resent {
		r.Carried = c.store.ResultOf(r.Caller.Request)
	}
	// If the request was an edit, the kernel must receive the notices of the edit before the answer.
	if r.Carried != nil {
		c.awaitNotices()
	}

	return r
}
