package live

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A change reads pages of directories and of the table of inodes that who asked for
// it has not looked at: the neighbours of a page that becomes too small, say. The
// functions here read them before anything is journaled, so that damage there is an
// error of this one change.

// mayAdd reads what it takes to enter an inode under a name that is not there.
func (f *Forest) mayAdd(v *view, parent uint64, name string, ino uint64) error {
	dir, err := f.inodeOf(v, parent)
	if err == nil {
		err = loadError(dir.Dir.MayInsert(f.src, name))
	}
	if err == nil {
		err = loadError(v.state.MayPut(f.src, ino))
	}
	return err
}

// mayDrop reads what it takes to remove names.
func (f *Forest) mayDrop(v *view, parent uint64, names ...string) error {
	dir, err := f.inodeOf(v, parent)
	if err != nil {
		return err
	}
	return loadError(dir.Dir.MayRemove(f.src, names...))
}

func (f *Forest) mayRename(v *view, r *record) error {
	if r.flags&unix.RENAME_EXCHANGE != 0 {
		return nil // no name comes or goes
	}
	to, err := f.inodeOf(v, r.parent2)
	if err != nil {
		return err
	}
	_, occupied, err := to.Dir.Lookup(f.src, r.name2)
	switch {
	case err != nil:
	case !occupied:
		err = to.Dir.MayInsert(f.src, r.name2)
	case r.parent == r.parent2:
		return f.mayDrop(v, r.parent, r.name, r.name2)
	default:
		err = to.Dir.MayRemove(f.src, r.name2)
	}
	if err != nil {
		return loadError(err)
	}
	return f.mayDrop(v, r.parent, r.name)
}

// passDamage sees to it that the page of a view's table which the next new inode
// belongs in can be read: else that page stays as it is, and the next one is begun.
func (f *Forest) passDamage(v *view) error {
	err := loadError(v.state.MayPut(f.src, f.mu.nextIno))
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	next := (f.mu.nextIno/tree.PageInodes + 1) * tree.PageInodes
	if v.state.MayPut(f.src, next) != nil {
		return err
	}
	f.mu.nextIno = next
	return nil
}

// MayGraft returns an error if Graft could fail half-way, and the number that the
// first inode will get which it makes.
func (tx *Tx) MayGraft(view uint32, prefix string, changes []tree.Change) (firstIno uint64, err error) {
	f := tx.f
	v, ok := f.mu.views[view]
	if !ok {
		return 0, ErrStale
	}
	type names struct{ gone, come []string }
	dirs := make(map[string]*names)
	for _, c := range changes {
		p := path.Join(prefix, c.Path)
		if c.A != nil && c.B != nil && c.A.IsDir() && c.B.IsDir() || p == "" || p == "." {
			continue
		}
		d := dirs[path.Dir(p)]
		if d == nil {
			d = &names{}
			dirs[path.Dir(p)] = d
		}
		if c.A != nil {
			d.gone = append(d.gone, path.Base(p))
		}
		if c.B != nil {
			d.come = append(d.come, path.Base(p))
		}
	}
	for p, d := range dirs {
		if p == "." {
			p = ""
		}
		n, err := v.state.Resolve(f.src, p)
		if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || errors.Is(err, tree.ErrSymlink) || err == nil && !n.IsDir() {
			continue // it is to be made
		}
		if err == nil {
			err = n.Dir.MayRemove(f.src, d.gone...)
		}
		if err == nil {
			err = n.Dir.MayInsert(f.src, d.come...)
		}
		if err != nil {
			return 0, loadError(err)
		}
	}
	err = f.passDamage(v)
	return f.mu.nextIno, err
}
