package tree

// An Editor changes the names in a state, in one epoch and with one time. After an error its other
// methods have no effect, and Err returns the error. The caller holds the lock of the state's owner.
type Editor struct {
	State  *State
	Source *Source
	Epoch  uint64
	Time   int64 // of the changes, in nanoseconds since 1970

	// OnChanged, if set, is called for each inode that is created, whose names change, or that is passed to
	// ReportChanged. It is not called for a directory whose entries change.
	OnChanged func(ino uint64)
	// OnUnnamed, if set, is called with each inode whose last name was removed. Its argument is the version before
	// the removal.
	OnUnnamed func(n *Inode)

	err error
}

// Err returns the first error.
func (e *Editor) Err() error { return e.err }

// recordError records err if it is the first error. It returns true if there was no error so far.
func (e *Editor) recordError(err error) bool {
	if e.err == nil {
		e.err = LoadError(err)
	}
	return e.err == nil
}

// ReportChanged calls OnChanged, if it is set.
func (e *Editor) ReportChanged(ino uint64) {
	if e.OnChanged != nil {
		e.OnChanged(ino)
	}
}

// OwnSlot calls State.OwnSlot with the editor's epoch.
func (e *Editor) OwnSlot(ino uint64) error {
	return LoadError(e.State.OwnSlot(e.Source, e.Epoch, ino))
}

// Own returns an inode that the caller may change. After an error it returns an inode that does not
// belong to the state.
func (e *Editor) Own(ino uint64) *Inode {
	if e.err != nil {
		return &Inode{}
	}
	n, err := e.State.Own(e.Source, e.Epoch, ino)
	if !e.recordError(err) {
		return &Inode{}
	}

	return n
}

func (e *Editor) lookup(dir *Inode, name string) (d Dirent, found bool) {
	if e.err != nil {
		return d, false
	}
	d, found, err := dir.Dir.Lookup(e.Source, name)
	e.recordError(err)
	return d, found
}

// setEntry adds an entry for n to a directory, or replaces the entry of that name.
func (e *Editor) setEntry(dir *Inode, name string, n *Inode) {
	if e.err != nil {
		return
	}
	e.recordError(dir.Dir.Insert(e.Source, e.Epoch, Dirent{Name: name, Ino: n.Ino, Type: n.Type()}))
	dir.Mtime, dir.Ctime = e.Time, e.Time
}

func (e *Editor) removeEntry(dir *Inode, name string) {
	if e.err != nil {
		return
	}
	e.recordError(dir.Dir.Remove(e.Source, e.Epoch, name))
	dir.Mtime, dir.Ctime = e.Time, e.Time
}

// Add adds a new inode to the state, with a name that is not in use.
func (e *Editor) Add(parent uint64, name string, n *Inode) {
	dir := e.Own(parent)
	e.setEntry(dir, name, n)
	n.Links = []Link{{Parent: parent, Name: name}}
	if e.err != nil || !e.recordError(e.State.Put(e.Source, e.Epoch, n)) {
		return
	}

	e.ReportChanged(n.Ino)
	e.State.Bytes += n.FileSize()
	if n.IsDir() {
		dir.Nlink++
	}
}

// Link gives an inode of the state one more name.
func (e *Editor) Link(parent uint64, name string, ino uint64) {
	n, dir := e.Own(ino), e.Own(parent)
	if e.setEntry(dir, name, n); e.err != nil {
		return
	}

	e.ReportChanged(n.Ino)
	n.AddLink(Link{Parent: parent, Name: name})
	n.Nlink++
	n.Ctime = e.Time
}

// Remove removes a name. If it is the inode's last name, Remove also removes the inode from the state and returns
// its version before the removal, with last set. Else it returns the new version of the inode.
func (e *Editor) Remove(parent uint64, name string) (n *Inode, last bool) {
	dir := e.Own(parent)
	d, found := e.lookup(dir, name)
	if !found {
		e.recordError(ErrNotExist)
	}

	n, last = e.unlink(d.Ino, Link{Parent: parent, Name: name})
	if e.removeEntry(dir, name); e.err == nil && n.IsDir() {
		dir.Nlink--
	}

	return n, last
}

// unlink does the part of Remove that changes the inode. It does not change the directory.
func (e *Editor) unlink(ino uint64, l Link) (n *Inode, last bool) {
	if e.err != nil {
		return &Inode{}, false
	}
	n, err := e.State.Get(e.Source, ino)
	if !e.recordError(err) {
		return &Inode{}, false
	}

	e.ReportChanged(ino)

	if !n.IsDir() && n.Nlink > 1 {
		n = e.Own(ino)
		n.Ctime = e.Time
		n.RemoveLink(l)
		n.Nlink--
		return n, false
	}

	e.State.Bytes -= n.FileSize()
	if e.recordError(e.State.Delete(e.Source, e.Epoch, ino)) && e.OnUnnamed != nil {
		e.OnUnnamed(n)
	}

	return n, true
}

// Rename moves a name. If the new name exists, it is removed first, as by Remove.
func (e *Editor) Rename(from, to Link) { e.rename(from, to, nil) }

// Whiteout renames a file or directory as Rename does, and gives the old name to n, a new inode.
func (e *Editor) Whiteout(from, to Link, n *Inode) { e.rename(from, to, n) }

func (e *Editor) rename(from, to Link, whiteout *Inode) {
	dir, newDir := e.Own(from.Parent), e.Own(to.Parent)
	d, found := e.lookup(dir, from.Name)
	if !found {
		e.recordError(ErrNotExist)
	}

	n := e.Own(d.Ino)
	if _, occupied := e.lookup(newDir, to.Name); occupied {
		e.Remove(to.Parent, to.Name)
	}
	if e.err != nil {
		return
	}

	e.ReportChanged(n.Ino)
	if whiteout == nil {
		e.removeEntry(dir, from.Name)
	}

	e.move(newDir, n, from, to.Name)
	if whiteout != nil {
		e.Add(from.Parent, from.Name, whiteout)
	}

	if n.IsDir() {
		dir.Nlink--
		newDir.Nlink++
	}
}

// Exchange exchanges the inodes of two names.
func (e *Editor) Exchange(a, b Link) {
	dirA, dirB := e.Own(a.Parent), e.Own(b.Parent)
	da, foundA := e.lookup(dirA, a.Name)
	db, foundB := e.lookup(dirB, b.Name)
	if !foundA || !foundB {
		e.recordError(ErrNotExist)
	}

	n, other := e.Own(da.Ino), e.Own(db.Ino)
	if e.err != nil {
		return
	}

	e.ReportChanged(n.Ino)
	e.ReportChanged(other.Ino)
	e.move(dirB, n, a, b.Name)
	e.move(dirA, other, b, a.Name)

	for _, x := range []struct{ n, from, to *Inode }{{n, dirA, dirB}, {other, dirB, dirA}} {
		if x.n.IsDir() {
			x.from.Nlink--
			x.to.Nlink++
		}
	}
}

// move replaces an old name of n by a name in dir.
func (e *Editor) move(dir, n *Inode, old Link, name string) {
	if e.setEntry(dir, name, n); e.err != nil {
		return
	}
	n.RemoveLink(old)
	n.AddLink(Link{Parent: dir.Ino, Name: name})
	n.Ctime = e.Time
}
