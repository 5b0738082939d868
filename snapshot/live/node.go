package live

import (
	"math"

	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// MaxIno is the largest inode number.
	MaxIno = tree.MaxIno
	// MaxView is the largest number of a view. The next number is reserved for
	// the nodes of package fusefs that are not in the forest.
	MaxView = 1<<28 - 2
	// RootIno is the inode number of the root directory of every view.
	RootIno = tree.RootIno
	// MainView is the view of the workspace main. It is 0 so that the id of main's root is 1,
	// as the kernel requires.
	MainView = 0
)

// NoPos is a position that is higher than all positions in the journal.
const NoPos = int64(math.MaxInt64)

// A NodeID is the id of a node of the forest: the view in the upper 28 bits, the
// inode number in the lower 36.
type NodeID uint64

// Node returns the id of an inode of a view.
func Node(view uint32, ino uint64) NodeID { return NodeID(uint64(view)<<tree.InoBits | ino) }

// View returns the number of the view.
func (id NodeID) View() uint32 { return uint32(id >> tree.InoBits) }

// Ino returns the inode number.
func (id NodeID) Ino() uint64 { return uint64(id) & MaxIno }

// Attr are the attributes of a node, as in stat(2). Times are in nanoseconds since 1970,
// Blocks in units of 512 bytes.
type Attr struct {
	ID                         NodeID
	Mode, UID, GID             uint32
	Nlink, Rdev                uint32
	Size, Blocks               int64
	Atime, Mtime, Ctime, Btime int64
}

func attrOf(view uint32, n *tree.Inode) Attr {
	return Attr{
		ID: Node(view, n.Ino), Mode: n.Mode, UID: n.UID, GID: n.GID,
		Nlink: n.Nlink, Rdev: n.Rdev, Size: n.Size(), Blocks: n.Blocks(),
		Atime: n.Atime, Mtime: n.Mtime, Ctime: n.Ctime, Btime: n.Btime,
	}
}
