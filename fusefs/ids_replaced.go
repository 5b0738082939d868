package fusefs

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
)

// With Ids, a program that copies a file with its group, permissions and access control list sees only the
// shown values (Ids). The copy gets the hidden values of the original, if the original is known:
//
//   - `cp -a` copies the bytes by copy_file_range(2), and then sets the owner.
//   - `sed -i` sets the owner of a new file, and renames it to the name of the old one.
//
// The original of a copy that is made in another way is not known.

// copies are the latest new files that are copies of other files, or whose owner a program has set.
type copies struct {
	mu   sync.Mutex
	last []fileCopy // at most maxCopies, the oldest first
}

// A fileCopy is a new file and its original.
type fileCopy struct {
	id, of live.NodeID // the new file and its original; of is 0 while the original is not known
	owned  bool        // a program set the owner and group that all files show
}

const maxCopies = 256

// update calls change with the record of a file, and returns the changed record. It creates the record if
// there is none.
func (c *copies) update(id live.NodeID, change func(*fileCopy)) fileCopy {
	c.mu.Lock()
	defer c.mu.Unlock()

	i := slices.IndexFunc(c.last, func(x fileCopy) bool { return x.id == id })
	if i < 0 {
		if i = len(c.last); i == maxCopies {
			c.last, i = slices.Delete(c.last, 0, 1), maxCopies-1
		}
		c.last = append(c.last, fileCopy{id: id})
	}

	change(&c.last[i])

	return c.last[i]
}

func (c *copies) get(id live.NodeID) fileCopy {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.last, func(x fileCopy) bool { return x.id == id }); i >= 0 {
		return c.last[i]
	}
	return fileCopy{}
}

// recordCopy records that the file id has bytes of the file of. If the original belongs to another user and
// is writable for its owner, this write permission is not shown. A copy that was created with the shown
// permissions gets the hidden write permission.
func (p *permissions) recordCopy(forest live.Writer, id, of live.NodeID) error {
	if p.ids == nil {
		return nil
	}
	p.copies.update(id, func(c *fileCopy) { c.of = of })
	was, foreign := p.foreign(of)
	n, err := p.forest.GetAttr(id)
	if !foreign || err != nil || n.UID != p.ids.UID {
		return err
	}

	lost := was.Mode &^ p.shownAttr(was).Mode & unix.S_IWUSR
	if n.Mode&0o777&^(p.shownAttr(was).Mode&0o777) != 0 || lost == 0 || n.Mode&unix.S_IWUSR != 0 {
		return nil // the copy was not created with the shown permissions
	}

	mode := n.Mode | lost
	_, err = forest.SetAttr(id, live.SetAttr{Mode: &mode})
	return err
}

// preserve completes the attributes that a program sets on a copy. If the program sets the owner and group
// that all files show, or the mtime of the original, the copy also gets the group of the original. If no
// original is known and the file is new, the file keeps the group that its directory gave it.
func (p *permissions) preserve(id live.NodeID, s *live.SetAttr) {
	ids := p.ids
	if ids == nil {
		return
	}

	owner := s.UID != nil && s.GID != nil && *s.UID == ids.UID && *s.GID == ids.GID
	c := p.copies.get(id)
	was, err := p.forest.GetAttr(c.of)
	known := c.of != 0 && err == nil
	if !owner && (!known || s.Mtime == nil || *s.Mtime != was.Mtime) {
		return
	}

	p.copies.update(id, func(c *fileCopy) { c.owned = true })
	a, err := p.forest.GetAttr(id)
	switch {
	case known && ids.inGroup(was.GID):
		s.GID = &was.GID
	case err == nil && owner && time.Now().UnixNano()-a.Btime < int64(time.Minute):
		s.GID = nil
	}
}

// inheritFromReplaced is called before a copy is renamed to the name of another file. The copy gets the
// hidden group, permissions and access control entries of the replaced file.
func (p *permissions) inheritFromReplaced(forest live.Writer, from live.NodeID, name string, to live.NodeID, replaced string) error {
	n, err := p.forest.Lookup(from, name)
	if err != nil || !p.copies.get(n.ID).owned {
		return nil // the rename fails with the error of Lookup
	}

	was, err := p.forest.Lookup(to, replaced)
	if err != nil || was.Mode&unix.S_IFMT != n.Mode&unix.S_IFMT {
		return nil
	}

	var s live.SetAttr
	if was.GID != n.GID && p.ids.inGroup(was.GID) {
		s.GID = &was.GID
	}

	const permissions = 0o777
	mode := n.Mode&^permissions | was.Mode&permissions
	if p.shownAttr(was).Mode&permissions == n.Mode&permissions && mode != n.Mode {
		s.Mode = &mode
	}

	if s.GID != nil || s.Mode != nil {
		if _, err := forest.SetAttr(n.ID, s); err != nil {
			return err
		}
	}

	return p.inheritHidden(forest, n.ID, was.ID)
}

// inheritHidden adds the hidden entries of the access control list of the file from to the list of the
// file id, unless a program changed the list of id.
func (p *permissions) inheritHidden(forest live.Writer, id, from live.NodeID) error {
	was, err := p.aclOf(from, aclAccess)
	if err != nil || !slices.ContainsFunc(was, p.ids.hides) {
		return err
	}

	has, err := p.aclOf(id, aclAccess)
	shown := slices.DeleteFunc(slices.Clone(was), p.ids.hides)
	if err != nil || has != nil && !slices.Equal(has, shown) {
		return err
	}

	return p.setACL(forest, id, aclAccess, encodeACL(was), 0, false)
}

// completeACL adds hidden entries to acl, a list that a program sets on the file id, and returns it. It adds
// the hidden entries of was, the list that acl replaces. If the file is a copy without a list, completeACL
// adds the hidden entries of the original. If acl has the permissions that the original shows, it also adds
// the hidden owner permissions of the original.
func (p *permissions) completeACL(id live.NodeID, acl, was []aclEntry) ([]aclEntry, error) {
	c := p.copies.get(id)
	if p.ids == nil || c.of == 0 || !c.owned {
		return p.ids.withHidden(acl, was), nil
	}

	if was == nil {
		var err error
		if was, err = p.aclOf(c.of, aclAccess); err != nil {
			return nil, err
		}
	}

	of, err := p.forest.GetAttr(c.of)
	if err != nil {
		return nil, err
	}

	acl = p.ids.withHidden(acl, was)
	if lost := of.Mode &^ p.shownAttr(of).Mode & unix.S_IRWXU; modeOf(acl) == p.shownAttr(of).Mode&0o777 {
		for _, e := range modeEntries(acl) {
			if e.Tag == aclUserObj {
				e.Perm |= uint16(lost >> 6)
			}
		}
	}

	return acl, nil
}
