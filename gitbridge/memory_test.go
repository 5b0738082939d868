package gitbridge

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

// node is one file of a generated tree.
type node struct {
	mode   uint32 // a git mode, or S_IFMT and permissions
	data   string // or the target
	xattrs []tree.Xattr
	mtime  int64
	rdev   uint32
	hard   string // another name of this path's file
}

type spec map[string]node

func file(data string) node   { return node{mode: unix.S_IFREG | 0o644, data: data} }
func exe(data string) node    { return node{mode: unix.S_IFREG | 0o755, data: data} }
func link(target string) node { return node{mode: unix.S_IFLNK, data: target} }
func dir() node               { return node{mode: unix.S_IFDIR | 0o755} }
func fifo() node              { return node{mode: unix.S_IFIFO | 0o644} }

// memory is a store in memory: objects, a journal, and states built from specs.
type memory struct {
	mu      sync.Mutex
	objects map[cas.Hash][]byte
	log     bytes.Buffer
	src     *tree.Source
	ino     uint64
	epoch   uint64
	reads   int // of objects
}

func newMemory() *memory {
	m := &memory{objects: make(map[cas.Hash][]byte), ino: tree.RootIno, epoch: 1}
	m.src = tree.NewSource(m, m, 64<<20)
	return m
}

func (m *memory) Put(_ cas.Kind, b []byte) (cas.Hash, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := cas.Sum(b)
	m.objects[h] = bytes.Clone(b)
	return h, nil
}

func (m *memory) Get(h cas.Hash, dst []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	b, ok := m.objects[h]
	if !ok {
		return nil, cas.ErrNotFound
	}
	return append(dst[:0], b...), nil
}

func (m *memory) ReadAt(p []byte, pos, _ int64) error {
	if copy(p, m.log.Bytes()[pos:]) < len(p) {
		return errors.New("read past the end of the log")
	}
	return nil
}

const someTime = 1_700_000_000_000_000_000

// state builds an unsealed state with these files.
func (m *memory) state(t testing.TB, s spec) *tree.State {
	t.Helper()
	st := tree.New(m.epoch, &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR | 0o755, Nlink: 2, Mtime: someTime})
	for _, p := range sorted(s) {
		m.add(t, st, p, s[p])
	}
	return st
}

// seal makes the state's objects; what is changed later is a new version.
func (m *memory) seal(t testing.TB, st *tree.State) *tree.State {
	t.Helper()
	m.epoch++
	_, err := tree.Seal(context.Background(), m.src, &content.Sealer{Src: m.src.Files, Objects: m}, st)
	must.OK(t, err)
	return st
}

func sorted(s spec) []string {
	var paths []string
	for p := range s {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// parent makes the directories above p and returns the inode of the last.
func (m *memory) parent(t testing.TB, st *tree.State, p string) (uint64, string) {
	t.Helper()
	at := uint64(tree.RootIno)
	parts := strings.Split(p, "/")
	for _, name := range parts[:len(parts)-1] {
		d, err := st.Get(m.src, at)
		must.OK(t, err)
		e, ok, err := d.Dir.Lookup(m.src, name)
		must.OK(t, err)
		if !ok {
			e.Ino = m.insert(t, st, at, name, dir())
		}
		at = e.Ino
	}
	return at, parts[len(parts)-1]
}

func (m *memory) add(t testing.TB, st *tree.State, p string, n node) {
	t.Helper()
	at, name := m.parent(t, st, p)
	m.insert(t, st, at, name, n)
}

func (m *memory) insert(t testing.TB, st *tree.State, parent uint64, name string, n node) uint64 {
	t.Helper()
	if n.hard != "" {
		old, err := st.Resolve(m.src, n.hard)
		must.OK(t, err)
		old, err = st.Own(m.src, m.epoch, old.Ino)
		must.OK(t, err)
		old.Nlink++
		old.Links = append(slices.Clone(old.Links), tree.Link{Parent: parent, Name: name})
		must.OK(t, st.Put(m.src, m.epoch, old))
		m.enter(t, st, parent, name, old)
		return old.Ino
	}
	m.ino++
	in := &tree.Inode{Ino: m.ino, Mode: n.mode, Nlink: 1, Links: []tree.Link{{Parent: parent, Name: name}},
		Xattrs: n.xattrs, Rdev: n.rdev, Mtime: n.mtime}
	if in.Mtime == 0 {
		in.Mtime = someTime
	}
	switch {
	case n.mode&unix.S_IFMT == unix.S_IFLNK:
		in.Mode, in.Target = unix.S_IFLNK|0o777, n.data
	case in.IsRegular():
		in.Content = m.content(t, n.data)
	}
	must.OK(t, st.Put(m.src, m.epoch, in))
	m.enter(t, st, parent, name, in)
	return in.Ino
}

func (m *memory) enter(t testing.TB, st *tree.State, parent uint64, name string, in *tree.Inode) {
	t.Helper()
	d, err := st.Own(m.src, m.epoch, parent)
	must.OK(t, err)
	must.OK(t, d.Dir.Insert(m.src, m.epoch, tree.Dirent{Name: name, Ino: in.Ino, Type: in.Mode & unix.S_IFMT}))
	must.OK(t, st.Put(m.src, m.epoch, d))
}

// content writes data with a hole for every whole run of zeros of 64 KiB.
func (m *memory) content(t testing.TB, data string) *content.Content {
	if data == "" {
		return nil
	}
	c := content.New(m.epoch)
	const page = 64 << 10
	zeros := strings.Repeat("\x00", page)
	for off := 0; off < len(data); off += page {
		part := data[off:min(off+page, len(data))]
		if part == zeros {
			continue
		}
		pos := int64(m.log.Len())
		m.log.WriteString(part)
		must.OK(t, c.Write(m.src.Files, int64(off), int64(len(part)), pos, 0))
	}
	must.OK(t, c.Truncate(m.src.Files, int64(len(data))))
	return c
}

// write makes the files of s below root.
func (s spec) write(t testing.TB, root string) {
	t.Helper()
	must.OK(t, os.MkdirAll(root, 0o755))
	for _, p := range sorted(s) {
		n := s[p]
		full := filepath.Join(root, p)
		must.OK(t, os.MkdirAll(filepath.Dir(full), 0o755))
		switch {
		case n.hard != "":
			must.OK(t, os.Link(filepath.Join(root, n.hard), full))
		case n.mode&unix.S_IFMT == unix.S_IFLNK:
			must.OK(t, os.Symlink(n.data, full))
		case n.mode&unix.S_IFMT == unix.S_IFDIR:
			must.OK(t, os.MkdirAll(full, 0o755))
		case n.mode&unix.S_IFMT == unix.S_IFREG:
			must.OK(t, os.WriteFile(full, []byte(n.data), 0o600))
			must.OK(t, os.Chmod(full, os.FileMode(n.mode&0o777)))
		default:
			must.OK(t, unix.Mknod(full, n.mode, int(n.rdev)))
		}
	}
}

// mergeByGit is a threeway.Merger.
func mergeByGit(ctx context.Context, in threeway.Input, merged func(threeway.Merged) error) error {
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
	return merged(threeway.Merged{Text: text, Clean: err == nil})
}
