package live

import (
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// ErrProtected means that a path is read-only in its workspace.
var ErrProtected = errs.New(errs.ReadOnly, "read_only in the policy of the workspace names this path, or one above it")

// protection has the read-only paths of a view. The files and directories at and below these paths cannot be
// changed, not even through a hard link at another path. The directories above a read-only path cannot be renamed
// or replaced by a rename. So the read-only paths of an inode change only in an edit, and byIno caches them until
// the next edit.
type protection struct {
	root  *protectedPath            // the read-only paths of the whole view; nil: no path is read-only
	byIno map[uint64]*protectedPath // by inode number
}

// A protectedPath has the read-only paths at and below one path.
type protectedPath struct {
	readOnly bool                      // the path is read-only
	children map[string]*protectedPath // names below the path
}

var unprotected = &protectedPath{}

// maxCachedInodes is the largest number of inodes in protection.byIno.
const maxCachedInodes = 1 << 16

// SetReadOnlyPaths sets the read-only paths of a view, if it exists.
func (tx *Tx) SetReadOnlyPaths(view uint32, paths []string) {
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
			next := at.children[name]
			if next == nil {
				next = &protectedPath{}
				if at.children == nil {
					at.children = make(map[string]*protectedPath)
				}
				at.children[name] = next
			}
			at = next
		}
		at.readOnly = true
	}
}

// clearCache clears byIno after an edit, which may have changed the paths of inodes.
func (p *protection) clearCache() { p.byIno = nil }

// child returns the read-only paths at and below a name in the directory.
func (p *protectedPath) child(name string) *protectedPath {
	switch next := p.children[name]; {
	case p.readOnly:
		return p
	case next != nil:
		return next
	}
	return unprotected
}

// protectedPathsAt returns the read-only paths at and below an inode.
func (v *view) protectedPathsAt(ino uint64) (*protectedPath, error) {
	p := &v.protection
	if ino == RootIno {
		return p.root, nil
	}
	if known := p.byIno[ino]; known != nil {
		return known, nil
	}

	n, err := v.inode(ino)
	if err != nil {
		return nil, err
	}

	found := unprotected
	for _, link := range n.Links {
		parent, err := v.protectedPathsAt(link.Parent)
		if err != nil {
			return nil, err
		}
		if at := parent.child(link.Name); at.readOnly || n.IsDir() {
			found = at
		}
		if found.readOnly {
			break
		}
	}

	if p.byIno == nil || len(p.byIno) >= maxCachedInodes {
		p.byIno = make(map[uint64]*protectedPath)
	}
	p.byIno[ino] = found

	return found, nil
}

// checkUnprotected returns ErrProtected if a record changes a read-only path.
func (v *view) checkUnprotected(r *record) error {
	if v.protection.root == nil {
		return nil
	}

	switch r.kind {
	case recCreate:
		if r.name == "" {
			return v.checkInodeUnprotected(r.parent)
		}
		return v.checkNameUnprotected(r.parent, r.name, false)
	case recUnlink:
		return v.checkNameUnprotected(r.parent, r.name, false)
	case recLink:
		if err := v.checkNameUnprotected(r.parent, r.name, false); err != nil {
			return err
		}
		return v.checkInodeUnprotected(r.ino)
	case recRename:
		if err := v.checkNameUnprotected(r.parent, r.name, true); err != nil {
			return err
		}
		return v.checkNameUnprotected(r.newLink.Parent, r.newLink.Name, true)
	}

	return v.checkInodeUnprotected(r.ino)
}

func (v *view) checkInodeUnprotected(ino uint64) error {
	at, err := v.protectedPathsAt(ino)
	if err == nil && at.readOnly {
		err = ErrProtected
	}
	return err
}

// checkNameUnprotected returns ErrProtected if the path of a name in a directory is read-only. If the name is
// moved or replaced, it also returns ErrProtected if a path below it is read-only.
func (v *view) checkNameUnprotected(parent uint64, name string, moved bool) error {
	parentPaths, err := v.protectedPathsAt(parent)
	if err != nil {
		return err
	}
	if at := parentPaths.child(name); at.readOnly || moved && len(at.children) > 0 {
		return ErrProtected
	}
	return nil
}
