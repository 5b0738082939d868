package fsmodel

import (
	"strings"

	"golang.org/x/sys/unix"
)

const maxName = 255 // bytes

// lookup finds the directory that holds a path, and its last element there,
// nil when there is none. All symlinks of a model dangle, so walking through
// one ends in ENOENT.
func (fs *FS) lookup(path string) (dir *node, name string, n *node, err error) {
	parts := strings.Split(path, "/")
	dir = fs.root
	for _, part := range parts[:len(parts)-1] {
		next := dir.children[part]
		switch {
		case len(part) > maxName:
			return nil, "", nil, unix.ENAMETOOLONG
		case next == nil || next.isSymlink():
			return nil, "", nil, unix.ENOENT
		case !next.isDir():
			return nil, "", nil, unix.ENOTDIR
		}
		dir = next
	}
	name = parts[len(parts)-1]
	if len(name) > maxName {
		return nil, "", nil, unix.ENAMETOOLONG
	}
	return dir, name, dir.children[name], nil
}

// follow is lookup for calls that follow a symlink and need the file.
func (fs *FS) follow(path string) (*node, error) {
	_, _, n, err := fs.lookup(path)
	if err == nil && (n == nil || n.isSymlink()) {
		err = unix.ENOENT
	}
	return n, err
}

// writable is follow for calls that write into a regular file.
func (fs *FS) writable(path string) (*node, error) {
	n, err := fs.follow(path)
	if err == nil && n.isDir() {
		err = unix.EISDIR
	}
	return n, err
}

// Apply performs the operation on a model. The error is the errno that the
// real call must give; the model is unchanged then.
func (op Op) Apply(fs *FS) error {
	switch op.Kind {
	case Create:
		return fs.add(op.Path, &node{mode: unix.S_IFREG | op.Mode})
	case Mkdir:
		return fs.add(op.Path, &node{mode: unix.S_IFDIR | op.Mode, children: map[string]*node{}})
	case Mkfifo:
		return fs.add(op.Path, &node{mode: unix.S_IFIFO | op.Mode})
	case Symlink:
		return fs.add(op.Path, &node{mode: unix.S_IFLNK | 0o777, target: op.To})
	case Link:
		_, _, n, err := fs.lookup(op.Path)
		if err != nil {
			return err
		}
		if n == nil {
			return unix.ENOENT
		}
		if n.isDir() {
			if dir, _, there, err := fs.lookup(op.To); dir == nil || there != nil {
				return orElse(err, unix.EEXIST)
			}
			return unix.EPERM
		}
		return fs.add(op.To, n)
	case Unlink, Rmdir:
		return fs.remove(op)
	case Rename, RenameNoReplace, RenameExchange, RenameWhiteout:
		return fs.rename(op)
	case Chmod, SetXattr, RemoveXattr, CreateXattr, ReplaceXattr:
		return fs.setAttr(op)
	case Copy:
		return fs.copyRange(op)
	default:
		return fs.change(op)
	}
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func (fs *FS) add(path string, n *node) error {
	dir, name, there, err := fs.lookup(path)
	if err != nil {
		return err
	}
	if there != nil {
		return unix.EEXIST
	}
	dir.children[name] = n
	return nil
}

func (fs *FS) remove(op Op) error {
	dir, name, n, err := fs.lookup(op.Path)
	switch {
	case err != nil:
		return err
	case n == nil:
		return unix.ENOENT
	case op.Kind == Unlink && n.isDir():
		return unix.EISDIR
	case op.Kind == Rmdir && !n.isDir():
		return unix.ENOTDIR
	case op.Kind == Rmdir && len(n.children) > 0:
		return unix.ENOTEMPTY
	}
	delete(dir.children, name)
	return nil
}

// rename follows do_renameat2 and vfs_rename of the kernel's fs/namei.c in the
// order of their checks.
func (fs *FS) rename(op Op) error {
	oldDir, oldName, n, err := fs.lookup(op.Path)
	if err != nil {
		return err
	}
	newDir, newName, there, err := fs.lookup(op.To)
	if err != nil {
		return err
	}
	exchange := op.Kind == RenameExchange
	switch {
	case n == nil:
		return unix.ENOENT
	case op.Kind == RenameNoReplace && there != nil:
		return unix.EEXIST
	case exchange && there == nil:
		return unix.ENOENT
	case strings.HasPrefix(op.To, op.Path+"/"):
		return unix.EINVAL
	case strings.HasPrefix(op.Path, op.To+"/"):
		if exchange {
			return unix.EINVAL
		}
		return unix.ENOTEMPTY
	case n == there:
		return nil
	}
	if exchange {
		oldDir.children[oldName], newDir.children[newName] = there, n
		return nil
	}
	if there != nil {
		switch {
		case n.isDir() && !there.isDir():
			return unix.ENOTDIR
		case !n.isDir() && there.isDir():
			return unix.EISDIR
		case there.isDir() && len(there.children) > 0:
			return unix.ENOTEMPTY
		}
	}
	delete(oldDir.children, oldName)
	newDir.children[newName] = n
	if op.Kind == RenameWhiteout {
		oldDir.children[oldName] = &node{mode: unix.S_IFCHR}
	}
	return nil
}

func (fs *FS) setAttr(op Op) error {
	n, err := fs.follow(op.Path)
	if err != nil {
		return err
	}
	_, there := n.xattrs[op.Name]
	switch op.Kind {
	case Chmod:
		n.mode = n.mode&unix.S_IFMT | op.Mode
	case SetXattr, CreateXattr, ReplaceXattr:
		if there && op.Kind == CreateXattr {
			return unix.EEXIST
		}
		if !there && op.Kind == ReplaceXattr {
			return unix.ENODATA
		}
		if n.xattrs == nil {
			n.xattrs = map[string]string{}
		}
		n.xattrs[op.Name] = op.Value()
	case RemoveXattr:
		if !there {
			return unix.ENODATA
		}
		delete(n.xattrs, op.Name)
	}
	return nil
}

func (fs *FS) change(op Op) error {
	n, err := fs.writable(op.Path)
	if err != nil {
		return err
	}
	switch op.Kind {
	case Write:
		n.data = Splice(n.data, op.Off, op.Bytes())
	case Append:
		n.data = Splice(n.data, int64(len(n.data)), op.Bytes())
	case Truncate:
		n.data = Resize(n.data, op.Len)
	case Allocate:
		n.data = Resize(n.data, max(int64(len(n.data)), op.Off+op.Len))
	case Punch:
		if end := min(op.Off+op.Len, int64(len(n.data))); end > op.Off {
			n.data = Splice(n.data, op.Off, make([]byte, end-op.Off))
		}
	}
	return nil
}

func (fs *FS) copyRange(op Op) error {
	src, err := fs.writable(op.Path)
	if err != nil {
		return err
	}
	dst, err := fs.writable(op.To)
	if err != nil {
		return err
	}
	length := min(op.Len, max(0, int64(len(src.data))-op.Off))
	if length == 0 {
		return nil
	}
	if src == dst && op.Off < op.ToOff+length && op.ToOff < op.Off+length {
		return unix.EINVAL
	}
	dst.data = Splice(dst.data, op.ToOff, src.data[op.Off:op.Off+length])
	return nil
}
