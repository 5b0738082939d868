package live

import (
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// ErrProtected means that a path is read-only in its workspace.
var ErrProtected = errs.New(errs.ReadOnly, "read_only in the policy of the workspace names this path, or one above it")

// protection lists the read-only paths of a view. The files and directories at and below these paths cannot
// be changed, also not by other names of the files. The directories above a read-only path cannot be renamed
// or replaced by a rename. So the read-only paths of an inode change only in an edit, and known caches
// them until the next edit.
type protection struct {
	root  *protectedPath            // the read-only paths of the whole view; nil: no path is read-only
	known map[uint64]*protectedPath // by inode number
}

// protectedPath describes the read-only paths at and below a path.
type protectedPath struct {
	all   bool // the path is read-only
	below map[string]*protectedPath
}

var unprotected = &protectedPath{}

// maxKnown is the largest number of inodes in protection.known.
const maxKnown = 1 << 16

// Protect sets the read-only paths of a view, if it exists.
func (tx *Tx) Protect(view uint32, paths []string) {
	v, ok := tx.trees.mu.views[view]
	if !ok {
		return
	}

	v.protection = protection{}
	if len(paths) == 0 {
		return
	}

	v.protection.root = &protectedPath{}
	for _, p := range paths {
		at := v.protection.root
		for name := range strings.SplitSeq(p, "/") {
			next := at.below[name]
			if next == nil {
				next = &protectedPath{}
				if at.below == nil {
					at.below = make(map[string]*protectedPath)
				}
				at.below[name] = next
			}
			at = next
		}
		at.all = true
	}
}

// forget clears known after an edit, which may have changed the paths of inodes.
func (p *protection) forget() { p.known = nil }

// at returns the read-only paths at and below a name in a directory.
func (p *protectedPath) at(name string) *protectedPath {
	switch next := p.below[name]; {
	case p.all:
		return p
	case next != nil:
		return next
	}
	return unprotected
}

// protectedAt returns the read-only paths at and below an inode.
func (v *view) protectedAt(ino uint64) (*protectedPath, error) {
	p := &v.protection
	if ino == RootIno {
		return p.root, nil
	}
	if known := p.known[ino]; known != nil {
		return known, nil
	}

	n, err := v.inode(ino)
	if err != nil {
		return nil, err
	}

	found := unprotected
	for _, link := range n.Links {
		above, err := v.protectedAt(link.Parent)
		if err != nil {
			return nil, err
		}
		if at := above.at(link.Name); at.all || n.IsDir() {
			found = at
		}
		if found.all {
			break
		}
	}

	if p.known == nil || len(p.known) >= maxKnown {
		p.known = make(map[uint64]*protectedPath)
	}
	p.known[ino] = found

	return found, nil
}

// mayChange returns ErrProtected if a record changes a read-only path.
func (v *view) mayChange(r *record) error {
	if v.protection.root == nil {
		return nil
	}

	switch r.kind {
	case recCreate:
		if r.name == "" {
			return v.mayChangeInode(r.parent)
		}
		return v.mayChangeName(r.parent, r.name, false)
	case recUnlink:
		return v.mayChangeName(r.parent, r.name, false)
	case recLink:
		if err := v.mayChangeName(r.parent, r.name, false); err != nil {
			return err
		}
		return v.mayChangeInode(r.ino)
	case recRename:
		if err := v.mayChangeName(r.parent, r.name, true); err != nil {
			return err
		}
		return v.mayChangeName(r.to.Parent, r.to.Name, true)
	}

	return v.mayChangeInode(r.ino)
}

func (v *view) mayChangeInode(ino uint64) error {
	at, err := v.protectedAt(ino)
	if err == nil && at.all {
		err = ErrProtected
	}
	return err
}

// mayChangeName returns ErrProtected if a name in a directory may not be changed, because its path is
// read-only. If the name is moved or replaced, no path below it may be read-only either.
func (v *view) mayChangeName(parent uint64, name string, moved bool) error {
	above, err := v.protectedAt(parent)
	if err != nil {
		return err
	}
	if at := above.at(name); at.all || moved && len(at.below) > 0 {
		return ErrProtected
	}
	return nil
}
