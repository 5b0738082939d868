package fusefs

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Ids are the user and group ids of the user of a mount in a user namespace that maps no other ids. The
// kernel lets nobody change a file whose ids are not mapped. So each file is shown as the user's own, and its
// owner permissions are the permissions that the user has by the stored owner, mode and access control list.
// The kernel checks only the shown owner and permissions. This file checks the operations that only the
// stored owner may perform.
type Ids struct {
	UID, GID uint32
	Groups   []uint32 // supplementary groups
}

func (i *Ids) inGroup(gid uint32) bool { return gid == i.GID || slices.Contains(i.Groups, gid) }

// access returns the permissions (rwx in the lowest bits) that the user has for a file of another user,
// as acl_permission_check and posix_acl_permission in the kernel compute them.
func (i *Ids) access(a *live.Attr, acl []aclEntry) uint32 {
	if acl == nil && i.inGroup(a.GID) {
		return a.Mode >> 3 & 7
	}
	mask, perm, inGroup := uint16(7), uint16(0), false
	for _, e := range acl {
		if e.Tag == aclMask {
			mask = e.Perm
		}
	}

	for _, e := range acl {
		switch {
		case e.Tag == aclUser && e.ID == i.UID:
			return uint32(e.Perm & mask)
		case e.Tag == aclGroupObj && i.inGroup(a.GID), e.Tag == aclGroup && i.inGroup(e.ID):
			perm, inGroup = perm|e.Perm&mask, true
		}
	}
	if inGroup {
		return uint32(perm)
	}

	return a.Mode & 7
}

// permissions has the rules for owners, modes and access control lists that the kernel leaves to the
// filesystem.
type permissions struct {
	forest *live.Forest
	ids    *Ids // Options.Ids
	acl    bool // Flags.ACL
	copies copies
}

// inGroup reports whether a caller has gid as a supplementary group.
func (p *permissions) inGroup(who *fuse.InHeader, gid uint32) bool {
	if p.ids != nil {
		return p.ids.inGroup(gid)
	}
	return process.InGroup(int(who.Pid), gid)
}

// access returns the permissions that the user of a mount has for a file of another user.
func (p *permissions) access(a *live.Attr) uint32 {
	acl, err := p.aclOf(a.ID, aclAccess)
	if err != nil {
		return 0
	}
	return p.ids.access(a, acl)
}

// shownAttr returns the attributes of a file as they are sent to the kernel.
func (p *permissions) shownAttr(a live.Attr) live.Attr {
	ids := p.ids
	if ids == nil {
		return a
	}
	if a.UID != ids.UID && a.Mode&unix.S_IFMT != unix.S_IFLNK && !control.IsNode(a.ID) {
		a.Mode = a.Mode&^unix.S_IRWXU | p.access(&a)<<6
		if a.Mode&unix.S_IFMT == unix.S_IFREG {
			// A program that copies the file with its mode makes a file of the user, which must not have these
			// bits.
			a.Mode &^= unix.S_ISUID | unix.S_ISGID
		}
	}

	a.UID, a.GID = ids.UID, ids.GID
	return a
}

// foreignAttr returns the attributes of a file, and reports whether the file is shown as a file of the user of
// the mount although its stored owner is another user.
func (p *permissions) foreignAttr(id live.NodeID) (live.Attr, bool) {
	if p.ids == nil {
		return live.Attr{}, false
	}
	a, err := p.forest.GetAttr(id)
	return a, err == nil && a.UID != p.ids.UID
}

// checkSetAttr makes the checks of setattr_prepare(9). It clears a set-group-ID bit that the user may not
// set.
func (p *permissions) checkSetAttr(in *fuse.SetAttrIn, s *live.SetAttr) fuse.Status {
	a, foreign := p.foreignAttr(live.NodeID(in.NodeId))
	const times = fuse.FATTR_ATIME | fuse.FATTR_MTIME
	now := in.Valid & (fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW) >> 3
	switch {
	case p.ids == nil:
	case !foreign && s.Mode != nil && !p.ids.inGroup(a.GID):
		*s.Mode &^= unix.S_ISGID
	case !foreign:
	case s.Mode != nil || s.UID != nil || s.GID != nil || in.Valid&times&^now != 0:
		return fuse.EPERM
	case now != 0 && p.access(&a)&unix.W_OK == 0:
		return fuse.EACCES
	}

	return fuse.OK
}

