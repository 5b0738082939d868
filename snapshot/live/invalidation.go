package live

// An Invalidation is what a change from inside (a restore, a merge, an import)
// replaced, so that caches of it can be dropped.
type Invalidation struct {
	// Entries are names that now lead elsewhere, or nowhere.
	Entries []Entry
	// Inodes are nodes whose attributes changed, directories among them
	// whose listing did.
	Inodes []NodeID
	// Epoch is set if the kernel looks every name up again since the change.
	Epoch bool
}

// view returns the view that everything is of, unless there is nothing to drop.
func (v Invalidation) view() uint32 {
	if len(v.Entries) > 0 {
		return v.Entries[0].Parent.View()
	}
	return v.Inodes[0].View()
}

// rootNames are the names in the root among Entries.
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

// An Entry is a name in a directory.
type Entry struct {
	Parent NodeID
	Name   string
	// Gone is what was there, if that has no name any more and the kernel may
	// know it; 0 else.
	Gone NodeID
	// Was is what was there and has no name any more, whether the kernel knows it
	// or not; 0 else.
	Was    NodeID
	WasDir bool // it was a directory
	// MountPoint is set if a file system is mounted on what was there, or below.
	MountPoint bool
}
