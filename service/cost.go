package service

import (
	"context"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/turns"
)

// Cost is which resources that all requests share an operation uses.
type Cost int

const (
	// Cheap: it reads little itself, however long it may wait for a disk, for a network or
	// for work in the background.
	Cheap Cost = iota + 1
	// Compares: it uses much processor time. Such requests of all tenants take turns, and only a
	// few requests of one tenant run at a time.
	Compares
	// Allocates: as Compares, and its memory is reserved in the pools of Op.Charges before it is
	// allocated.
	Allocates
)

// Pool is the pools of memory that an operation takes from.
type Pool int

const (
	Lists Pool = 1 << iota // of changes and of snapshots
	Texts                  // files that are compared, and imports
	Gits                   // merges of texts, and git's own
)

// budget is a pool of memory for the workspace of a request. It panics unless the operation
// says that it charges it.
func (r *Request) budget(s *Service, p Pool) *budget.Budget {
	if r.op != nil && r.op.Charges&p == 0 {
		panic(r.op.Name + " does not say that it charges this pool")
	}
	switch {
	case p == Lists:
		return s.Lists.Of(r.Workspace.Tenant())
	case p == Texts:
		return s.Memory.Of(r.Workspace.Tenant())
	case r.Workspace.IsFork():
		return s.Git.Of(r.Workspace.Tenant())
	}
	return s.mainGit // main waits for no fork's
}

// carryOut carries out an operation when it is its turn.
func (o *Op) carryOut(s *Service, ctx context.Context, r *Request, args any) (result any, err error) {
	r.op = o
	if o.Cost == Cheap {
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
