package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// An Op is what is done to a target: the steps of a graft become operations, and the same
// operations on an equal target make an equal one again.
type Op struct {
	Kind   Kind
	Parent uint64 // with Name: not of SetAttrs
	Name   string
	Ino    uint64      // of Link: what gets the name
	Node   *tree.Inode // of Put and SetAttrs

	// From is the inode that Node has its contents of, in the view with the number View.
	From uint64
	View uint32
}

// A Kind of change. The numbers are in the journal.
type Kind uint8

const (
	Link     Kind = 2  // one more name for an inode
	Remove   Kind = 3  // a name, and of a directory all that is in it
	Put      Kind = 15 // a new inode
	SetAttrs Kind = 16 // attributes of an inode
)

// Make makes the change. removed is called for each name that is removed.
func (c *Op) Make(e *tree.Editor, removed tree.RemovedFunc) error {
	switch c.Kind {
	case Remove:
		e.RemoveAll(c.Parent, c.Name, removed)
	case Link:
		e.Link(c.Parent, c.Name, c.Ino)
	case Put:
		e.Add(c.Parent, c.Name, c.Node)
	case SetAttrs:
		e.Own(c.Node.Ino).SetAttrs(c.Node, e.Time)
	}
	return e.Err()
}
