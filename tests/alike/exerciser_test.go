package alike

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/harness"
)

// changes are drawn from a seed, as by fsx (the file system exerciser), but for a few files instead of
// one. fs is the tree that they make. Two with one seed are equal, also in two processes.
type changes struct {
	random rand.PCG
	fs     *fsmodel.FS
	count  int
}

var fewFiles = fsmodel.Limits{Files: 16, Size: 48 << 10}

func newChanges(seed uint64) *changes {
	return &changes{random: *rand.NewPCG(seed, 59), fs: fsmodel.New()}
}

// clone copies the changes, with those that are still to come.
func (c *changes) clone() *changes {
	return &changes{c.random, c.fs.Clone(), c.count}
}

// draw returns the next change. Most change bytes. The caller applies it to c.fs.
func (c *changes) draw() fsmodel.Op {
	c.count++
	for r := rand.New(&c.random); ; {
		op := fsmodel.Random(r, c.fs, fewFiles)
		if op.Kind != fsmodel.RenameWhiteout && (op.Kind <= fsmodel.Copy || r.IntN(2) == 0) {
			return op
		}
	}
}

// skip makes changes in the tree alone.
func (c *changes) skip(n int) {
	for range n {
		_ = c.draw().Apply(c.fs) // the operation may be one that fails
	}
}

// An exerciser makes changes in a directory, and checks after each that the directory has the tree of the
// changes. It keeps files open, and writes some bytes through a mapping.
type exerciser struct {
	*changes
	dir  string
	how  *rand.Rand // chooses how a change is made, which makes no difference to the tree
	open map[string]*os.File
}

func newExerciser(c *changes, dir string) *exerciser {
	return &exerciser{c, dir, rand.New(rand.NewPCG(uint64(c.count), 1)), map[string]*os.File{}}
}

// step makes a change.
func (x *exerciser) step() error {
	op := x.draw()
	got, want := x.do(op), op.Apply(x.fs)
	if !errors.Is(got, want) {
		return fmt.Errorf("change %d: %v: got %v, want %v", x.count, op, got, want)
	}
	for _, p := range []string{op.Path, op.To} {
		data, ok := x.fs.Data(p)
		if !ok {
			continue
		}
		got, err := x.read(p)
		if err != nil {
			return fmt.Errorf("after change %d: %v: reading %s: %w", x.count, op, p, err)
		}
		if !bytes.Equal(got, data) {
			return fmt.Errorf("after change %d: %v: %s %s", x.count, op, p, differ(data, got))
		}
	}
	return nil
}

func differ(want, got []byte) string {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	return fmt.Sprintf("has %d bytes instead of %d, which differ from byte %d", len(got), len(want), at)
}

func (x *exerciser) do(op fsmodel.Op) error {
	if op.Kind >= fsmodel.Unlink && op.Kind <= fsmodel.RenameExchange {
		x.close()
	}
	if op.Kind != fsmodel.Write || x.how.IntN(4) == 0 {
		return op.Do(x.dir)
	}
	f, err := x.file(op.Path)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && x.how.IntN(2) == 0 && op.Off+op.Len <= st.Size() {
		return storeMapped(f, op)
	}
	if err == nil {
		_, err = f.WriteAt(op.Bytes(), op.Off)
	}
	return err
}

// storeMapped writes bytes through a shared mapping.
func storeMapped(f *os.File, op fsmodel.Op) error {
	from := op.Off &^ int64(os.Getpagesize()-1)
	m, err := unix.Mmap(int(f.Fd()), from, int(op.Off+op.Len-from), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(m[op.Off-from:], op.Bytes())
	err = unix.Msync(m, unix.MS_SYNC)
	return errors.Join(err, unix.Munmap(m))
}

// file returns an open file. It stays open until a name changes.
func (x *exerciser) file(p string) (*os.File, error) {
	if f := x.open[p]; f != nil {
		return f, nil
	}
	f, err := os.OpenFile(filepath.Join(x.dir, p), os.O_RDWR, 0)
	if err == nil {
		x.open[p] = f
	}
	return f, err
}

func (x *exerciser) close() {
	for _, f := range x.open {
		f.Close()
	}
	clear(x.open)
}

// read reads a file by its name or through a mapping of the open file.
func (x *exerciser) read(p string) ([]byte, error) {
	if x.how.IntN(2) == 0 {
		return os.ReadFile(filepath.Join(x.dir, p))
	}
	f, err := x.file(p)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return nil, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	data := bytes.Clone(m)
	return data, unix.Munmap(m)
}

// check compares the whole directory with the tree of the changes.
func (x *exerciser) check() error {
	list, err := fsmodel.Observe(x.dir)
	if err != nil {
		return err
	}
	if d := fsmodel.Compare(x.fs.List(), list); d != "" {
		return fmt.Errorf("after change %d, %s:\n%s", x.count, x.dir, d)
	}
	return nil
}

// exerciserProgram is set for the process that is an exerciser. It makes changes in the directory "work"
// below its working directory.
const exerciserProgram = "AMBERFS_TEST_EXERCISER"

// A beginning says which changes a process makes, and how many were made before it.
type beginning struct {
	Seed uint64
	Done int
}

// An order is a line that the process reads. It makes Steps changes, checks its directory, and answers.
// Unless Stop is set, it then makes changes until the next order.
type order struct {
	Steps int
	Stop  bool
	Look  bool // the answer describes the directories
}

// An answer is given between two changes.
type answer struct {
	Count  int               // of all changes
	Work   harness.Tree      // the directory "work"
	Person map[string]string // the directory "person", without times and holes
}

// exercise is the main function of the process. It ends with its input.
func exercise(text string) error {
	unix.Umask(0o022)
	var begin beginning
	if err := json.Unmarshal([]byte(text), &begin); err != nil {
		return err
	}
	c := newChanges(begin.Seed)
	c.skip(begin.Done)
	x := newExerciser(c, "work")
	defer x.close()

	orders := make(chan order)
	go func() {
		defer close(orders)
		for in := json.NewDecoder(os.Stdin); ; {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()

	for stopped := true; ; {
		var o order
		more := true
		if stopped {
			o, more = <-orders
		} else {
			select {
			case o, more = <-orders:
			default:
				if err := x.step(); err != nil {
					return err
				}
				continue
			}
		}
		if !more {
			return x.check()
		}
		if err := x.obey(o); err != nil {
			return err
		}
		stopped = o.Stop
	}
}

func (x *exerciser) obey(o order) error {
	for range o.Steps {
		if err := x.step(); err != nil {
			return err
		}
	}
	if err := x.check(); err != nil {
		return err
	}
	a := answer{Count: x.count}
	if o.Look {
		var err error
		if a.Work, err = harness.WalkTree("work"); err == nil {
			a.Person, err = fsmodel.Observe("person")
		}
		if err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}
