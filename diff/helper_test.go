package diff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// node is one file of a generated tree. Directories are made for the paths of files; an empty directory has a node of
// its own.
type node struct {
	mode uint32 // a git mode, or S_IFDIR, S_IFIFO
	data string // or the target
}

type spec map[string]node

func file(data string) node   { return node{modeFile, data} }
func exe(data string) node    { return node{modeExec, data} }
func link(target string) node { return node{modeSymlink, target} }

// memory has the contents of test trees.
type memory struct {
	log bytes.Buffer
	src *tree.Source
	ino uint64
}

func newMemory() *memory {
	m := &memory{ino: tree.RootIno}
	m.src = tree.NewSource(noObjects{}, m, 1<<20)
	return m
}

func (m *memory) ReadAt(p []byte, pos, _ int64) error {
	if copy(p, m.log.Bytes()[pos:]) < len(p) {
		return errors.New("read past the end of the log")
	}
	return nil
}

type noObjects struct{}

func (noObjects) Put(cas.Kind, []byte) (cas.Hash, error) {
	return cas.Hash{}, errors.New("nothing is stored")
}
func (noObjects) Get(h cas.Hash, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("no object %v", h)
}

const testEpoch = 1

// state builds an unsealed state with these files.
func (m *memory) state(t testing.TB, s spec) *tree.State {
	t.Helper()
	st := tree.New(testEpoch, &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR | 0o755, Nlink: 2})
	for _, path := range sorted(s) {
		m.add(t, st, path, s[path])
	}
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

func (m *memory) add(t testing.TB, st *tree.State, path string, n node) {
	t.Helper()
	parent := uint64(tree.RootIno)
	parts := strings.Split(path, "/")
	for _, name := range parts[:len(parts)-1] {
		dir, err := st.Get(m.src, parent)
		must.OK(t, err)
		e, ok, err := dir.Dir.Lookup(m.src, name)
		must.OK(t, err)
		if !ok {
			e.Ino = m.insert(t, st, parent, name, node{mode: unix.S_IFDIR})
		}
		parent = e.Ino
	}
	m.insert(t, st, parent, parts[len(parts)-1], n)
}

func (m *memory) insert(t testing.TB, st *tree.State, parent uint64, name string, n node) uint64 {
	t.Helper()
	m.ino++
	in := &tree.Inode{Ino: m.ino, Mode: n.mode, Nlink: 1, Links: []tree.Link{{Parent: parent, Name: name}}}
	switch n.mode {
	case modeSymlink:
		in.Mode, in.Target = unix.S_IFLNK|0o777, n.data
	case unix.S_IFDIR, unix.S_IFIFO:
		in.Mode |= 0o755
	default:
		in.Content = m.content(t, n.data)
	}
	must.OK(t, st.Put(m.src, testEpoch, in))
	dir, err := st.Own(m.src, testEpoch, parent)
	must.OK(t, err)
	must.OK(t, dir.Dir.Insert(m.src, testEpoch, tree.Dirent{Name: name, Ino: in.Ino, Type: in.Mode & unix.S_IFMT}))
	must.OK(t, st.Put(m.src, testEpoch, dir))
	return in.Ino
}

func (m *memory) content(t testing.TB, data string) *content.Content {
	if data == "" {
		return nil
	}
	pos := int64(m.log.Len())
	m.log.WriteString(data)
	c := content.New(testEpoch)
	must.OK(t, c.Write(m.src.Files, 0, int64(len(data)), pos, 0))
	return c
}

// write makes the files of s below dir.
func (s spec) write(t testing.TB, dir string) {
	t.Helper()
	must.OK(t, os.MkdirAll(dir, 0o755))
	for path, n := range s {
		full := filepath.Join(dir, path)
		must.OK(t, os.MkdirAll(filepath.Dir(full), 0o755))
		switch n.mode {
		case modeSymlink:
			must.OK(t, os.Symlink(n.data, full))
		case unix.S_IFDIR:
			must.OK(t, os.MkdirAll(full, 0o755))
		case unix.S_IFIFO:
			must.OK(t, unix.Mkfifo(full, 0o644))
		default:
			must.OK(t, os.WriteFile(full, []byte(n.data), os.FileMode(n.mode&0o777)))
		}
	}
}

// load reads back what write made, without directories and FIFOs.
func load(t testing.TB, dir string) spec {
	t.Helper()
	s := spec{}
	must.OK(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(p)
			s[rel] = link(target)
			return err
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			s[rel] = file(string(data))
			if info.Mode()&0o100 != 0 {
				s[rel] = exe(string(data))
			}
			return err
		}
		return nil
	}))
	return s
}

// git runs git outside of all repositories and without the user's settings. Exit status 1 is a success: with it, git
// diff --no-index reports differences.
func git(t testing.TB, dir string, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1 && slices.Contains(args, "--no-index")) {
		t.Fatalf("git %s: %v\n%s\ninput:\n%s", strings.Join(args, " "), err, errs.String(), stdin)
	}
	return out.String()
}
