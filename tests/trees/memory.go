package trees

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// Node is one file of a generated tree.
type Node struct {
	Mode   uint32 // a git mode, or S_IFMT and permissions
	Data   string // or the target
	Xattrs []tree.Xattr
	Mtime  int64
	rdev   uint32
	Hard   string // another name of this path's file
}

type Spec map[string]Node

func File(data string) Node   { return Node{Mode: unix.S_IFREG | 0o644, Data: data} }
func Exe(data string) Node    { return Node{Mode: unix.S_IFREG | 0o755, Data: data} }
func Link(target string) Node { return Node{Mode: unix.S_IFLNK, Data: target} }
func Dir() Node               { return Node{Mode: unix.S_IFDIR | 0o755} }
func Fifo() Node              { return Node{Mode: unix.S_IFIFO | 0o644} }

// Memory is a store in memory: objects, a journal, and states built from specs.
type Memory struct {
	mu      sync.Mutex
	objects map[cas.Hash][]byte
	log     bytes.Buffer
	Src     *tree.Source
	Ino     uint64
	Epoch   uint64
	reads   int // of objects
}

func NewMemory() *Memory {
	m := &Memory{objects: make(map[cas.Hash][]byte), Ino: tree.RootIno, Epoch: 1}
	m.Src = tree.NewSource(m, m, 64<<20)
	return m
}

func (m *Memory) Put(_ cas.Kind, b []byte) (cas.Hash, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := cas.Sum(b)
	m.objects[h] = bytes.Clone(b)
	return h, nil
}

func (m *Memory) Get(h cas.Hash, dst []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	b, ok := m.objects[h]
	if !ok {
		return nil, cas.ErrNotFound
	}
	return append(dst[:0], b...), nil
}

func (m *Memory) ReadAt(p []byte, pos, _ int64) error {
	if copy(p, m.log.Bytes()[pos:]) < len(p) {
		return errors.New("read past the end of the log")
	}
	return nil
}

// Log appends bytes to the journal and returns their position.
func (m *Memory) Log(p []byte) int64 {
	pos := int64(m.log.Len())
	m.log.Write(p)
	return pos
}

const SomeTime = 1_700_000_000_000_000_000

// State builds an unsealed state with these files.
func (m *Memory) State(t testing.TB, s Spec) *tree.State {
	t.Helper()
	st := tree.New(m.Epoch, &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR | 0o755, Nlink: 2, Mtime: SomeTime})
	for _, p := range Sorted(s) {
		m.Add(t, st, p, s[p])
	}
	return st
}

// Seal makes the state's objects; what is changed later is a new version.
func (m *Memory) Seal(t testing.TB, st *tree.State) *tree.State {
	t.Helper()
	m.Epoch++
	_, err := tree.Seal(context.Background(), m.Src, &content.Sealer{Src: m.Src.Files, Objects: m}, st)
	must.OK(t, err)
	return st
}

