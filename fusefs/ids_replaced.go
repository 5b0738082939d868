package fusefs

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot/live"
)

// With Ids, programs that copy a file with its owner, its permissions and its list see only what is
// shown of these. A copy takes the rest from the file that it is a copy of:
//
//   - `cp -a` copies the bytes by copy_file_range(2), and then sets the owner.
//   - `sed -i` sets the owner of a new file, and renames it to the name of the old one.
//
// Of a copy that is made in another way, nothing is known.

// copies are the new files that are copies of others, the last ones.
type copies struct {
	mu   sync.Mutex
	last []copied
}

// copied is one of them.
type copied struct {
	id, of live.NodeID // of is 0 if it is not known yet
	owned  bool        // a program gave it the owner that it saw
}

const maxCopies = 256

// update changes what is known of a file.
func (c *copies) update(id live.NodeID, change func(*copied)) copied {
	c.mu.Lock()
	defer c.mu.Unlock()

	i := slices.IndexFunc(c.last, func(x copied) bool { return x.id == id })
	if i < 0 {
		if i = len(c.last); i == maxCopies {
			c.last, i = slices.Delete(c.last, 0, 1), maxCopies-1
		}
		c.last = append(c.last, copied{id: id})
	}

	change(&c.last[i])

	return c.last[i]
}

func (c *copies) get(id live.NodeID) copied {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.last, func(x copied) bool { return x.id == id }); i >= 0 {
		return c.last[i]
	}
	return copied{}
}

// isCopyOf notes that a file has bytes of another one. If that has a permission to write that is not
// shown, because it is another user's, a program that created the file with the permissions that it
// saw gets it back.
func (fs *filesystem) isCopyOf(h *fuse.InHeader, id, of live.NodeID) error {
	if fs.opts.Ids == nil {
		return nil
	}
	fs.copies.update(id, func(c *copied) { c.of = of })
	was, foreign := fs.foreign(of)
	n, err := fs.forest.GetAttr(id)
	if !foreign || err != nil || n.UID != fs.opts.Ids.UID {
		return err
	}

	lost := was.Mode &^ fs.shown(was).Mode & unix.S_IWUSR
	if n.Mode&0o777&^(fs.shown(was).Mode&0o777) != 0 || lost == 0 || n.Mode&unix.S_IWUSR != 0 {
		return nil // it has others
	}

	mode := n.Mode | lost
	_, forest := fs.changer(h)
	_, err = forest.SetAttr(id, live.SetAttr{Mode: &mode})
	return err
}

// preserve completes the attributes that a program gives to a copy: with the owner that all files seem
// to have, or with the time of the original, it means the group of that, too. A new file that is not
// known for a copy keeps the group that its directory gave it.
func (fs *filesystem) preserve(id live.NodeID, s *live.SetAttr) {
	ids := fs.opts.Ids
	if ids == nil {
		return
	}

	owner := s.UID != nil && s.GID != nil && *s.UID == ids.UID && *s.GID == ids.GID
	c := fs.copies.get(id)
	was, err := fs.forest.GetAttr(c.of)
	known := c.of != 0 && err == nil
	if !owner && (!known || s.Mtime == nil || *s.Mtime != was.Mtime) {
		return
	}

	fs.copies.update(id, func(c *copied) { c.owned = true })
	a, err := fs.forest.GetAttr(id)
	switch {
	case known && ids.inGroup(was.GID):
		s.GID = &was.GID
	case err == nil && owner && time.Now().UnixNano()-a.Btime < int64(time.Minute):
		s.GID = nil
	}
}

// inherit gives a file that replaces another one the group, the permissions and the entries of the
// access control list that its program could not see.
func (fs *filesystem) inherit(h *fuse.InHeader, from live.NodeID, name string, to live.NodeID, replaced string) error {
	if fs.opts.Ids == nil {
		return nil
	}
	n, err := fs.forest.Lookup(from, name)
	if err != nil || !fs.copies.get(n.ID).owned {
		return nil // the rename finds the error
	}

	was, err := fs.forest.Lookup(to, replaced)
	if err != nil || was.Mode&unix.S_IFMT != n.Mode&unix.S_IFMT {
		return nil
	}

	_, forest := fs.changer(h)
	var s live.SetAttr
	if was.GID != n.GID && fs.opts.Ids.inGroup(was.GID) {
		s.GID = &was.GID
	}

	const permissions = 0o777
	mode := n.Mode&^permissions | was.Mode&permissions
	if fs.shown(was).Mode&permissions == n.Mode&permissions && mode != n.Mode {
		s.Mode = &mode
	}

	if s.GID != nil || s.Mode != nil {
		if _, err := forest.SetAttr(n.ID, s); err != nil {
			return err
		}
	}

	return fs.inheritHidden(forest, n.ID, was.ID)
}

// inheritHidden adds to the access control list of a file the entries of another one that are not
// shown, unless the file got other entries.
func (fs *filesystem) inheritHidden(forest *live.Forest, id, from live.NodeID) error {
	was, err := fs.aclOf(from, aclAccess)
	if err != nil || !slices.ContainsFunc(was, fs.opts.Ids.hides) {
		return err
	}

	has, err := fs.aclOf(id, aclAccess)
	shown := slices.DeleteFunc(slices.Clone(was), fs.opts.Ids.hides)
	if err != nil || has != nil && !slices.Equal(has, shown) {
		return err
	}

	return fs.setACL(forest, id, aclAccess, encodeACL(was), 0, false)
}

// completed returns an access control list that a program gives to a copy of a file of which it saw a
// part: with the entries that were not shown and, if it has the permissions that were shown, with
// those of the original.
func (fs *filesystem) completed(id live.NodeID, acl, was []aclEntry) ([]aclEntry, error) {
	c := fs.copies.get(id)
	if fs.opts.Ids == nil || c.of == 0 || !c.owned {
		return fs.opts.Ids.withHidden(acl, was), nil
	}

	if was == nil {
		var err error
		if was, err = fs.aclOf(c.of, aclAccess); err != nil {
			return nil, err
		}
	}

	of, err := fs.forest.GetAttr(c.of)
	if err != nil {
		return nil, err
	}

	acl = fs.opts.Ids.withHidden(acl, was)
	if lost := of.Mode &^ fs.shown(of).Mode & unix.S_IRWXU; modeOf(acl) == fs.shown(of).Mode&0o777 {
		for _, e := range inMode(acl) {
			if e.Tag == aclUserObj {
				e.Perm |= uint16(lost >> 6)
			}
		}
	}

	return acl, nil
}
