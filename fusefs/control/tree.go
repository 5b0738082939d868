package control

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// BriefCacheTime is how long the kernel may cache the name of a snapshot or fork, and the attributes of a control
// directory. So changes by the daemon and by the command line are visible after BriefCacheTime at the latest.
// Changes through the mount are visible at once: the kernel itself makes them, and mkdir and rename send a
// lookup in any case (LOOKUP_EXCL).
const BriefCacheTime = time.Second

// Options of a Tree.
type Options struct {
	Service *service.Service
	Kernel  Kernel
	// AllowOther is set if users other than the owner of the mount may use the mount.
	AllowOther bool
}

// A Kernel drops parts of the kernel's cache, and provides goroutines.
type Kernel interface {
	// DropPages drops the pages of a file. It may be called during a write to the file: it does not
	// wait for locks that the write holds in the kernel.
	DropPages(id live.NodeID)
	// DropTail drops the pages of a node from the byte offset off to the end, before it returns. It must not be
	// called during a write to the node.
	DropTail(id live.NodeID, off int64)
	// CallBlocking calls fn, which may take long. Other goroutines answer requests during the call.
	CallBlocking(fn func())
}

// A Request has what all requests of the kernel have: the caller, and whether the kernel sent the request
// again. It has no arguments. The embedded request is passed to the service.
type Request struct {
	service.Request
	// Cancel is closed at the first signal that the caller gets while it waits.
	Cancel <-chan struct{}
	// Resent is set if the previous daemon may have carried out the request. Carried, if set, is the
	// effect that the request had.
	Resent bool

	mayRender bool // set for a lookup in renderingDir, where a lookup renders a file
}

// An Entry answers a lookup: a node of this tree, or the root of a snapshot or fork.
type Entry struct {
	Attr live.Attr
	// Timeout is how long the kernel may cache the name.
	Timeout time.Duration
}

// A Tree is the control tree of all workspaces of a store. Its exported methods are the requests of the
// kernel.
type Tree struct {
	store    *snapshot.Store
	kernel   Kernel
	cache    *cache
	renderer *renderer
	commands *commands
	logs     *logs

	// firstNewView is the number of a view: workspaces with lower views may have lost answers, see TakeOver.
	firstNewView atomic.Uint32
}

// New returns the control tree of the store of o.Service.
func New(o Options) *Tree {
	c := newCache(o.Service.Store)
	q := &queue{c, o.Kernel, o.Service.Turns}
	return &Tree{
		store: o.Service.Store, kernel: o.Kernel, cache: c,
		renderer: &renderer{c, q, o.Service, o.AllowOther},
		commands: &commands{c, q, o.Service, o.Kernel},
		logs:     &logs{c, o.Service.Events, o.Kernel, o.AllowOther, o.Service.Log},
	}
}

// CaptureTime returns the time (ns) at which the snapshot with a view was taken. ok is false for a workspace.
func (t *Tree) CaptureTime(view uint32) (ns int64, ok bool) {
	info, ok := t.store.SnapshotOf(view)
	return info.Created.UnixNano(), ok
}

// Parent returns the control directory in which the root of a fork or snapshot is listed. ok is false for main.
func (t *Tree) Parent(view uint32) (dir live.NodeID, ok bool) {
	ws := t.store.WorkspaceOf(view)
	switch {
	case ws == nil:
		return 0, false
	case ws.View() != view:
		return snapshotsID(ws.View()), true
	}

	if up := ws.Parent(); up != nil {
		return forksID(up.View()), true
	}

	return 0, false
}

func now() int64 { return time.Now().UnixNano() }

// killedCheckInterval is the time between two checks whether a caller that got a signal was killed.
const killedCheckInterval = 50 * time.Millisecond

// Context returns a context that ends when the caller is killed. Otherwise a killed process could not end
// before its request is answered. The caller of Context calls the CancelFunc.
//
// The kernel cancels a request at the first signal of any kind that the caller gets, and does not report
// later signals. Other signals than SIGKILL do not end the context, because programs do not expect
// open(2) and stat(2) to fail at a signal.
func (r Request) Context() (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		select {
		case <-r.Cancel:
		case <-ctx.Done():
			return
		}

		for !process.IsKilled(int(r.Caller.PID)) {
			select {
			case <-time.After(killedCheckInterval):
			case <-ctx.Done():
				return
			}
		}

		stop()
	}()

	return ctx, stop
}