func Sorted(s Spec) []string {
	var paths []string
	for p := range s {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// Parent makes the directories above p and returns the inode of the last.
func (m *Memory) Parent(t testing.TB, st *tree.State, p string) (uint64, string) {
	t.Helper()
	at := uint64(tree.RootIno)
	parts := strings.Split(p, "/")
	for _, name := range parts[:len(parts)-1] {
		d, err := st.Get(m.Src, at)
		must.OK(t, err)
		e, ok, err := d.Dir.Lookup(m.Src, name)
		must.OK(t, err)
		if !ok {
			e.Ino = m.insert(t, st, at, name, Dir())
		}
		at = e.Ino
	}
	return at, parts[len(parts)-1]
}

func (m *Memory) Add(t testing.TB, st *tree.State, p string, n Node) {
	t.Helper()
	at, name := m.Parent(t, st, p)
	m.insert(t, st, at, name, n)
}

func (m *Memory) insert(t testing.TB, st *tree.State, parent uint64, name string, n Node) uint64 {
	t.Helper()
	if n.Hard != "" {
		old, err := st.Resolve(m.Src, n.Hard)
		must.OK(t, err)
		old, err = st.Own(m.Src, m.Epoch, old.Ino)
		must.OK(t, err)
		old.Nlink++
		old.Links = append(slices.Clone(old.Links), tree.Link{Parent: parent, Name: name})
		must.OK(t, st.Put(m.Src, m.Epoch, old))
		m.Enter(t, st, parent, name, old)
		return old.Ino
	}
	m.Ino++
	in := &tree.Inode{Ino: m.Ino, Mode: n.Mode, Nlink: 1, Links: []tree.Link{{Parent: parent, Name: name}},
		Xattrs: n.Xattrs, Rdev: n.rdev, Mtime: n.Mtime}
	if in.Mtime == 0 {
		in.Mtime = SomeTime
	}
	switch {
	case n.Mode&unix.S_IFMT == unix.S_IFLNK:
		in.Mode, in.Target = unix.S_IFLNK|0o777, n.Data
	case in.IsRegular():
		in.Content = m.Content(t, n.Data)
	case in.IsDir():
		in.Nlink = 2
	}
	must.OK(t, st.Put(m.Src, m.Epoch, in))
	m.Enter(t, st, parent, name, in)
	return in.Ino
}

func (m *Memory) Enter(t testing.TB, st *tree.State, parent uint64, name string, in *tree.Inode) {
	t.Helper()
	d, err := st.Own(m.Src, m.Epoch, parent)
	must.OK(t, err)
	must.OK(t, d.Dir.Insert(m.Src, m.Epoch, tree.Dirent{Name: name, Ino: in.Ino, Type: in.Mode & unix.S_IFMT}))
	if in.IsDir() {
		d.Nlink++
	}
	must.OK(t, st.Put(m.Src, m.Epoch, d))
}

// Content writes data with a hole for every whole run of zeros of 64 KiB.
func (m *Memory) Content(t testing.TB, data string) *content.Content {
	if data == "" {
		return nil
	}
	c := content.New(m.Epoch)
	const page = 64 << 10
	zeros := strings.Repeat("\x00", page)
	for off := 0; off < len(data); off += page {
		part := data[off:min(off+page, len(data))]
		if part == zeros {
			continue
		}
		pos := m.Log([]byte(part))
		must.OK(t, c.Write(m.Src.Files, int64(off), int64(len(part)), pos, 0))
	}
	must.OK(t, c.Truncate(m.Src.Files, int64(len(data))))
	return c
}

// Text stores the bytes of r as the content of a file.
func (m *Memory) Text(ctx context.Context, r io.Reader) (*content.Content, error) {
	sealed, err := content.FromReader(ctx, &content.Sealer{Src: m.Src.Files, Objects: m}, r)
	return content.FromChunkMap(sealed), err
}

// Write makes the files of s below root.
func (s Spec) Write(t testing.TB, root string) {
	t.Helper()
	must.OK(t, os.MkdirAll(root, 0o755))
	for _, p := range Sorted(s) {
		n := s[p]
		full := filepath.Join(root, p)
		must.OK(t, os.MkdirAll(filepath.Dir(full), 0o755))
		switch {
		case n.Hard != "":
			must.OK(t, os.Link(filepath.Join(root, n.Hard), full))
		case n.Mode&unix.S_IFMT == unix.S_IFLNK:
			must.OK(t, os.Symlink(n.Data, full))
		case n.Mode&unix.S_IFMT == unix.S_IFDIR:
			must.OK(t, os.MkdirAll(full, 0o755))
		case n.Mode&unix.S_IFMT == unix.S_IFREG:
			must.OK(t, os.WriteFile(full, []byte(n.Data), 0o600))
			must.OK(t, os.Chmod(full, os.FileMode(n.Mode&0o777)))
		default:
			must.OK(t, unix.Mknod(full, n.Mode, int(n.rdev)))
		}
	}
}

// MergeByGit is a threeway.Merger.
func MergeByGit(ctx context.Context, in threeway.TextInput, merged func(threeway.MergedText) error) error {
	dir, err := os.MkdirTemp("", "merge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, side := range map[string]*io.SectionReader{"base": in.Base, "ours": in.Ours, "theirs": in.Theirs} {
		b, err := io.ReadAll(side)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	text, err := exec.CommandContext(ctx, "git", "-C", dir, "-c", "merge.conflictStyle=merge", "merge-file", "-p", "ours", "base", "theirs").Output()
	const binary = 255
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == binary {
		return nil
	}
	return merged(threeway.MergedText{Text: text, Clean: err == nil})
}
