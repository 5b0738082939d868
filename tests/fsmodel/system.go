package fsmodel

// A System is a tree that operations change: a directory of a mount, a forest without a mount, the
// state of a store.
type System interface {
	// Do performs an operation. The error is an errno, or nil.
	Do(op Op) error
	// List describes the tree in the words of [FS.List].
	List() (map[string]string, error)
}

// Dir is the path of a directory, as a System.
type Dir string

// Do performs an operation below the directory.
func (d Dir) Do(op Op) error { return op.Do(string(d)) }

// List describes the directory.
func (d Dir) List() (map[string]string, error) { return Observe(string(d)) }
