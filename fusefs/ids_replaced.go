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
	mu     sync.Mutex
	latest []fileCopy // at most maxCopies, the oldest first
}

// A fileCopy is a new file and its original.
type fileCopy struct {
	id       live.NodeID // the new file
	original live.NodeID // 0 while the original is not known
	ownerSet bool        // a program set the owner and group that all files show
}

const maxCopies = 256

// update passes the record of a file to the function change, and returns the changed record. It creates the record if
// there is none.
func (c *copies) update(id live.NodeID, change func(*fileCopy)) fileCopy {
	c.mu.Lock()
	defer c.mu.Unlock()

	i := slices.IndexFunc(c.latest, func(x fileCopy) bool { return x.id == id })
	if i < 0 {
		if i = len(c.latest); i == maxCopies {
			c.latest, i = slices.Delete(c.latest, 0, 1), maxCopies-1
		}
		c.latest = append(c.latest, fileCopy{id: id})
	}

	change(&c.latest[i])

	return c.latest[i]
}

// get returns the record of a file, the zero fileCopy if there is none.
func (c *copies) get(id live.NodeID) fileCopy {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.latest, func(x fileCopy) bool { return x.id == id }); i >= 0 {
		return c.latest[i]
	}
	return fileCopy{}
}

// recordCopy records that the file id is a copy of the file original. The mount hides the owner's write permission
// on files of other users, so a program that copies such a file with its mode creates a read-only copy. recordCopy
// gives such a copy the hidden permission.
func (p *permissions) recordCopy(writer live.Writer, id, original live.NodeID) error {
	if p.ids == nil {
		return nil
	}
	p.copies.update(id, func(c *fileCopy) { c.original = original })
	from, foreign := p.foreignAttr(original)
	n, err := p.forest.GetAttr(id)
	if !foreign || err != nil || n.UID != p.ids.UID {
		return err
	}

	hidden := from.Mode &^ p.shownAttr(from).Mode & unix.S_IWUSR
	if n.Mode&0o777&^(p.shownAttr(from).Mode&0o777) != 0 || hidden == 0 || n.Mode&unix.S_IWUSR != 0 {
		// The program did not copy the mode of the original, or no permission is missing in the copy.
		return nil
	}

	mode := n.Mode | hidden
	_, err = writer.SetAttr(id, live.SetAttr{Mode: &mode})
	return err
}

// completeSetAttr completes the attributes that a program sets on a copy. If the program sets the owner and
// group that all files show, or the mtime of the original, the copy also gets the group of the original. If no
// original is known and the file is new, the file keeps the group that its directory gave it.
func (p *permissions) completeSetAttr(id live.NodeID, s *live.SetAttr) {
	ids := p.ids
	if ids == nil {
		return
	}

	owner := s.UID != nil && s.GID != nil && *s.UID == ids.UID && *s.GID == ids.GID
	c := p.copies.get(id)
	original, err := p.forest.GetAttr(c.original)
	known := c.original != 0 && err == nil
	if !owner && (!known || s.Mtime == nil || *s.Mtime != original.Mtime) {
		return
	}

	p.copies.update(id, func(c *fileCopy) { c.ownerSet = true })
	a, err := p.forest.GetAttr(id)
	switch {
	case known && ids.inGroup(original.GID):
		s.GID = &original.GID
	case err == nil && owner && time.Now().UnixNano()-a.Btime < int64(time.Minute):
		s.GID = nil
	}
}

// inheritFromReplaced is called before a copy is renamed to the name of another file. The copy gets the
// hidden group, permissions and access control entries of the replaced file.
func (p *permissions) inheritFromReplaced(writer live.Writer, fromDir live.NodeID, from string, toDir live.NodeID, to string) error {
	n, err := p.forest.Lookup(fromDir, from)
	if err != nil || !p.copies.get(n.ID).ownerSet {
		// Nothing is inherited. If the lookup has failed, the rename itself fails with the same error.
		return nil
	}

	replaced, err := p.forest.Lookup(toDir, to)
	if err != nil || replaced.Mode&unix.S_IFMT != n.Mode&unix.S_IFMT {
		return nil
	}

	var s live.SetAttr
	if replaced.GID != n.GID && p.ids.inGroup(replaced.GID) {
		s.GID = &replaced.GID
	}

	const permissions = 0o777
	mode := n.Mode&^permissions | replaced.Mode&permissions
	if p.shownAttr(replaced).Mode&permissions == n.Mode&permissions && mode != n.Mode {
		s.Mode = &mode
	}

	if s.GID != nil || s.Mode != nil {
		if _, err := writer.SetAttr(n.ID, s); err != nil {
			return err
		}
	}

	return p.inheritHidden(writer, n.ID, replaced.ID)
}

// inheritHidden adds the hidden entries in the access control list of the file replacedID to the list of the
// file id. It does nothing if a program has changed the list of id.
func (p *permissions) inheritHidden(writer live.Writer, id, replacedID live.NodeID) error {
	replaced, err := p.aclOf(replacedID, aclAccess)
	if err != nil || !slices.ContainsFunc(replaced, p.ids.hides) {
		return err
	}

	present, err := p.aclOf(id, aclAccess)
	shown := slices.DeleteFunc(slices.Clone(replaced), p.ids.hides)
	if err != nil || present != nil && !slices.Equal(present, shown) {
		return err
	}

	return p.setACL(writer, id, aclAccess, encodeACL(replaced), 0, false)
}

// completeACL adds hidden entries to acl, a list that a program sets on the file id, and returns it. It adds
// the hidden entries of replaced, the list that acl replaces. If the file is a copy without a list, completeACL
// adds the hidden entries of the original. If acl has the permissions that the original shows, it also adds
// the hidden owner permissions of the original.
func (p *permissions) completeACL(id live.NodeID, acl, replaced []aclEntry) ([]aclEntry, error) {
	c := p.copies.get(id)
	if p.ids == nil || c.original == 0 || !c.ownerSet {
		return p.ids.withHidden(acl, replaced), nil
	}

	if replaced == nil {
		var err error
		if replaced, err = p.aclOf(c.original, aclAccess); err != nil {
			return nil, err
		}
	}

	original, err := p.forest.GetAttr(c.original)
	if err != nil {
		return nil, err
	}

	acl = p.ids.withHidden(acl, replaced)
	if hidden := original.Mode &^ p.shownAttr(original).Mode & unix.S_IRWXU; modeOf(acl) == p.shownAttr(original).Mode&0o777 {
		for _, e := range modeEntries(acl) {
			if e.Tag == aclUserObj {
				e.Perm |= uint16(hidden >> 6)
			}
		}
	}

	return acl, nil
}
