package tree_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/trees"
)

// TestConformance tests what each operation with its corners leaves in a state, read from the store.
func TestConformance(t *testing.T) {
	fsmodel.Conformance(t, func(t *testing.T) fsmodel.System {
		m := trees.NewMemory()
		return &edited{t: t, m: m, state: m.State(t, nil), rules: fsmodel.New()}
	})
}

// edited is a state as a System of package fsmodel. A state has no rules: whoever edits it asks the
// kernel's rules first, here those of the model.
type edited struct {
	t     *testing.T
	m     *trees.Memory
	state *tree.State
	rules *fsmodel.FS
}

// Do edits the state.
func (d *edited) Do(op fsmodel.Op) error {
	if err := op.Apply(d.rules); err != nil {
		return err
	}

	e := &tree.Editor{State: d.state, Source: d.m.Src, Epoch: d.m.Epoch}
	n := d.find(op.Path)
	switch op.Kind {
	case fsmodel.Create:
		d.add(e, op.Path, &tree.Inode{Mode: unix.S_IFREG | op.Mode})
	case fsmodel.Mkdir:
		d.add(e, op.Path, &tree.Inode{Mode: unix.S_IFDIR | op.Mode})
	case fsmodel.Mkfifo:
		d.add(e, op.Path, &tree.Inode{Mode: unix.S_IFIFO | op.Mode})
	case fsmodel.Symlink:
		d.add(e, op.Path, &tree.Inode{Mode: unix.S_IFLNK | 0o777, Target: op.To})
	case fsmodel.Link:
		l := d.link(op.To)
		e.Link(l.Parent, l.Name, n.Ino)
	case fsmodel.Unlink, fsmodel.Rmdir:
		l := d.link(op.Path)
		e.Remove(l.Parent, l.Name)
	case fsmodel.Rename, fsmodel.RenameNoReplace, fsmodel.RenameExchange, fsmodel.RenameWhiteout:
		d.rename(e, op, n)
	case fsmodel.Chmod:
		own := e.Own(n.Ino)
		own.Mode = own.Mode&unix.S_IFMT | op.Mode
	case fsmodel.SetXattr, fsmodel.CreateXattr, fsmodel.ReplaceXattr:
		own := e.Own(n.Ino)
		own.Xattrs = append(without(own, op.Name), tree.Xattr{Name: op.Name, Value: []byte(op.Value())})
		slices.SortFunc(own.Xattrs, func(a, b tree.Xattr) int { return strings.Compare(a.Name, b.Name) })
	case fsmodel.RemoveXattr:
		own := e.Own(n.Ino)
		own.Xattrs = without(own, op.Name)
	default:
		d.change(e, op, n)
	}
	return e.Err()
}

// find returns the inode of a path, nil if there is none.
func (d *edited) find(at string) *tree.Inode {
	n, err := d.state.Resolve(d.m.Src, at)
	if err != nil {
		return nil
	}
	return n
}

// link returns a path as a name in a directory.
func (d *edited) link(at string) tree.Link {
	dir := path.Dir(at)
	if dir == "." {
		dir = ""
	}
	return tree.Link{Parent: d.find(dir).Ino, Name: path.Base(at)}
}

func (d *edited) number() uint64 {
	d.m.Ino++
	return d.m.Ino
}

func (d *edited) add(e *tree.Editor, at string, n *tree.Inode) {
	l := d.link(at)
	e.Add(l.Parent, l.Name, tree.NewInodeLike(n, d.number(), 0))
}

// rename performs a rename that changes something.
func (d *edited) rename(e *tree.Editor, op fsmodel.Op, n *tree.Inode) {
	there := d.find(op.To)
	if there != nil && there.Ino == n.Ino {
		return
	}

	from, to := d.link(op.Path), d.link(op.To)
	switch op.Kind {
	case fsmodel.RenameExchange:
		e.Exchange(from, to)
	case fsmodel.RenameWhiteout:
		e.Whiteout(from, to, tree.NewInodeLike(&tree.Inode{Mode: unix.S_IFCHR}, d.number(), 0))
	default:
		e.Rename(from, to)
	}
}