// checkSetXattr makes the checks of set_posix_acl(9) and xattr_permission(9).
func (p *permissions) checkSetXattr(id live.NodeID, name string) fuse.Status {
	a, foreign := p.foreignAttr(id)
	sticky := a.Mode&unix.S_IFMT == unix.S_IFDIR && a.Mode&unix.S_ISVTX != 0
	if foreign && (isACL(name) || sticky && strings.HasPrefix(name, "user.")) {
		return fuse.EPERM
	}
	return fuse.OK
}

// checkRemoval makes the check of check_sticky(9), for a name that is removed or replaced.
func (p *permissions) checkRemoval(parent live.NodeID, name string) fuse.Status {
	dir, foreign := p.foreignAttr(parent)
	if !foreign || dir.Mode&unix.S_ISVTX == 0 {
		return fuse.OK
	}

	a, err := p.forest.Lookup(parent, name)
	if err == nil && a.UID != p.ids.UID {
		return fuse.EPERM
	}

	// If the lookup has failed, the removal itself fails with the same error, so the check need not fail.
	return fuse.OK
}

// checkLink makes the checks of may_linkat(9).
func (p *permissions) checkLink(id live.NodeID) fuse.Status {
	a, foreign := p.foreignAttr(id)
	if !foreign {
		return fuse.OK
	}

	const rw = unix.R_OK | unix.W_OK
	safe := a.Mode&unix.S_IFMT == unix.S_IFREG && a.Mode&unix.S_ISUID == 0 &&
		a.Mode&(unix.S_ISGID|unix.S_IXGRP) != unix.S_ISGID|unix.S_IXGRP && p.access(&a)&rw == rw
	protected, _ := os.ReadFile("/proc/sys/fs/protected_hardlinks") // without this file, links are not protected
	if !safe && strings.TrimSpace(string(protected)) == "1" {
		return fuse.EPERM
	}

	return fuse.OK
}

func isACL(name string) bool { return name == aclAccess || name == aclDefault }

// hides reports whether an entry names a user or group that is not mapped. The kernel would refuse such an
// entry, so it is not shown to the kernel. It stays in the stored list.
func (i *Ids) hides(e aclEntry) bool {
	return i != nil && (e.Tag == aclUser && e.ID != i.UID || e.Tag == aclGroup && e.ID != i.GID)
}

// shownACL returns the value of an access control list as it is sent to the kernel.
func (i *Ids) shownACL(value []byte) []byte {
	acl, err := parseACL(value)
	if i == nil || err != nil {
		return value
	}
	return encodeACL(slices.DeleteFunc(acl, i.hides))
}

// withHidden returns acl with the hidden entries of replaced, the list that acl replaces. If acl has no mask,
// the hidden entries are removed, as by `setfacl -b`. A mask that was computed from the shown entries is
// computed again with the hidden ones, as setfacl(1) would.
func (i *Ids) withHidden(acl, replaced []aclEntry) []aclEntry {
	hidden := slices.DeleteFunc(slices.Clone(replaced), func(e aclEntry) bool { return !i.hides(e) })
	if len(hidden) == 0 || !hasTag(acl, aclMask) {
		return acl
	}

	maskOf := func(list []aclEntry) (perm uint16) {
		for _, e := range list {
			if e.Tag == aclUser || e.Tag == aclGroup || e.Tag == aclGroupObj {
				perm |= e.Perm
			}
		}
		return perm
	}

	computed := maskOf(acl)
	acl = append(slices.Clone(acl), hidden...)
	for n, e := range acl {
		if e.Tag == aclMask && e.Perm == computed {
			acl[n].Perm = maskOf(acl)
		}
	}

	slices.SortStableFunc(acl, func(a, b aclEntry) int { return cmp.Or(cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.ID, b.ID)) })

	return acl
}
