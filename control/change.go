package control

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Mkdir captures, or forks.
func (t *Tree) Mkdir(dir live.NodeID, name string, r Request) (e Entry, err error) {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return Entry{}, err
	}
	if forks {
		err = t.run(ws, forkName, r, func(ctx context.Context) (result, error) {
			return t.fork(ctx, ws, service.Fork{Name: name}, r)
		})
		if err != nil {
			return Entry{}, err
		}
		return t.lookupFork(ws, name)
	}
	var info snapshot.Info
	err = t.run(ws, createName, r, func(ctx context.Context) (result, error) {
		info, err = service.Do[snapshot.Info](ctx, t.Service, r.ask(ws), service.Snapshot{Name: name})
		return result{Name: info.Name, Seq: info.Seq}, err
	})
	if err != nil {
		return Entry{}, err
	}
	return t.snapshotEntry(info)
}

// Rmdir deletes a snapshot, or ends a fork, though neither is empty.
func (t *Tree) Rmdir(dir live.NodeID, name string, r Request) error {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}
	if forks {
		return t.run(ws, forkName, r, func(ctx context.Context) (result, error) {
			done, err := service.Do[service.Ended](ctx, t.Service, r.ask(ws), service.EndFork{Name: name})
			return result{Fork: done.Name, Snapshot: done.Snapshot}, err
		})
	}
	return t.run(ws, createName, r, func(ctx context.Context) (result, error) {
		if err := checkNoFile(name, "removed"); err != nil {
			return result{}, err
		}
		_, err := service.Do[service.Removed](ctx, t.Service, r.ask(ws), service.Remove{Names: []string{name}})
		return result{Name: name}, err
	})
}

// checkNoFile refuses what is done to the control files as if they were snapshots.
func checkNoFile(name, done string) error {
	if _, ok := findFile(name); ok {
		return errs.New(errs.Protected, "protected: %s belongs to .snapshots and cannot be %s", name, done)
	}
	return nil
}

// Rename renames a snapshot or a fork, restores (`restore` to `restore@NAME`), or
// moves a scratch file onto a control file. Only within one control directory.
func (t *Tree) Rename(dir live.NodeID, from string, newDir live.NodeID, to string, flags uint32, r Request) error {
	if dir != newDir {
		// Not EXDEV: mv would copy then, and mkdir in here captures.
		if IsNode(newDir) {
			return live.ErrPerm
		}
		return live.ErrReadOnly
	}
	if flags&^unix.RENAME_NOREPLACE != 0 {
		return live.ErrInvalid
	}
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}
	if forks {
		return t.run(ws, forkName, r, func(ctx context.Context) (result, error) {
			done, err := service.Do[service.Forked](ctx, t.Service, r.ask(ws), service.RenameFork{From: from, To: to})
			return result{Fork: done.Name}, err
		})
	}
	return t.rename(ws, from, to, r)
}

func (t *Tree) rename(ws *snapshot.Workspace, from, to string, r Request) error {
	if name, ok := parseRestore(to); ok && from == restoreName {
		return t.run(ws, restoreName, r, func(ctx context.Context) (result, error) {
			return t.restore(ctx, ws, service.Restore{Name: name}, r)
		})
	}
	if n := t.scratch(ws, from); n != nil {
		return t.renameScratch(n, to, r)
	}
	if isCall(from) {
		return t.renameCall(ws, from, to)
	}
	return t.run(ws, createName, r, func(ctx context.Context) (result, error) {
		if err := checkNoFile(from, "renamed"); err != nil {
			return result{}, err
		}
		_, err := service.Do[snapshot.Info](ctx, t.Service, r.ask(ws), service.Rename{From: from, To: to})
		return result{Name: to}, err
	})
}
