package live

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ReadDir lists a directory without `.` and `..`, from the entry after the
// given cookie on (0: from the start), until fn returns false. Entries that
// are there all the while are listed once, whatever comes and goes meanwhile.
func (f *Reader) ReadDir(id NodeID, after uint64, fn func(e tree.Dirent, cookie uint64) bool) error {
	return f.list(id, after, func(_ *tree.State, e tree.Dirent, cookie uint64) (bool, error) { return fn(e, cookie), nil })
}

// ReadDirPlus is ReadDir with the attributes of each entry, nil for an entry
// whose inode cannot be read or is not on this machine: looking it up returns the error, or
// fetches it. So a program that wants the names alone waits for nothing else.
func (f *Reader) ReadDirPlus(id NodeID, after uint64, fn func(e tree.Dirent, a *Attr, cookie uint64) bool) error {
	var a Attr
	return f.list(id, after, func(s *tree.State, e tree.Dirent, cookie uint64) (bool, error) {
		n, err := s.Get(f.src, e.Ino)
		if _, lacks := errors.AsType[*tree.Unread](err); lacks {
			return false, err
		}
		if err != nil {
			return fn(e, nil, cookie), nil
		}
		a = attrOf(id.View(), n)
		return fn(e, &a, cookie), nil
	})
}

func (f *Reader) list(id NodeID, after uint64, fn func(s *tree.State, e tree.Dirent, cookie uint64) (bool, error)) (err error) {
	begin := after
	for more := true; more; {
		from, tries := after, 0
		err = f.reading(func() error {
			tries++
			if more = tries > tree.MaxFetched && after > from; more {
				return nil // what was lacked until here is not needed any more
			}
			dir, err := f.inode(id)
			if err != nil {
				return err
			}
			if !dir.IsDir() {
				return errs.NotDir
			}
			s, err := f.stateOf(id)
			if err != nil {
				return err
			}
			var lacks error
			err = dir.Dir.List(f.src, after, func(e tree.Dirent, cookie uint64) (more bool) {
				if more, lacks = fn(s, e, cookie); lacks == nil {
					after = cookie
				}
				return more
			})
			return cmp.Or(err, lacks)
		})
	}
	if after > begin && errs.Of(err) == errs.Away {
		return nil // the rest is listed by the next call
	}
	return tree.LoadError(err)
}

// Parent returns the directory that a directory lies in; a root's is itself.
func (f *Reader) Parent(id NodeID) (NodeID, error) {
	return look(f, id, func(n *tree.Inode) (NodeID, error) {
		if len(n.Links) == 0 {
			return Node(id.View(), RootIno), nil
		}
		return Node(id.View(), n.Links[0].Parent), nil
	})
}

// Path returns a path of a node from the root of its view, "" for the root
// itself; of one that is longer than so many bytes only the end. No program can use one
// of PATH_MAX. errs.NotExist for what has no name any more.
func (f *Reader) Path(id NodeID, most int) (string, error) {
	var names []string
	if err := f.reading(func() error {
		names = nil
		for ino, length := id.Ino(), 0; ino != RootIno && length <= most; {
			n, err := f.inode(Node(id.View(), ino))
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
	return p[max(0, len(p)-most):], nil
}

// Forget is called when the kernel has no reference to a node any more.
func (f *Takeover) Forget(id NodeID) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if v, ok := f.mu.views[id.View()]; ok && !f.Held(id) {
		v.orphans.remove(f.waiting, f.mu.epoch, id.Ino())
	}
}
