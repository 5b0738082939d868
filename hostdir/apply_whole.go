package hostdir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// planWhole decides about the directories that are one entry to a merge. Of their changes it returns
// those that are made: as they are if the directory did not change there, and those from what the
// directory has if it is replaced.
func (pl *planner) planWhole(whole []threeway.Whole) (changes []tree.Change, err error) {
	for _, w := range whole {
		if pl.o.Choose != nil && slices.ContainsFunc(w.Changes, func(c tree.Change) bool { return pl.o.Choose(c.Path.String()).Leave }) {
			continue // no part of it is applied without the others
		}
		pl.whole[w.Dir] = true
		disputed, err := w.Disputed(pl.o.Source, pl.o.Base, pl.o.Now, Receiver{pl})
		if err != nil {
			return nil, err
		}
		if !disputed {
			changes = append(changes, w.Changes...)
			continue
		}
		d := &decision{step: &step{}}
		if d.change.Path, err = tree.ParsePath(w.Dir); err != nil {
			return nil, err
		}
		if d.change.Before, err = pl.o.Base.At(pl.o.Source, w.Dir); err != nil {
			return nil, err
		}
		if d.change.After, err = pl.o.Now.At(pl.o.Source, w.Dir); err != nil {
			return nil, err
		}
		if pl.choose(d) || !pl.conflict(d, false) {
			continue
		}
		all, err := pl.replaceAll(w)
		if err != nil {
			return nil, err
		}
		changes = append(changes, all...)
	}
	return changes, nil
}

// replaceAll returns a change for each path of a directory, here or in the workspace, to what the
// workspace has.
func (pl *planner) replaceAll(w threeway.Whole) (all []tree.Change, err error) {
	paths, err := Receiver{pl}.Below(w.Dir)
	if err != nil {
		return nil, err
	}
	for _, st := range []*tree.State{pl.o.Base, pl.o.Now} {
		more, err := threeway.Below(pl.o.Source, st, w.Dir)
		if err != nil {
			return nil, err
		}
		paths = append(paths, more...)
	}
	slices.SortFunc(paths, tree.ComparePaths)
	for _, name := range slices.Compact(paths) {
		p, err := tree.ParsePath(name)
		if err != nil {
			return nil, err
		}
		c, err := pl.changeTo(p)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// planIn plans a path of a directory that is taken whole.
func (pl *planner) planIn(d *decision) error {
	conflict, err := pl.judge(d)
	if err != nil {
		return err
	}
	p := d.change.Path
	if conflict && d.seen.unreachable != nil && !errors.Is(d.seen.unreachable, unix.ENOENT) {
		pl.blocked = append(pl.blocked, p.Short())
	}
	if conflict {
		d.replace()
	}
	return nil
}

// A Receiver is the directory that changes are applied to.
type Receiver struct{ pl *planner }

func (r Receiver) Below(dir string) (out []string, err error) {
	p, err := tree.ParsePath(dir)
	if err != nil {
		return nil, err
	}
	at, err := r.pl.host.look(p)
	if err != nil || !at.exists {
		return nil, err
	}
	if out = append(out, dir); !at.isDir() {
		return out, nil
	}
	names, err := r.pl.host.list(p)
	if err != nil {
		return nil, err
	}
	for _, e := range names {
		if strings.HasPrefix(e.Name(), r.pl.host.temps) {
			continue // it is swept
		}
		below := dir + "/" + e.Name()
		if !e.IsDir() {
			out = append(out, below)
			continue
		}
		more, err := r.Below(below)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

func (r Receiver) Has(name string, n *tree.Inode) (bool, error) {
	p, err := tree.ParsePath(name)
	if err != nil {
		return false, err
	}
	at, err := r.pl.host.look(p)
	if err != nil {
		return false, err
	}
	return r.pl.host.same(r.pl.o.Source, p, at, n)
}

// list returns the entries of a directory.
func (h *host) list(p *tree.Path) (entries []fs.DirEntry, err error) {
	fd, err := h.open(p)
	if err == nil {
		dir := fd
		err = h.opening(dir, p, func() (err error) {
			fd, err = unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			return err
		})
	}
	if err == nil {
		f := os.NewFile(uintptr(fd), p.Short())
		entries, err = f.ReadDir(-1)
		err = errors.Join(reason(err), f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", cmp.Or(p.Short(), "."), err)
	}
	return entries, nil
}
