package graft

import "github.com/amberfs/amberfs/snapshot/tree"

// An Op is one operation on a target. A graft makes its steps as operations. The same operations
// on an equal target have an equal result, so recovery repeats them.
type Op struct {
	Kind   Kind
	Parent uint64 // Parent and Name are the name to change; not used by OpSetAttrs
	Name   string
	Ino    uint64      // for OpLink: the inode that gets the name
	Node   *tree.Inode // for OpPut and OpSetAttrs

	// ContentIno and ContentView are an inode and its view. This inode has the contents of Node.
	ContentIno  uint64
	ContentView uint32
}

// A Kind is the kind of an Op. The numbers are in the journal.
type Kind uint8

const (
	OpLink     Kind = 2  // give an inode another name
	OpRemove   Kind = 3  // remove a name and, for a directory, its contents
	OpPut      Kind = 15 // make a new inode
	OpSetAttrs Kind = 16 // set attributes of an inode
)

// Make makes the operation. It calls removed for each name that is removed.
func (c *Op) Make(e *tree.Editor, removed tree.RemovedFunc) error {
	switch c.Kind {
	case OpRemove:
		e.RemoveAll(c.Parent, c.Name, removed)
	case OpLink:
		e.Link(c.Parent, c.Name, c.Ino)
	case OpPut:
		e.Add(c.Parent, c.Name, c.Node)
	case OpSetAttrs:
		e.Own(c.Node.Ino).SetAttrs(c.Node, e.Time)
	}
	return e.Err()
}
