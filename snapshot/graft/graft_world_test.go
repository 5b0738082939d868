package graft_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
)

// none is an object store without objects: nothing is sealed here.
type none struct{}

func (none) Put(cas.Kind, []byte) (cas.Hash, error) { return cas.Hash{}, cas.ErrNotFound }
func (none) Get(cas.Hash, []byte) ([]byte, error)   { return nil, cas.ErrNotFound }
func (l *log) ReadAt(p []byte, pos, _ int64) error  { copy(p, l.b[pos:]); return nil }
func (l *log) add(s string) (pos int64)             { l.b = append(l.b, s...); return int64(len(l.b) - len(s)) }

// log has the bytes of files.
type log struct{ b []byte }

// A world hands out epochs, inode numbers and the bytes of files.
type world struct {
	t     *testing.T
	log   *log
	src   *tree.Source
	epoch uint64
	ino   uint64
	time  int64
	r     *rand.Rand
	all   bool // kinds of changes: files get more names and other modes, too
}

func newWorld(t *testing.T, choices rand.Source) *world {
	w := &world{t: t, log: &log{}, epoch: 1, ino: tree.RootIno, time: 1000, r: rand.New(choices), all: true}
	w.src = tree.NewSource(none{}, w.log, 1<<20)
	return w
}

func (w *world) Epoch() uint64 {
	w.epoch++
	return w.epoch
}

func (w *world) ReserveInos(_ *tree.Editor, n uint64) (uint64, error) {
	first := w.ino + 1
	w.ino += n
	return first, nil
}

func (w *world) check(err error) {
	w.t.Helper()
	must.OK(w.t, err)
}

// An entry is what a model has at a path. Names of one file have one entry.
type entry struct {
	dir  bool
	mode uint32
	data string
}

// A model is a tree as a map of paths, without the root.
type model map[string]*entry

func (m model) clone() model {
	out, same := make(model), make(map[*entry]*entry)
	for at, e := range m {
		if same[e] == nil {
			c := *e
			same[e] = &c
		}
		out[at] = same[e]
	}
	return out
}

