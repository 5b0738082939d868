package live

import (
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// ReadDir lists a directory without `.` and `..`, from the entry after the
// given cookie on (0: from the start), until fn returns false. Entries that
// are there all the while are listed once, whatever comes and goes meanwhile.
func (f *Forest) ReadDir(id NodeID, after uint64, fn func(e tree.Dirent, cookie uint64) bool) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	dir, _, err := f.inode(id)
	if err != nil {
		return err
	}
	if !dir.IsDir() {
		return ErrNotDir
	}
	return loadError(dir.Dir.List(f.src, after, fn))
}

// ReadDirPlus is ReadDir with the attributes of each entry, nil for an entry
// whose inode cannot be read: looking it up tells why.
func (f *Forest) ReadDirPlus(id NodeID, after uint64, fn func(e tree.Dirent, a *Attr, cookie uint64) bool) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	dir, _, err := f.inode(id)
	if err != nil {
		return err
	}
	if !dir.IsDir() {
		return ErrNotDir
	}
	s, err := f.stateOf(id)
	if err != nil {
		return err
	}
	var a Attr
	return loadError(dir.Dir.List(f.src, after, func(e tree.Dirent, cookie uint64) bool {
		n, err := s.Get(f.src, e.Ino)
		if err != nil {
			return fn(e, nil, cookie)
		}
		a = attrOf(id.View(), n)
		return fn(e, &a, cookie)
	}))
}

// Parent returns the directory that a directory lies in; a root's is itself.
func (f *Forest) Parent(id NodeID) (NodeID, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, _, err := f.inode(id)
	if err != nil {
		return 0, err
	}
	if len(n.Links) == 0 {
		return Node(id.View(), RootIno), nil
	}
	return Node(id.View(), n.Links[0].Parent), nil
}

// Path returns a path of a node from the root of its view, "" for the root
// itself. ErrNotExist for what has no name any more.
func (f *Forest) Path(id NodeID) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var parts []string
	for ino := id.Ino(); ino != RootIno; {
		n, _, err := f.inode(Node(id.View(), ino))
		if err != nil {
			return "", err
		}
		if len(n.Links) == 0 {
			return "", ErrNotExist
		}
		parts = append(parts, n.Links[0].Name)
		ino = n.Links[0].Parent
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, "/"), nil
}

// Forget tells that the kernel holds a node no more.
func (f *Forest) Forget(id NodeID) {
	f.mu.RLock()
	v, ok := f.mu.views[id.View()]
	orphan := false
	if ok {
		_, orphan = v.orphans[id.Ino()]
	}
	f.mu.RUnlock()
	if !orphan {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.isHeld(id) {
		delete(v.orphans, id.Ino())
	}
}
