package service

import (
	"context"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot"
)

// Cost says which shared resources an operation uses.
type Cost int

const (
	// Cheap operations use little processor time and memory. They may wait long for a disk, for a
	// network or for work in the background.
	Cheap Cost = iota + 1
	// Compares is for operations that use much processor time. Such requests of all tenants take
	// turns, and only a few requests of one tenant run at a time.
	Compares
	// Allocates is Compares for operations that also use much memory. They reserve it in the pools
	// of Op.Charges before they allocate it.
	Allocates
)

// Pool is a set of memory pools.
type Pool int

const (
	Lists Pool = 1 << iota // lists of changes and of snapshots
	Texts                  // texts that are compared, and imports
	Gits                   // merges of texts, and processes of git
)

// budget returns the memory pool p of the tenant that the workspace of the request belongs to. It
// panics unless the operation's row has p in Charges.
func (r *Request) budget(p Pool) *budget.Budget {
	if r.op != nil && r.op.Charges&p == 0 {
		panic(r.op.Name + " does not say that it charges this pool")
	}

	if p == Gits && !r.Workspace.IsFork() {
		return r.mainGit // requests in main do not wait for those in forks
	}

	return r.pools[p].Of(r.Workspace.Tenant())
}

// CostOf returns the cost of the operation with these arguments in a workspace.
func (o *Op) CostOf(ws *snapshot.Workspace, args any) Cost {
	if o.ReadsAll != nil && o.ReadsAll(ws, args) {
		return Compares
	}
	return o.Cost
}

// carryOut runs an operation. If it is not cheap, it first waits for its turn; main goes first.
func (s *Service) carryOut(ctx context.Context, r *Request, o *Op, args any) (result any, err error) {
	r.op = o
	if o.CostOf(r.Workspace, args) == Cheap {
		return o.run(s, ctx, r, args)
	}
	if !r.Workspace.IsFork() {
		ctx = turns.First(ctx)
	}

	err = s.Turns.Do(ctx, func(ctx context.Context) error {
		result, err = o.run(s, ctx, r, args)
		return err
	})

	return result, err
}
