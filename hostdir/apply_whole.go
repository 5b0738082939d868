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
func (a *applying) planWhole(whole []threeway.Whole) (changes []tree.Change, err error) {
	for _, w := range whole {
		if a.o.Choose != nil && slices.ContainsFunc(w.Changes, func(c tree.Change) bool { return a.o.Choose(c.Path.String()).Leave }) {
			continue // no part of it is applied without the others
		}
		a.whole[w.Dir] = true
		disputed, err := w.Disputed(a.o.Source, a.o.Base, a.o.Now, Receiver{a})
		if err != nil {
			return nil, err
		}
		if !disputed {
			changes = append(changes, w.Changes...)
			continue
		}
		s := &applyStep{}
		if s.change.Path, err = tree.ParsePath(w.Dir); err != nil {
			return nil, err
		}
		if s.change.Before, err = a.o.Base.At(a.o.Source, w.Dir); err != nil {
			return nil, err
		}
		if s.change.After, err = a.o.Now.At(a.o.Source, w.Dir); err != nil {
			return nil, err
		}
		if a.choose(s) || !a.conflict(s, false) {
			continue
		}
		all, err := a.replaceAll(w)
		if err != nil {
			return nil, err
		}
		changes = append(changes, all...)
	}
	return changes, nil
}

// replaceAll returns a change for each path of a directory, here or in the workspace, to what the
// workspace has.
func (a *applying) replaceAll(w threeway.Whole) (all []tree.Change, err error) {
	paths, err := Receiver{a}.Below(w.Dir)
	if err != nil {
		return nil, err
	}
	for _, st := range []*tree.State{a.o.Base, a.o.Now} {
		more, err := threeway.Below(a.o.Source, st, w.Dir)
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
		c, err := a.changeTo(p)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// planIn plans a path of a directory that is taken whole.
func (a *applying) planIn(s *applyStep) error {
	conflict, err := a.judge(s)
	if err != nil {
		return err
	}
	p := s.change.Path
	if conflict && s.seen.unreachable != nil && !errors.Is(s.seen.unreachable, unix.ENOENT) {
		a.blocked = append(a.blocked, p.Short())
	}
	s.todo = s.todo || conflict && (s.change.After != nil || s.seen.exists)
	s.forced = conflict
	return nil
}

// A Receiver is the directory that changes are applied to.
type Receiver struct{ a *applying }

func (r Receiver) Below(dir string) (out []string, err error) {
	p, err := tree.ParsePath(dir)
	if err != nil {
		return nil, err
	}
	at, err := r.a.host.look(p)
	if err != nil || !at.exists {
		return nil, err
	}
	if out = append(out, dir); !at.isDir() {
		return out, nil
	}
	names, err := r.a.host.list(p)
	if err != nil {
		return nil, err
	}
	for _, e := range names {
		if strings.HasPrefix(e.Name(), r.a.host.temps) {
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
	at, err := r.a.host.look(p)
	if err != nil {
		return false, err
	}
	return r.a.host.same(r.a.o.Source, p, at, n)
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