// below are the paths at a path and below it.
func (m model) below(at string) (all []string) {
	for p := range m {
		if p == at || strings.HasPrefix(p, at+"/") {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// has are the paths that fit, in order.
func (m model) has(fits func(*entry) bool) (all []string) {
	for p, e := range m {
		if fits(e) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// text is the model in a form to be compared: with links, which names are those of one file.
func (m model) text(links bool) string {
	names := make(map[*entry][]string)
	for _, p := range slices.Sorted(maps.Keys(m)) {
		names[m[p]] = append(names[m[p]], p)
	}
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(m)) {
		e := m[p]
		fmt.Fprintf(&b, "%s %v %o %q", p, e.dir, e.mode, e.data)
		if links {
			fmt.Fprint(&b, names[e])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// An edited tree is a state with the model that it must be like.
type edited struct {
	*world
	e *tree.Editor
	m model
}

func (w *world) newTree() *edited {
	root := &tree.Inode{Ino: tree.RootIno, Mode: unix.S_IFDIR | 0o755, Nlink: 2, Mtime: w.time}
	epoch := w.Epoch()
	return &edited{w, &tree.Editor{State: tree.New(epoch, root), Source: w.src, Epoch: epoch}, model{}}
}

// fork returns another tree that begins as this one is.
func (d *edited) fork() *edited {
	f := &edited{d.world, &tree.Editor{State: d.e.State.Clone(), Source: d.src, Epoch: d.Epoch()}, d.m.clone()}
	d.e.Epoch = d.Epoch()
	return f
}

// freeze returns the state and the model as they are.
func (d *edited) freeze() (*tree.State, model) {
	f := d.fork()
	return f.e.State, f.m
}

func (d *edited) at(p string) *tree.Inode {
	d.t.Helper()
	n, err := d.e.State.Resolve(d.src, p)
	d.check(err)
	return n
}

// link is a path as a name in a directory.
func (d *edited) link(p string) tree.Link {
	dir := path.Dir(p)
	if dir == "." {
		dir = ""
	}
	return tree.Link{Parent: d.at(dir).Ino, Name: path.Base(p)}
}

func (d *edited) content(text string) *content.Content {
	c := (*content.Content)(nil).VersionFor(d.e.Epoch)
	if text != "" {
		pos := d.log.add(text)
		d.check(c.Write(d.src.Files, 0, int64(len(text)), pos, pos))
	}
	return c
}

func (d *edited) add(p string, mode uint32, text string) {
	d.ino++
	n := &tree.Inode{Ino: d.ino, Mode: mode, Nlink: 1, Mtime: d.e.Time}
	if n.IsDir() {
		n.Nlink = 2
	} else {
		n.Content = d.content(text)
	}
	l := d.link(p)
	d.e.State.Depth = max(d.e.State.Depth, strings.Count(p, "/")+1)
	d.e.Add(l.Parent, l.Name, n)
	d.m[p] = &entry{dir: n.IsDir(), mode: mode & 0o777, data: text}
}

func (d *edited) write(p, text string) {
	n := d.e.Own(d.at(p).Ino)
	d.e.State.Bytes -= n.FileSize()
	n.Content, n.Mtime = d.content(text), d.e.Time
	d.e.State.Bytes += n.FileSize()
	d.m[p].data = text
}

func (d *edited) remove(p string) {
	l := d.link(p)
	d.e.RemoveAll(l.Parent, l.Name, func(uint64, string, *tree.Inode, bool) {})
	for _, at := range d.m.below(p) {
		delete(d.m, at)
	}
}

func (d *edited) rename(from, to string) {
	d.e.Rename(d.link(from), d.link(to))
	moved := d.m.below(from)
	for _, at := range moved {
		d.m[to+strings.TrimPrefix(at, from)] = d.m[at]
		delete(d.m, at)
	}
}

func (d *edited) text() string { return strings.Repeat("x", d.r.IntN(3)) + fmt.Sprint(d.r.IntN(1000)) }

// name is a path in a directory, mostly one that is free.
func (d *edited) name() string {
	dirs := append(d.m.has(func(e *entry) bool { return e.dir }), "")
	return path.Join(dirs[d.r.IntN(len(dirs))], string(rune('a'+d.r.IntN(5))))
}

func pick(r *rand.Rand, all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[r.IntN(len(all))]
}

// change makes one random change; of files alone, only their contents, and which there are.
func (d *edited) change(files bool) {
	d.time++
	d.e.Time = d.time
	file := pick(d.r, d.m.has(func(e *entry) bool { return !e.dir }))
	p := d.name()
	op, there := d.r.IntN(8), d.m[p] != nil
	if files {
		op = []int{0, 1, 2, 1}[d.r.IntN(4)]
	}
	switch {
	case op == 0 && !there:
		d.add(p, unix.S_IFREG|0o644, d.text())
	case op == 1 && file != "":
		d.write(file, d.text())
	case op == 2 && files && file != "":
		d.remove(file)
	case op == 2 && !files && there:
		d.remove(p)
	case op == 3 && d.all && file != "":
		n := d.e.Own(d.at(file).Ino)
		n.UID, n.Mode, d.m[file].mode = 7, unix.S_IFREG|0o600, 0o600
	case op == 4 && d.all && !there && file != "":
		l := d.link(p)
		d.e.Link(l.Parent, l.Name, d.at(file).Ino)
		d.m[p] = d.m[file]
	case op == 5 && file != "" && file != p && (!there || !d.m[p].dir && d.m[p] != d.m[file]):
		d.rename(file, p)
	case op == 6 && !there:
		d.add(p, unix.S_IFDIR|0o755, "")
	case op == 7 && !there:
		dir := pick(d.r, d.m.has(func(e *entry) bool { return e.dir }))
		if dir != "" && p != dir && !strings.HasPrefix(p, dir+"/") {
			depth, err := d.e.State.DepthAfter(d.src, d.at(dir), d.link(p).Parent)
			d.check(err)
			d.e.State.Depth = depth
			d.rename(dir, p)
		}
	}
	d.check(d.e.Err())
}

// verify compares a state with the model, and what a state counts with what is there.
func (d *edited) verify(what string, links bool) {
	d.t.Helper()
	got := d.read()
	if a, b := got.text(links), d.m.text(links); a != b {
		d.t.Fatalf("after %s there is\n%sand not\n%s", what, a, b)
	}
	d.m = got // which names are those of one file
}

func (d *edited) read() model {
	d.t.Helper()
	m, seen, bytes := make(model), make(map[uint64]*entry), int64(0)
	names, dirs := make(map[uint64]uint32), make(map[uint64]uint32)
	var walk func(dir *tree.Inode, at string)
	walk = func(dir *tree.Inode, at string) {
		var in []tree.Dirent
		d.check(dir.Dir.List(d.src, 0, func(e tree.Dirent, _ uint64) bool { in = append(in, e); return true }))
		for _, e := range in {
			n, err := d.e.State.Lookup(d.src, dir, e.Name)
			d.check(err)
			p := path.Join(at, e.Name)
			if names[n.Ino]++; seen[n.Ino] == nil {
				b := make([]byte, n.FileSize())
				_, err := n.Content.ReadAt(d.src.Files, b, 0)
				d.check(err)
				seen[n.Ino], bytes = &entry{dir: n.IsDir(), mode: n.Mode & 0o777, data: string(b)}, bytes+n.FileSize()
			}
			if m[p] = seen[n.Ino]; n.IsDir() {
				dirs[dir.Ino]++
				walk(n, p)
			}
		}
	}
	walk(d.at(""), "")
	if st := d.e.State; st.Inodes != int64(len(seen))+1 || st.Bytes != bytes {
		d.t.Fatalf("the state counts %d inodes with %d bytes, and has %d with %d", st.Inodes, st.Bytes, len(seen)+1, bytes)
	}
	for ino, e := range seen {
		n, err := d.e.State.Get(d.src, ino)
		d.check(err)
		if want := names[ino]; !e.dir && (n.Nlink != want || len(n.Links) != int(want)) || e.dir && n.Nlink != 2+dirs[ino] {
			d.t.Fatalf("inode %d counts %d links, %d names, and has %d names and %d directories", ino, n.Nlink, len(n.Links), want, dirs[ino])
		}
	}
	return m
}
