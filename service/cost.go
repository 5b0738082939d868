package service

import (
	"context"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot"
)

// A Cost is the set of the shared resources that an operation uses. Operations wait for their turn, except for Cheap
// ones.
type Cost int

const (
	// Cheap operations use little processor time and memory. They may wait long for a disk, a network or
	// background work.
	Cheap Cost = 1 << iota
	// CPUHeavy operations use much processor time. The requests of all tenants for them take turns, and only a few
	// requests of one tenant run at a time.
	CPUHeavy
	listPool // uses the memory pool ListMemory
	textPool // uses the memory pool TextMemory
	gitPool  // uses the memory pool GitMemory
)

// The pools of memory. An operation reserves memory in a pool before it allocates the memory. An operation with a
// pool is also CPUHeavy.
const (
	ListMemory = listPool | CPUHeavy // for lists of changes and of snapshots
	TextMemory = textPool | CPUHeavy // for comparisons of texts, and for imports
	GitMemory  = gitPool | CPUHeavy  // for merges of texts, and for processes of git
)

// budget returns the memory pool p for the tenant of the request's workspace. A tenant is main, or a fork of main
// with the forks in it. budget panics unless the operation's row has p in Op.Cost.
func (r *Request) budget(p Cost) *budget.Budget {
	if r.op != nil && r.op.Cost&p != p {
		panic(r.op.Name + " does not say that it charges this pool")
	}

	if p == GitMemory && !r.Workspace.IsFork() {
		return r.mainGitPool // requests in main do not wait for those in forks
	}

	return r.pools[p].ForTenant(r.Workspace.Tenant())
}

// reserveMemory reserves memory for a list. It waits while other requests have reserved too much.
func reserveMemory(ctx context.Context, charge *budget.Charge, bytes int64) error {
	if charge.TryAdd(bytes) != nil {
		return charge.RemoveLimit(ctx)
	}
	return nil
}

// RunsInline reports whether a call through a control file runs without a queue, see ControlFiles.RunsInline.
func (o *Op) RunsInline(ws *snapshot.Workspace, args any) bool {
	c := &o.ControlFiles
	return c.RunsInline && o.CostOf(ws, args) == Cheap && (c.Waits == nil || !c.Waits(args))
}

// CostOf returns the cost of a call of the operation in a workspace.
func (o *Op) CostOf(ws *snapshot.Workspace, args any) Cost {
	if o.ReadsAll != nil && o.ReadsAll(ws, args) {
		return CPUHeavy
	}
	return o.Cost
}
