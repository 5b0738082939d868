package live

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// whole is what an exact Graft does with directories that go or come with all that is in
// them. Their entries are in pages by the hashes of the names, and the steps in order of the
// names: made one by one, each entry would change another page, and all pages of a
// large directory would be in memory. One that goes keeps its entries until then,
// and one that came gets them in their order, when the inodes are there.
type whole struct {
	leaving map[uint64]bool // directories that go
	left    map[uint64]int  // how many of their entries lead to nothing any more

	came   []attrsOf // directories to be filled
	inodes []uint64  // in these: number in the source << cameBits | number in the view - Edit.FirstIno
}

// cameBits is room for more inodes than there can be steps.
const cameBits = 64 - tree.InoBits

// leave is drop for an entry of a directory that goes.
func (j *graft) leave(c *Step, parent uint64) error {
	n, last, err := j.f.dropLink(j.v, c.A, tree.Link{Parent: parent, Name: c.Path.Name}, j.g.Now)
	if err != nil {
		return err
	}
	j.whole.left[parent]++
	j.gone(c.Path, parent, n, last)
	return nil
}

// arrives reports whether a directory came with this Graft and will be filled.
func (j *graft) arrives(dir uint64) bool { return j.g.Exact && dir >= j.e.FirstIno }

// arrive is addNode for a directory that arrives.
func (j *graft) arrive(from uint64, name string, parent uint64, n *tree.Inode) error {
	j.whole.inodes = append(j.whole.inodes, from<<cameBits|n.Ino-j.e.FirstIno)
	return j.f.putNode(j.v, parent, name, n)
}

// fill makes the entries of directories that came.
func (j *graft) fill() error {
	if !j.g.Exact {
		return nil
	}
	slices.Sort(j.whole.inodes)
	for i, in := range j.whole.inodes {
		if from := in >> cameBits; i > 0 && j.whole.inodes[i-1]>>cameBits == from {
			return unknownName(from)
		}
	}
	for _, d := range j.whole.came {
		from, err := j.source.Get(j.f.waiting, d.from)
		if err != nil {
			return loadError(err)
		}
		var failed error
		err = from.Dir.List(j.f.waiting, 0, func(e tree.Dirent, _ uint64) bool {
			failed = j.fillIn(d.ino, e)
			return failed == nil
		})
		if failed == nil {
			failed = loadError(err)
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// fillIn makes an entry like one of the source.
func (j *graft) fillIn(dir uint64, e tree.Dirent) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	to, ok := j.links[e.Ino]
	if !ok {
		i, _ := slices.BinarySearch(j.whole.inodes, e.Ino<<cameBits)
		if i == len(j.whole.inodes) || j.whole.inodes[i]>>cameBits != e.Ino {
			return unknownName(e.Ino)
		}
		to = j.e.FirstIno + j.whole.inodes[i]&(1<<cameBits-1)
	}
	n, err := j.f.own(j.v, dir)
	if err != nil {
		return err
	}
	e.Ino = to
	if err := n.Dir.Insert(j.f.source(j.v), j.f.epochOf(j.v), e); err != nil {
		return loadError(err)
	}
	if e.Type == unix.S_IFDIR {
		n.Nlink++
	}
	return j.room()
}

func unknownName(ino uint64) error {
	return loadError(fmt.Errorf("%w: inode %d has a name that it does not know of", tree.ErrMalformed, ino))
}
