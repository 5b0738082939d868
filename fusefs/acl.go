package fusefs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// With the mount option `acl` the kernel checks POSIX access control lists. The filesystem keeps the lists and
// the modes of inodes in agreement (acl(5)): a new file gets the default list of its directory or, if there is
// no such list, its mode is limited by the umask. A new access list changes the mode, and chmod changes the
// list.

// The tags of struct posix_acl_xattr_entry.
const (
	aclUserObj  = 0x01
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20

	aclVersion = 2
)

// An aclEntry is struct posix_acl_xattr_entry.
type aclEntry struct {
	Tag, Perm uint16
	ID        uint32
}

// parseACL decodes the value of a system.posix_acl_* attribute: a version of
// four bytes, then the entries, little-endian.
func parseACL(b []byte) ([]aclEntry, error) {
	if len(b) < 4 || (len(b)-4)%8 != 0 || binary.LittleEndian.Uint32(b) != aclVersion {
		return nil, fmt.Errorf("access control list: %w", errs.Invalid)
	}
	acl := make([]aclEntry, (len(b)-4)/8)
	_, err := binary.Decode(b[4:], binary.LittleEndian, acl)
	return acl, err
}

func encodeACL(acl []aclEntry) []byte {
	// The error is ignored: Append fails only for types without a fixed size.
	b, _ := binary.Append(binary.LittleEndian.AppendUint32(nil, aclVersion), binary.LittleEndian, acl)
	return b
}

func hasTag(acl []aclEntry, tags ...uint16) bool {
	return slices.ContainsFunc(acl, func(e aclEntry) bool { return slices.Contains(tags, e.Tag) })
}

// exceedsMode reports whether a list has entries that a mode cannot express.
func exceedsMode(acl []aclEntry) bool { return hasTag(acl, aclUser, aclGroup, aclMask) }

// modeEntries yields the entries whose permissions are part of the mode, each with the number of its lowest
// bit in the mode. The group bits of the mode are the mask, if the list has a mask.
func modeEntries(acl []aclEntry) iter.Seq2[int, *aclEntry] {
	shifts := map[uint16]int{aclUserObj: 6, aclGroupObj: 3, aclOther: 0}
	if hasTag(acl, aclMask) {
		shifts = map[uint16]int{aclUserObj: 6, aclMask: 3, aclOther: 0}
	}

	return func(yield func(int, *aclEntry) bool) {
		for i := range acl {
			if shift, ok := shifts[acl[i].Tag]; ok && !yield(shift, &acl[i]) {
				return
			}
		}
	}
}

// modeOf returns the permission bits of the mode that agrees with a list.
func modeOf(acl []aclEntry) (mode uint32) {
	for shift, e := range modeEntries(acl) {
		mode |= uint32(e.Perm&7) << shift
	}
	return mode
}

// intersectACL reduces the entries of acl, and the mode that it returns, to the permissions that both the list
// and the mode grant (posix_acl_create_masq in the kernel).
func intersectACL(acl []aclEntry, mode uint32) uint32 {
	for shift, e := range modeEntries(acl) {
		e.Perm &= uint16(mode >> shift & 7)
		mode &^= 7 << shift &^ (uint32(e.Perm) << shift)
	}
	return mode
}

// aclOf returns the list of a node with a name (aclAccess or aclDefault), nil if the node has no such list.
func (p *permissions) aclOf(id live.NodeID, name string) ([]aclEntry, error) {
	value, err := p.forest.GetXattr(id, name)
	if errors.Is(err, errs.NoAttr) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	return parseACL(value)
}

// inheritACL gives a new node the default list of its directory. If the directory has none, inheritACL
// applies the umask: because of DONT_MASK, the kernel does not apply it.
func (p *permissions) inheritACL(parent live.NodeID, c *live.NewNode, umask uint32) error {
	if c.Mode&syscall.S_IFMT == syscall.S_IFLNK {
		return nil
	}
	acl, err := p.aclOf(parent, aclDefault)
	if acl == nil || err != nil {
		c.Mode &^= umask & 0o777
		return err
	}

	inherited := encodeACL(acl)
	c.Mode = c.Mode&^0o777 | intersectACL(acl, c.Mode&0o777)
	if exceedsMode(acl) {
		c.Xattrs = append(c.Xattrs, tree.Xattr{Name: aclAccess, Value: encodeACL(acl)})
	}
	if c.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		c.Xattrs = append(c.Xattrs, tree.Xattr{Name: aclDefault, Value: inherited}) // the names stay sorted: aclDefault comes after aclAccess
	}

	return nil
}

