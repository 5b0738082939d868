package live

// An Invalidation has the names and nodes that an edit (a restore, a merge, an import) changed, so that
// the kernel's caches of them can be dropped.
type Invalidation struct {
	// Entries are names that were removed or have another inode now.
	Entries []Entry
	// Inodes are nodes whose attributes or bytes changed, and directories whose
	// entries changed.
	Inodes []NodeID
	// Epoch is set if the kernel looks up every name again after the change anyway.
	Epoch bool
}

// view returns the view of all entries and nodes. The invalidation must not be empty.
func (v Invalidation) view() uint32 {
	if len(v.Entries) > 0 {
		return v.Entries[0].Parent.View()
	}
	return v.Inodes[0].View()
}

// rootNames returns the names of Entries that are in the root.
func (v Invalidation) rootNames() (names []string) {
	for _, e := range v.Entries {
		if e.Parent.Ino() == RootIno {
			names = append(names, e.Name)
		}
	}
	return names
}

// Empty reports whether there is nothing to drop.
func (v Invalidation) Empty() bool { return len(v.Entries) == 0 && len(v.Inodes) == 0 }

// An Entry is a name in a directory that an edit changed.
type Entry struct {
	Parent NodeID
	Name   string
	// Was is the old node of the name if it has no name any more, else 0.
	Was    NodeID
	WasDir bool // the old node was a directory
	// Gone is Was if the kernel may have a reference to it, else 0.
	Gone NodeID
	// MountPoint is set if a file system is mounted on the old node, or below it.
	MountPoint bool
}
