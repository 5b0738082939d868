package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// An Op is one operation on a target. A graft makes its steps as operations. The same operations
// on an equal target have an equal result, so recovery repeats them.
type Op struct {
	Kind   Kind
	Parent uint64 // Parent and Name are the name to change; not used by SetAttrs
	Name   string
	Ino    uint64      // for Link: the inode that gets the name
	Node   *tree.Inode // for Put and SetAttrs

	// From and View are an inode and its view. This inode has the contents of Node.
	From uint64
	View uint32
}

// A Kind is the kind of an Op. The numbers are in the journal.
type Kind uint8

const (
	Link     Kind = 2  // give an inode another name
	Remove   Kind = 3  // remove a name and, for a directory, its contents
	Put      Kind = 15 // make a new inode
	SetAttrs Kind = 16 // set attributes of an inode
)

// Make makes the operation. It calls removed for each name that is removed.
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