// without returns the extended attributes of an inode without one.
func without(n *tree.Inode, name string) (kept []tree.Xattr) {
	for _, x := range n.Xattrs {
		if x.Name != name {
			kept = append(kept, x)
		}
	}
	return kept
}

// change changes the contents of a file.
func (d *edited) change(e *tree.Editor, op fsmodel.Op, n *tree.Inode) {
	own, files := e.Own(n.Ino), d.m.Src.Files
	own.Content = own.Content.VersionFor(e.Epoch)

	var err error
	switch op.Kind {
	case fsmodel.Write, fsmodel.Append:
		off := op.Off
		if op.Kind == fsmodel.Append {
			off = n.FileSize()
		}
		if op.Len > 0 {
			err = own.Content.Write(files, off, op.Len, d.m.Log(op.Bytes()), 0)
		}
	case fsmodel.Truncate:
		err = own.Content.Truncate(files, op.Len)
	case fsmodel.Punch:
		err = own.Content.Punch(files, op.Off, op.Len)
	case fsmodel.Allocate:
		err = own.Content.Allocate(files, op.Off, op.Len, false)
	case fsmodel.Copy:
		to := e.Own(d.find(op.To).Ino)
		to.Content = to.Content.VersionFor(e.Epoch)
		if length := min(op.Len, n.FileSize()-op.Off); length > 0 {
			err = to.Content.CloneRange(files, op.ToOff, own.Content, op.Off, length)
		}
	}
	must.OK(d.t, err)
}

// List stores the state, and describes it as a reader finds it that has nothing in memory.
func (d *edited) List() (map[string]string, error) {
	id, _ := d.m.Seal(d.t, d.state).ID()
	src := tree.NewSource(d.m, d.m, 1<<20)
	stored, err := tree.Load(src, id)
	must.OK(d.t, err)

	list, first := map[string]string{}, map[uint64]string{}
	var walk func(dir *tree.Inode, at string)
	walk = func(dir *tree.Inode, at string) {
		names := map[string]bool{}
		must.OK(d.t, dir.Dir.List(src, 0, func(e tree.Dirent, _ uint64) bool { names[e.Name] = true; return true }))
		for name := range names {
			n, err := stored.Lookup(src, dir, name)
			must.OK(d.t, err)
			p := path.Join(at, name)
			if first[n.Ino] == "" || p < first[n.Ino] {
				first[n.Ino] = p
			}
			if n.IsDir() {
				walk(n, p)
			}
		}
	}
	root, err := stored.Get(src, tree.RootIno)
	must.OK(d.t, err)
	walk(root, "")

	for ino := range first {
		n, err := stored.Get(src, ino)
		must.OK(d.t, err)
		entry := describe(d.t, src.Files, n)
		if entry.Nlink > 1 {
			entry.Same = first[ino]
		}
		for _, l := range n.Links {
			list[d.pathOf(stored, src, l)] = entry.String()
		}
	}
	return list, nil
}

// pathOf returns the path of a name.
func (d *edited) pathOf(s *tree.State, src *tree.Source, l tree.Link) string {
	if l.Parent == tree.RootIno {
		return l.Name
	}
	dir, err := s.Get(src, l.Parent)
	must.OK(d.t, err)
	return strings.Join([]string{d.pathOf(s, src, dir.Links[0]), l.Name}, "/")
}

// describe returns what a listing says of an inode.
func describe(t *testing.T, files *content.Source, n *tree.Inode) fsmodel.Entry {
	e := fsmodel.Entry{Mode: n.Mode, Target: n.Target, Xattrs: map[string]string{}}
	if !n.IsDir() {
		e.Nlink = int(n.Nlink)
	}
	for _, x := range n.Xattrs {
		e.Xattrs[x.Name] = string(x.Value)
	}
	if n.IsRegular() {
		e.Data = make([]byte, n.FileSize())
		_, err := n.Content.ReadAt(files, e.Data, 0)
		must.OK(t, err)
	}
	return e
}
