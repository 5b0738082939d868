package control

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Brief is how long the kernel may trust the name of a snapshot or fork, and the
// attributes of a control directory. What is done through the mount it knows at
// once; mkdir and rename ask in any case (LOOKUP_EXCL). This bounds how long what
// the daemon or the command line did stays unnoticed.
const Brief = time.Second

// Options of a Tree.
type Options struct {
	Service *service.Service
	Kernel  Kernel
	// AllowOther reports whether users other than the owner of the mount are let in.
	AllowOther bool
}

// A Kernel caches what it was answered about nodes, and can be made to drop it.
type Kernel interface {
	// DropPages drops the pages of a file. A write to that file may call it: it
	// waits only as long as nothing that the write holds is in the way.
	DropPages(id live.NodeID)
	// DropTail drops the pages of a node from a byte on, before it returns. A
	// write to the node must not call it.
	DropTail(id live.NodeID, from int64)
	// Blocking runs what may take long for a request, while others are answered.
	Blocking(fn func())
}

// A Request has the caller of an operation, and when it is cancelled.
type Request struct {
	actors.Caller
	// Cancel is closed at the first signal that the caller gets while it waits.
	Cancel <-chan struct{}
	// Resent is set if a daemon before may have carried out the request. Carried is what it did.
	Resent  bool
	Carried *snapshot.Carried
}

// An Entry answers a lookup: a node of this tree, or the root of a snapshot or fork.
type Entry struct {
	Attr live.Attr
	// Timeout is how long the name may be trusted.
	Timeout time.Duration
}

// ask is what is asked of the service about a workspace.
func (r Request) ask(ws *snapshot.Workspace) *service.Request {
	caller := r.Caller
	caller.Command = process.Command(int(r.PID))
	caller.Actor = ws.Store().Actors().Of(r.PID, r.UID, ws.View())
	return &service.Request{Caller: caller, Workspace: ws, Carried: r.Carried}
}

// A Tree is the control tree of all workspaces of a store.
type Tree struct {
	Options
	store  *snapshot.Store
	forest *live.Forest
	log    *slog.Logger
	limits limits

	mu struct {
		sync.Mutex
		nodes   map[live.NodeID]*node
		dirs    map[uint32]*directory // by view of the workspace
		tenants map[uint32]*tenant    // by view of their uppermost workspace
		last    uint64                // number of the newest node, see firstNumber
		bytes   int64                 // of all tenants
	}
}

func New(o Options) *Tree {
	t := &Tree{
		Options: o, store: o.Service.Store, forest: o.Service.Store.Forest(), log: o.Service.Log,
		limits: limits{fork: forkBytes, main: mainBytes, all: maxBytes, entries: maxEntries},
	}
	t.mu.nodes, t.mu.last = make(map[live.NodeID]*node), firstNumber()
	t.mu.dirs = make(map[uint32]*directory)
	t.mu.tenants = make(map[uint32]*tenant)
	return t
}

// Captured returns when (ns) the snapshot with this view was made.
func (t *Tree) Captured(view uint32) (ns int64, ok bool) {
	info, ok := t.store.SnapshotOf(view)
	return info.Created.UnixNano(), ok
}

// Parent returns the control directory in which the root of a fork or snapshot lies.
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

// killedTick is how often it is looked whether a client that got a signal was killed.
const killedTick = 50 * time.Millisecond

// Context returns a context that ends when the caller is killed. A process cannot die
// before the answer to its request.
//
// The kernel cancels a request at the first signal that the caller gets, whatever the
// caller does about it, and does not report a later one. Programs do not expect open(2)
// and stat(2) to end then.
func (r Request) Context() (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		select {
		case <-r.Cancel:
		case <-ctx.Done():
			return
		}
		for !process.Killed(int(r.PID)) {
			select {
			case <-time.After(killedTick):
			case <-ctx.Done():
				return
			}
		}
		stop()
	}()
	return ctx, stop
}
