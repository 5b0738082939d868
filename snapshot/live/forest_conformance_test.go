package live_test

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/must"
)

// TestConformance tests each operation with its corners on a forest without a mount.
func TestConformance(t *testing.T) {
	y, err := newSystem(t)
	must.OK(t, err)
	defer func() { must.OK(t, y.close()) }()
	root, err := y.root("")
	must.OK(t, err)

	trees := 0
	fsmodel.Conformance(t, func(t *testing.T) fsmodel.System {
		trees++
		a, err := y.f.Create(root, fmt.Sprint("tree", trees), live.NewNode{Mode: unix.S_IFDIR | 0o755})
		must.OK(t, err)
		return directory{y, a.ID}
	})
}

// A directory of a forest is a System of package fsmodel. It looks names up, follows links and checks
// the kinds of files as the kernel does before it asks a file system.
type directory struct {
	y  *system
	id live.NodeID
}

// Do performs an operation.
func (d directory) Do(op fsmodel.Op) error { return errnoOf(d.do(op)) }

// errnoOf returns the errno that the kernel gets for an error of the forest.
func errnoOf(err error) error {
	var kind errs.Kind
	if !errors.As(err, &kind) {
		return err
	}
	errno, _ := kind.Errno()
	return errno
}

func (d directory) do(op fsmodel.Op) error {
	f := d.y.f
	parent, name, err := d.parent(op.Path)
	if err != nil {
		return err
	}

	switch op.Kind {
	case fsmodel.Create:
		return d.create(parent, name, live.NewNode{Mode: unix.S_IFREG | op.Mode})
	case fsmodel.Mkdir:
		return d.create(parent, name, live.NewNode{Mode: unix.S_IFDIR | op.Mode})
	case fsmodel.Mkfifo:
		return d.create(parent, name, live.NewNode{Mode: unix.S_IFIFO | op.Mode})
	case fsmodel.Symlink:
		return d.create(parent, name, live.NewNode{Mode: unix.S_IFLNK | 0o777, Target: op.To})
	case fsmodel.Unlink:
		_, err := f.Unlink(parent, name)
		return err
	case fsmodel.Rmdir:
		_, err := f.Rmdir(parent, name)
		return err
	case fsmodel.Link, fsmodel.Rename, fsmodel.RenameNoReplace, fsmodel.RenameExchange, fsmodel.RenameWhiteout:
		return d.twoNames(op, parent, name)
	}

	a, err := f.Lookup(parent, name)
	if err != nil {
		return err
	}
	if a.Mode&unix.S_IFMT == unix.S_IFLNK { // all links dangle
		return unix.ENOENT
	}
	switch op.Kind {
	case fsmodel.Chmod:
		_, err := f.SetAttr(a.ID, live.SetAttr{Mode: &op.Mode})
		return err
	case fsmodel.SetXattr:
		return f.SetXattr(a.ID, op.Name, []byte(op.Value()), 0, false)
	case fsmodel.CreateXattr:
		return f.SetXattr(a.ID, op.Name, []byte(op.Value()), unix.XATTR_CREATE, false)
	case fsmodel.ReplaceXattr:
		return f.SetXattr(a.ID, op.Name, []byte(op.Value()), unix.XATTR_REPLACE, false)
	case fsmodel.RemoveXattr:
		return f.RemoveXattr(a.ID, op.Name)
	}

	if a.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	return d.content(op, a)
}

func (d directory) create(parent live.NodeID, name string, c live.NewNode) error {
	_, err := d.y.f.Create(parent, name, c)
	return err
}

// twoNames performs a link or a rename.
func (d directory) twoNames(op fsmodel.Op, parent live.NodeID, name string) error {
	f := d.y.f
	to, toName, err := d.parent(op.To)
	if err != nil {
		return err
	}

	flags := uint32(0)
	switch op.Kind {
	case fsmodel.Link:
		a, err := f.Lookup(parent, name)
		if err != nil {
			return err
		}
		_, err = f.Link(a.ID, to, toName)
		return err
	case fsmodel.RenameNoReplace:
		flags = unix.RENAME_NOREPLACE
	case fsmodel.RenameExchange:
		flags = unix.RENAME_EXCHANGE
	case fsmodel.RenameWhiteout:
		flags = unix.RENAME_WHITEOUT
	}
	if flags&unix.RENAME_EXCHANGE == 0 && strings.HasPrefix(op.Path, op.To+"/") { // the kernel's own answer
		return unix.ENOTEMPTY
	}
	_, err = f.Rename(parent, name, to, toName, flags, actors.Caller{})
	return err
}

// content performs an operation on the contents of a regular file.
func (d directory) content(op fsmodel.Op, a live.Attr) error {
	f := d.y.f
	switch op.Kind {
	case fsmodel.Write:
		_, err := f.Write(a.ID, op.Bytes(), op.Off, false)
		return err
	case fsmodel.Append:
		_, err := f.Write(a.ID, op.Bytes(), a.Size, false)
		return err
	case fsmodel.Truncate:
		_, err := f.SetAttr(a.ID, live.SetAttr{Size: &op.Len})
		return err
	case fsmodel.Punch:
		return f.Fallocate(a.ID, op.Off, op.Len, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
	case fsmodel.Allocate:
		return f.Fallocate(a.ID, op.Off, op.Len, 0)
	case fsmodel.Copy:
		to, toName, err := d.parent(op.To)
		if err != nil {
			return err
		}
		b, err := f.Lookup(to, toName)
		if err != nil {
			return err
		}
		_, err = f.CopyRange(a.ID, op.Off, b.ID, op.ToOff, op.Len)
		return err
	}
	return fmt.Errorf("%v is not known", op)
}

// parent returns the directory of a path, and the last name in it.
func (d directory) parent(at string) (live.NodeID, string, error) {
	dir := d.id
	for name := range strings.SplitSeq(path.Dir(at), "/") {
		if name == "." {
			continue
		}
		a, err := d.y.f.Lookup(dir, name)
		if err != nil {
			return 0, "", err
		}
		switch a.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
		case unix.S_IFLNK: // all links dangle
			return 0, "", unix.ENOENT
		default:
			return 0, "", unix.ENOTDIR
		}
		dir = a.ID
	}
	return dir, path.Base(at), nil
}

// List describes the directory.
func (d directory) List() (map[string]string, error) {
	seen, err := d.y.look(d.id)
	if err != nil {
		return nil, err
	}
	delete(seen.list, "")
	for path, line := range seen.list {
		seen.list[path] = linksOfDirectory.ReplaceAllString(line, "$1")
	}
	return seen.list, nil
}

// linksOfDirectory is what no model of package fsmodel has: file systems count them differently.
var linksOfDirectory = regexp.MustCompile(`^(4\d+) nlink \d+`)
