package live

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ReadDir calls fn for the entries of a directory without `.` and `..`, until fn returns false. afterCookie is the
// cookie of the last entry of the previous call, or 0. ReadDir begins with the entry behind it. Entries that exist
// during the whole listing are listed once, even if other entries are added or removed.
func (r Reader) ReadDir(id NodeID, afterCookie uint64, fn func(e tree.Dirent, cookie uint64) bool) error {
	return list(r.trees, id, afterCookie, func(_ *tree.State, e tree.Dirent, cookie uint64) (bool, error) { return fn(e, cookie), nil })
}

// ReadDirPlus works as ReadDir, but also passes the attributes of each entry. The attributes are nil if the
// inode is damaged or is not on this machine: a later Lookup returns the error or fetches the inode. So a
// program that needs only the names does not wait for the network.
func (r Reader) ReadDirPlus(id NodeID, afterCookie uint64, fn func(e tree.Dirent, a *Attr, cookie uint64) bool) error {
	var a Attr
	return list(r.trees, id, afterCookie, func(s *tree.State, e tree.Dirent, cookie uint64) (bool, error) {
		n, err := s.Get(r.trees.residentSrc, e.Ino)
		if _, unread := errors.AsType[*tree.Unread](err); unread {
			return false, err
		}
		if err != nil {
			return fn(e, nil, cookie), nil
		}

		a = attrOf(id.View(), n)
		return fn(e, &a, cookie), nil
	})
}

// list lists a directory for ReadDir and ReadDirPlus. It passes the state of the view to fn. If fn returns an
// Unread error, list calls fn again for this entry when the object is in memory.
func list(t *trees, id NodeID, afterCookie uint64, fn func(s *tree.State, e tree.Dirent, cookie uint64) (bool, error)) (err error) {
	begin := afterCookie

	for more := true; more; {
		from, tries := afterCookie, 0
		err = t.withReadLock(func() error {
			tries++
			if more = tries > tree.MaxFetched && afterCookie > from; more {
				return nil // drop the objects that were read so far, and continue after the last entry
			}

			dir, err := t.inode(id)
			if err != nil {
				return err
			}
			if !dir.IsDir() {
				return errs.NotDir
			}

			s, err := t.stateOf(id)
			if err != nil {
				return err
			}

			var unread error
			err = dir.Dir.List(t.residentSrc, afterCookie, func(e tree.Dirent, cookie uint64) (more bool) {
				if more, unread = fn(s, e, cookie); unread == nil {
					afterCookie = cookie
				}
				return more
			})

			return cmp.Or(err, unread)
		})
	}
	if afterCookie > begin && errs.KindOf(err) == errs.Unreachable {
		return nil // the next call lists the rest
	}

	return tree.LoadError(err)
}

// Parent returns the parent of a directory. The parent of a root is the root.
func (r Reader) Parent(id NodeID) (NodeID, error) {
	return readInode(r.trees, id, func(n *tree.Inode) (NodeID, error) {
		if len(n.Links) == 0 {
			return Node(id.View(), RootIno), nil
		}
		return Node(id.View(), n.Links[0].Parent), nil
	})
}

// Path returns a path of a node relative to the root of its view, "" for the root. If the path is longer than
// maxBytes, it returns only the end of the path. Callers pass PATH_MAX or less, because no program can use a
// longer path. The error is errs.NotExist if the node has no name any more.
func (r Reader) Path(id NodeID, maxBytes int) (string, error) {
	var names []string
	if err := r.trees.withReadLock(func() error {
		names = nil

		for ino, length := id.Ino(), 0; ino != RootIno && length <= maxBytes; {
			n, err := r.trees.inode(Node(id.View(), ino))
			if err != nil {
				return err
			}
			if len(n.Links) == 0 {
				return errs.NotExist
			}

			l := n.Links[0]
			names, ino, length = append(names, l.Name), l.Parent, length+len(l.Name)+1
		}

		return nil
	}); err != nil {
		return "", err
	}

	slices.Reverse(names)
	p := strings.Join(names, "/")
	return p[max(0, len(p)-maxBytes):], nil
}

// Forget removes a node if it is an orphan. It is called when the kernel has dropped its last reference to the
// node.
func (t Takeover) Forget(id NodeID) {
	t.trees.mu.RLock()
	defer t.trees.mu.RUnlock()
	if v, ok := t.trees.mu.views[id.View()]; ok && !t.trees.isHeld(id) {
		v.orphans.remove(t.trees.waitingSrc, t.trees.mu.epoch, id.Ino())
	}
}
