package control

import (
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Mkdir takes a snapshot or, in .forks, creates a fork.
func (t *Tree) Mkdir(dir live.NodeID, name string, r Request) (Entry, error) {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return Entry{}, err
	}

	if forks {
		if _, err := t.commands.perform(ws, forkName, r, snapshot.ForkOptions{Name: name}, nil); err != nil {
			return Entry{}, err
		}
		return t.lookupFork(ws, name)
	}

	made, err := t.commands.perform(ws, createName, r, snapshot.CaptureOptions{Name: name}, nil)
	if err != nil {
		return Entry{}, err
	}

	a, err := waitAttr(ws, live.Node(made.(info.Info).View, live.RootIno))
	return Entry{a, BriefCacheTime}, err
}

// Rmdir deletes a snapshot or a fork, although its root is not an empty directory. The deletion of a fork
// waits in the queue, because it reads the working directories of all processes.
func (t *Tree) Rmdir(dir live.NodeID, name string, r Request) error {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}
	if forks {
		_, err := t.commands.perform(ws, forkName, r, service.DeleteFork{Name: name, Rmdir: true}, nil)
		return err
	}

	_, err = t.commands.perform(ws, createName, r, service.Remove{Names: []string{name}}, checkNoControlFile(name, "removed"))
	return err
}

// checkNoControlFile returns an error if name is the name of a control file, which is not a snapshot. verb is
// "removed" or "renamed".
func checkNoControlFile(name, verb string) error {
	if _, ok := findFile(name); ok {
		return errs.New(errs.Protected, "protected: %s belongs to .snapshots and cannot be %s", name, verb)
	}
	return nil
}

// Rename renames a snapshot or a fork, restores a snapshot (`restore` to `restore@NAME`), or moves a
// scratch file onto a control file. Both names must be in one control directory.
func (t *Tree) Rename(dir live.NodeID, from string, newDir live.NodeID, to string, flags uint32, r Request) error {
	if dir != newDir {
		// The error is not EXDEV, because mv would then copy, and its mkdir would take a snapshot.
		if IsNode(newDir) {
			return errs.Perm
		}
		return live.ErrReadOnly
	}
	if flags&^unix.RENAME_NOREPLACE != 0 {
		return errs.Invalid
	}

	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}
	if forks {
		_, err := t.commands.perform(ws, forkName, r, service.RenameFork{From: from, To: to}, nil)
		return err
	}

	return t.renameInSnapshots(ws, from, to, r)
}

// renameInSnapshots carries out a rename in .snapshots.
func (t *Tree) renameInSnapshots(ws *snapshot.Workspace, from, to string, r Request) error {
	if name, ok := parseRestore(to); ok && from == restoreName {
		_, err := t.commands.perform(ws, restoreName, r, snapshot.RestoreOptions{Name: name}, nil)
		return err
	}
	if n := t.privateFile(ws, from); n != nil {
		return t.renamePrivate(n, to, r)
	}
	if r.Resent && isPrivateName(from) {
		return t.commands.renameLostFile(ws, to, r)
	}

	_, err := t.commands.perform(ws, createName, r, service.Rename{From: from, To: to}, checkNoControlFile(from, "renamed"))
	return err
}
