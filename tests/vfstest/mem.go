package vfstest

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/amberfs/amberfs/internal/vfs"
)

// Mem is a disk in memory that knows what was synced. The zero value is not
// usable; call NewMem. It is safe for concurrent use.
type Mem struct {
	mu       sync.Mutex
	dirs     map[string]*memDir // by cleaned path
	pending  []nameOp           // changes of names that no SyncDir covered, oldest first
	capacity int64              // bytes of blocks that fit on the disk
	used     int64              // bytes of blocks taken
}

// A memDir is a directory: the names as programs see them, and as a power cut
// would leave them at the least.
type memDir struct {
	names   map[string]*memNode
	durable map[string]*memNode
}

// A nameOp is one atomic change of names: creating sets one, renaming two.
type nameOp []nameSet

type nameSet struct {
	dir, name string
	node      *memNode // nil: no such name
}

// NewMem returns an empty disk of unlimited size whose root directory exists.
func NewMem() *Mem {
	return &Mem{dirs: map[string]*memDir{"/": newMemDir(), ".": newMemDir()}, capacity: math.MaxInt64}
}

func newMemDir() *memDir {
	return &memDir{names: map[string]*memNode{}, durable: map[string]*memNode{}}
}

// SetCapacity limits the disk to n bytes, counted in blocks of 4 KiB. What is
// already there stays.
func (m *Mem) SetCapacity(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = n
}

// Used returns the bytes of all blocks taken.
func (m *Mem) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

func split(name string) (dir, base string) {
	name = filepath.Clean(name)
	return filepath.Dir(name), filepath.Base(name)
}

func pathErr(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func (m *Mem) set(op nameOp) {
	for _, s := range op {
		d := m.dirs[s.dir]
		if old := d.names[s.name]; old != nil && old != s.node {
			m.unlink(old, op)
		}
		if s.node == nil {
			delete(d.names, s.name)
		} else {
			d.names[s.name] = s.node
		}
	}
	m.pending = append(m.pending, op)
}

// unlink gives back the space of a node that the operation leaves without name.
func (m *Mem) unlink(n *memNode, op nameOp) {
	for _, s := range op {
		if s.node == n {
			return
		}
	}
	m.used -= n.allocated()
	n.gone = true
}

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base := split(name)
	d := m.dirs[dir]
	if d == nil {
		return nil, pathErr("open", name, syscall.ENOENT)
	}
	if m.dirs[filepath.Clean(name)] != nil {
		return nil, pathErr("open", name, syscall.EISDIR)
	}
	n := d.names[base]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, pathErr("open", name, syscall.ENOENT)
	case n == nil:
		n = &memNode{fs: m, blocks: map[int64]struct{}{}}
		m.set(nameOp{{dir, base, n}})
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, pathErr("open", name, syscall.EEXIST)
	}
	if flag&os.O_TRUNC != 0 {
		n.truncate(0)
	}
	return &memFile{node: n, name: name, readOnly: flag&(os.O_WRONLY|os.O_RDWR) == 0}, nil
}

// Rename implements FS. Only files can be renamed.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fdir, fbase := split(from)
	tdir, tbase := split(to)
	if m.dirs[fdir] == nil || m.dirs[tdir] == nil || m.dirs[fdir].names[fbase] == nil {
		return pathErr("rename", from, syscall.ENOENT)
	}
	if m.dirs[filepath.Clean(to)] != nil {
		return pathErr("rename", to, syscall.EISDIR)
	}
	n := m.dirs[fdir].names[fbase]
	if fdir == tdir && fbase == tbase {
		return nil
	}
	m.set(nameOp{{tdir, tbase, n}, {fdir, fbase, nil}})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := filepath.Clean(name)
	if d := m.dirs[clean]; d != nil {
		if len(m.list(clean)) > 0 {
			return pathErr("remove", name, syscall.ENOTEMPTY)
		}
		delete(m.dirs, clean)
		return nil
	}
	dir, base := split(name)
	if m.dirs[dir] == nil || m.dirs[dir].names[base] == nil {
		return pathErr("remove", name, syscall.ENOENT)
	}
	m.set(nameOp{{dir, base, nil}})
	return nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]vfs.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := filepath.Clean(name)
	if m.dirs[clean] == nil {
		return nil, pathErr("readdir", name, syscall.ENOENT)
	}
	return m.list(clean), nil
}

func (m *Mem) list(dir string) []vfs.Info {
	infos := []vfs.Info{}
	for base, n := range m.dirs[dir].names {
		infos = append(infos, vfs.Info{Name: base, Size: int64(len(n.data)), Allocated: n.allocated()})
	}
	for p := range m.dirs {
		if p != dir && filepath.Dir(p) == dir && p != "." && p != "/" {
			infos = append(infos, vfs.Info{Name: filepath.Base(p), IsDir: true})
		}
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	return infos
}

// MkdirAll implements FS. Directories are durable at once: no part of the store
// depends on a directory being absent after a crash.
func (m *Mem) MkdirAll(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := ""
	clean := filepath.Clean(name)
	if strings.HasPrefix(clean, "/") {
		p = "/"
	}
	for part := range strings.SplitSeq(strings.Trim(clean, "/"), "/") {
		parent := filepath.Clean(p)
		p = filepath.Join(p, part)
		if d := m.dirs[parent]; d != nil && d.names[part] != nil {
			return pathErr("mkdir", p, syscall.ENOTDIR)
		}
		if m.dirs[p] == nil {
			m.dirs[p] = newMemDir()
		}
	}
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := filepath.Clean(name)
	if m.dirs[clean] == nil {
		return pathErr("sync", name, syscall.ENOENT)
	}
	kept := m.pending[:0]
	for _, op := range m.pending {
		covered := false
		for _, s := range op {
			covered = covered || s.dir == clean
		}
		if !covered {
			kept = append(kept, op)
			continue
		}
		applyNames(m.dirs, op)
	}
	clear(m.pending[len(kept):])
	m.pending = kept
	return nil
}

// applyNames makes a change of names durable.
func applyNames(dirs map[string]*memDir, op nameOp) {
	for _, s := range op {
		d := dirs[s.dir]
		switch {
		case d == nil: // the directory itself was removed since
		case s.node == nil:
			delete(d.durable, s.name)
		default:
			d.durable[s.name] = s.node
		}
	}
}

// Stat implements FS.
func (m *Mem) Stat(name string) (vfs.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirs[filepath.Clean(name)] != nil {
		return vfs.Info{Name: filepath.Base(name), IsDir: true}, nil
	}
	dir, base := split(name)
	if d := m.dirs[dir]; d != nil && d.names[base] != nil {
		n := d.names[base]
		return vfs.Info{Name: base, Size: int64(len(n.data)), Allocated: n.allocated()}, nil
	}
	return vfs.Info{}, pathErr("stat", name, syscall.ENOENT)
}

// Free implements FS.
func (m *Mem) Free(dir string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirs[filepath.Clean(dir)] == nil {
		return 0, pathErr("statfs", dir, syscall.ENOENT)
	}
	return max(m.capacity-m.used, 0), nil
}

// Total implements FS.
func (m *Mem) Total(string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.capacity, nil
}
