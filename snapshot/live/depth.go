package live

import (
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// Directories are nested less than tree.MaxDepth deep, so that every walk ends, and a
// recursive one takes a bounded stack. Each state has an upper bound of its depth: to
// move a directory means to know how deep the ones below it are nested, and to count
// that could mean to read the whole tree.

// depthOf returns how many names the path of a directory has. It is ErrInvalid if the
// directory is, or lies below, another one; 0 stands for none.
func (v *view) depthOf(dir, top uint64) (int, error) {
	for depth := range tree.MaxDepth {
		switch dir {
		case top:
			return 0, ErrInvalid
		case RootIno:
			return depth, nil
		}
		n, err := v.state.Get(v.trees.src, dir)
		if err != nil {
			return 0, loadError(err)
		}
		if len(n.Links) == 0 {
			return depth, nil
		}
		dir = n.Links[0].Parent
	}
	return 0, tree.ErrTooDeep
}

// depthWith returns the depth of a view in which dir has a new directory with others
// below it, nested height deep.
func (v *view) depthWith(dir uint64, height int) (int, error) {
	above, err := v.depthOf(dir, 0)
	if err != nil {
		return 0, err
	}
	depth := above + 1 + height
	if depth >= tree.MaxDepth {
		return 0, tree.ErrTooDeep
	}
	return max(v.state.Depth, depth), nil
}

// depthAfter returns the depth of a view in which n was moved to dir.
func (v *view) depthAfter(n *tree.Inode, dir uint64) (int, error) {
	if !n.IsDir() || len(n.Links) == 1 && n.Links[0].Parent == dir {
		return v.state.Depth, nil
	}
	height, known := v.heightOf(n)
	if !known {
		depth, err := v.depthOf(n.Ino, 0)
		if err != nil {
			return 0, err
		}
		height = v.state.Depth - depth
	}
	return v.depthWith(dir, height)
}

// heightMost is how many entries heightOf looks at.
const heightMost = tree.MaxDepth

// heightOf returns how deep the directories below n are nested, if there is little to
// look at and all of it can be read.
func (v *view) heightOf(n *tree.Inode) (height int, known bool) {
	seen := 0
	for level := []*tree.Inode{n}; ; height++ {
		var next []*tree.Inode
		for _, n := range level {
			if n.Nlink == 2 {
				continue // no directory in it
			}
			var failed error
			err := n.Dir.List(v.trees.src, 0, func(e tree.Dirent, _ uint64) bool {
				if e.Type == unix.S_IFDIR {
					var sub *tree.Inode
					if sub, failed = v.state.Get(v.trees.src, e.Ino); failed == nil {
						next = append(next, sub)
					}
				}
				seen++
				return failed == nil && seen < heightMost
			})
			if err != nil || failed != nil || seen >= heightMost {
				return 0, false
			}
		}
		if len(next) == 0 {
			return height, true
		}
		level = next
	}
}

// deepen prepares a view for directories of a source below prefix.
func (v *view) deepen(prefix string, source *tree.State) error {
	p, err := tree.ParsePath(prefix)
	if err != nil {
		return err
	}
	depth := p.Depth() + source.Depth
	if depth >= tree.MaxDepth {
		return tree.ErrTooDeep
	}
	v.state.Depth = max(v.state.Depth, depth)
	return nil
}
