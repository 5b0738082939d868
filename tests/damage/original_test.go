package damage_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// An original is a store in good health and all that a program can see of it.
type original struct {
	store  string
	killed bool
	views  map[string]view // by directory relative to the mount

	written map[string]map[string]bool // every content that a path ever had
}

// A view is a directory tree, and how verify calls it.
type view struct {
	workspace, snapshot string
	files               map[string]string // content, target or "dir" by path
}

// makeOriginal makes a store with files of all sizes, a dozen snapshots, forks
// with snapshots of their own, holes left by gc, and changes that no snapshot
// has. With killed its daemon dies of kill -9.
func makeOriginal(t *testing.T, killed bool) *original {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 2))
	m := harness.New(t)
	o := &original{store: m.Store, killed: killed, views: map[string]view{}, written: map[string]map[string]bool{}}
	write := func(at, name string) {
		size := []int{10, 900, 5000, 70_000, 300_000}[rng.IntN(5)]
		b := make([]byte, 1+rng.IntN(size))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		must.OK(t, os.MkdirAll(filepath.Dir(m.Path(at, name)), 0o755))
		must.OK(t, os.WriteFile(m.Path(at, name), b, 0o644))
		if o.written[name] == nil {
			o.written[name] = map[string]bool{"": true}
		}
		o.written[name][string(b)] = true
	}
	change := func(at string, files int) {
		for range files {
			write(at, fmt.Sprintf("d%d/f%d", rng.IntN(8), rng.IntN(12)))
		}
	}
	for i := range 100 {
		must.OK(t, os.MkdirAll(m.Path("many"), 0o755))
		must.OK(t, os.WriteFile(m.Path("many", fmt.Sprint("small", i)), fmt.Appendf(nil, "small %d", i), 0o644))
	}
	for i := range 12 {
		change("", 12)
		must.OK(t, os.WriteFile(m.Path("link"), nil, 0o644))
		must.OK(t, os.Remove(m.Path("link")))
		must.OK(t, os.Symlink(fmt.Sprint("target", i), m.Path("link")))
		m.Amberfs("snapshot", fmt.Sprint("s", i))
	}
	for i := 0; i < 12; i += 3 {
		m.Amberfs("rm", fmt.Sprint("s", i))
	}
	for _, fork := range []string{"f1", "f2"} {
		m.Amberfs("fork", "s4", fork)
		at := filepath.Join(".forks", fork)
		change(at, 10)
		must.OK(t, os.Mkdir(m.Path(at, ".snapshots", "mine"), 0o755))
		change(at, 5)
	}
	m.Amberfs("gc")
	change("", 10)
	m.Amberfs("snapshot", "late")
	change("", 20)
	must.OK(t, os.Mkdir(m.Path(".snapshots", "last"), 0o755))
	for i := range 20 {
		write("", fmt.Sprint("new", i))
	}
	fd, err := unix.Open(m.Path("new0"), unix.O_RDONLY, 0)
	must.OK(t, err)
	must.OK(t, unix.Fsync(fd))
	unix.Close(fd)
	// The last record but one of a journal is known to have been on disk.
	must.OK(t, os.WriteFile(m.Path("end"), []byte("end"), 0o644))

	o.views[""] = view{workspace: "main"}
	for _, ws := range []string{"main", "f1", "f2"} {
		at := ""
		if ws != "main" {
			at = filepath.Join(".forks", ws)
			o.views[at] = view{workspace: ws}
		}
		names := []string{"base"}
		list, err := os.ReadFile(m.Path(at, ".snapshots", "list"))
		must.OK(t, err)
		for line := range bytes.Lines(list) {
			name, _, _ := bytes.Cut(line, []byte("\t"))
			names = append(names, string(name))
		}
		for _, name := range names {
			o.views[filepath.Join(at, ".snapshots", name)] = view{workspace: ws, snapshot: name}
		}
	}
	for at, v := range o.views {
		files, bad := look(m.Path(at))
		if len(bad) > 0 {
			t.Fatalf("%s: %v", at, bad)
		}
		v.files = files
		o.views[at] = v
	}
	if killed {
		m.Kill()
	} else {
		m.Stop()
	}
	return o
}

// look reads a tree: its files by path, and what cannot be read.
func look(dir string) (files map[string]string, bad map[string]error) {
	files, bad = map[string]string{}, map[string]error{}
	var walk func(rel string)
	walk = func(rel string) {
		path := filepath.Join(dir, rel)
		fi, err := os.Lstat(path)
		switch {
		case err != nil:
			bad[rel] = err
		case fi.IsDir():
			files[rel] = "dir"
			entries, err := os.ReadDir(path)
			if err != nil {
				bad[rel] = err
			}
			for _, e := range entries {
				walk(filepath.Join(rel, e.Name()))
			}
		case fi.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				bad[rel] = err
				break
			}
			files[rel] = "-> " + target
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				bad[rel] = err
				break
			}
			files[rel] = string(b)
		}
	}
	walk("")
	return files, bad
}

// copyStore copies the original.
func (o *original) copyStore(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "store")
	must.CopyStore(t, to, o.store)
	return to
}
