package live

import (
	"iter"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Step is a tree.Change that a Graft is to make.
type Step struct {
	Path *tree.Path
	A, B uint64      // inode numbers in the view and in the source; 0 where there is none
	With *tree.Inode // what comes instead of B; mostly nil
	Size int64       // of what comes, in bytes
	What tree.What

	ADir, BDir bool // it is a directory
	linked     bool // B has several names
}

// StepOf is for a change of a view to what a source has.
func StepOf(c tree.Change) Step {
	s := Step{Path: c.Path, What: c.What}
	if c.A != nil {
		s.A, s.ADir = c.A.Ino, c.A.IsDir()
	}
	if c.B != nil {
		s.B, s.BDir, s.Size, s.linked = c.B.Ino, c.B.IsDir(), c.B.Size(), len(c.B.Links) > 1
	}
	return s
}

// Steps are Steps in the order of a tree.Diff, in some 10 bytes each and what is new in their names. The
// zero value is empty, and so is nil.
type Steps struct {
	list  packed[packedStep, *packedStep]
	paths []*tree.Path        // of directories, or in them; number 0 is that of the root
	index map[*tree.Path]int  // in paths
	with  map[int]*tree.Inode // by the number of the step

	goes, comes int             // steps with A, and with B
	leaving     map[uint64]bool // A of directories that go
}

// packedStep is a Step but for what Steps has of it.
type packedStep struct {
	Step
	with bool
	path int    // of the directory
	name string // in it; "" if it is the directory itself
}

const (
	stepADir = 1 << iota
	stepBDir
	stepLinked
	stepWith
)

func (s *packedStep) encode(e *wire.Encoder, prev *packedStep) {
	e.Byte(flags(s.ADir, s.BDir, s.linked, s.with))
	e.Uvarint(uint64(s.What))
	e.Varint(int64(s.A - prev.A))
	e.Varint(int64(s.B - prev.B))
	e.Uvarint(uint64(s.Size))
	e.Varint(int64(s.path - prev.path))
	encodeName(e, s.name, prev.name)
}

func (s *packedStep) decode(d *wire.Decoder, prev *packedStep) {
	f := d.Byte()
	s.ADir, s.BDir, s.linked, s.with = f&stepADir != 0, f&stepBDir != 0, f&stepLinked != 0, f&stepWith != 0
	s.What = tree.What(d.Uvarint())
	s.A, s.B = prev.A+uint64(d.Varint()), prev.B+uint64(d.Varint())
	s.Size, s.path = d.Length(), prev.path+int(d.Varint())
	s.name = decodeName(d, prev.name)
}

// flags is a byte of flags, the first one its lowest bit.
func flags(set ...bool) (b byte) {
	for i, f := range set {
		if f {
			b |= 1 << i
		}
	}
	return b
}

// Add appends a step.
func (l *Steps) Add(s Step) {
	p := packedStep{Step: s, with: s.With != nil}
	switch {
	case s.ADir || s.BDir:
		p.path = l.number(s.Path)
	default:
		p.path, p.name = l.number(s.Path.Dir), s.Path.Name
	}
	if s.A != 0 {
		l.goes++
	}
	if s.ADir && !s.BDir {
		if l.leaving == nil {
			l.leaving = make(map[uint64]bool)
		}
		l.leaving[s.A] = true
	}
	if s.B != 0 {
		l.comes++
	}
	if p.with {
		if l.with == nil {
			l.with = make(map[int]*tree.Inode)
		}
		l.with[l.list.n] = s.With
	}
	l.list.add(&p)
}

func (l *Steps) number(p *tree.Path) int {
	if l.index == nil {
		l.index, l.paths = map[*tree.Path]int{nil: 0}, []*tree.Path{nil}
	}
	n, ok := l.index[p]
	if !ok {
		n = len(l.paths)
		l.index[p], l.paths = n, append(l.paths, p)
	}
	return n
}

// Len returns the number of steps.
func (l *Steps) Len() int {
	if l == nil {
		return 0
	}
	return l.list.n
}

// All returns the steps. The Path of a directory is the same as above what is in it.
func (l *Steps) All() iter.Seq[*Step] {
	return func(yield func(*Step) bool) {
		if l == nil {
			return
		}
		for i, p := range l.list.all() {
			if !yield(l.step(i, &p)) {
				return
			}
		}
	}
}

// Backward is All from the last one on.
func (l *Steps) Backward() iter.Seq[*Step] {
	return func(yield func(*Step) bool) {
		for i, p := range l.list.backward() {
			if !yield(l.step(i, &p)) {
				return
			}
		}
	}
}

func (l *Steps) step(i int, p *packedStep) *Step {
	s := &p.Step
	s.Path = l.paths[p.path]
	if p.name != "" {
		s.Path = s.Path.Entry(p.name)
	}
	if p.with {
		s.With = l.with[i]
	}
	return s
}