// setACL stores a list. An access list also sets the mode. If the mode expresses the whole access list, no
// list is stored. With killSgid, setACL clears the set-group-ID bit.
func (p *permissions) setACL(writer live.Writer, id live.NodeID, name string, value []byte, flags int, killSgid bool) error {
	acl, err := parseACL(value)
	if err != nil {
		return err
	}

	replaced, err := p.aclOf(id, name)
	if err != nil {
		return err
	}
	if acl, err = p.completeACL(id, acl, replaced); err != nil {
		return err
	}

	value = encodeACL(acl)
	if name == aclDefault {
		return writer.SetXattr(id, name, value, flags, false)
	}

	a, err := p.forest.GetAttr(id)
	if err != nil {
		return err
	}

	mode := a.Mode&07000 | modeOf(acl)
	if killSgid {
		mode &^= syscall.S_ISGID
	}

	if exceedsMode(acl) {
		err = writer.SetXattr(id, name, value, flags, killSgid)
	} else if err = writer.RemoveXattr(id, name); errors.Is(err, errs.NoAttr) {
		err = nil
	}
	if err != nil {
		return err
	}

	_, err = writer.SetAttr(id, live.SetAttr{Mode: &mode})
	return err
}

// chmodACL changes the access list of a node to agree with the node's new mode. It does nothing for a node
// without an access list.
func (p *permissions) chmodACL(writer live.Writer, id live.NodeID, mode uint32) error {
	acl, err := p.aclOf(id, aclAccess)
	if acl == nil || err != nil {
		return err
	}
	for shift, e := range modeEntries(acl) {
		e.Perm = uint16(mode >> shift & 7)
	}

	return writer.SetXattr(id, aclAccess, encodeACL(acl), 0, false)
}

// attrIfSetID returns the attributes of a node. The bool is true if the node is a regular file with the
// set-user-ID or set-group-ID bit. If check is false, attrIfSetID returns false and reads nothing.
func (p *permissions) attrIfSetID(id live.NodeID, check bool) (live.Attr, bool) {
	if !check {
		return live.Attr{}, false
	}
	a, err := p.forest.GetAttr(id)
	return a, err == nil && a.Mode&(syscall.S_ISUID|syscall.S_ISGID) != 0 && a.Mode&syscall.S_IFMT == syscall.S_IFREG
}

// dropSgid clears the set-group-ID bit of a file that its group may not execute, after a user
// outside of the group changed the file. live.Writer.Write clears the bit of files that the group may
// execute.
func (p *permissions) dropSgid(writer live.Writer, a live.Attr, who *fuse.InHeader) error {
	if a.Mode&(syscall.S_ISGID|syscall.S_IXGRP) != syscall.S_ISGID || who.Gid == a.GID || p.inGroup(who, a.GID) {
		return nil
	}
	mode := a.Mode &^ (syscall.S_ISGID | syscall.S_ISUID)
	_, err := writer.SetAttr(a.ID, live.SetAttr{Mode: &mode})
	return err
}

// killPriv clears the set-user-ID and set-group-ID bits after a change by a request that, unlike WRITE, has
// no flag for this. A change by root keeps the bits. changed reports whether the file had them.
func (p *permissions) killPriv(writer live.Writer, id live.NodeID, who *fuse.InHeader) (changed bool, err error) {
	a, privileged := p.attrIfSetID(id, who.Uid != 0)
	if !privileged {
		return false, nil
	}

	if _, err := writer.SetAttr(id, live.SetAttr{KillPriv: true}); err != nil {
		return true, err
	}
	return true, p.dropSgid(writer, a, who)
}
