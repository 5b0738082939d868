package fusefs

import (
	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot/live"
)

// hasSetID returns the attributes of a node, and reports whether it is a regular file with the
// set-user-ID or set-group-ID bit. If check is false, it reports false and reads nothing.
func (p *permissions) hasSetID(id live.NodeID, check bool) (live.Attr, bool) {
	if !check {
		return live.Attr{}, false
	}
	a, err := p.forest.GetAttr(id)
	return a, err == nil && a.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 && a.Mode&unix.S_IFMT == unix.S_IFREG
}

// dropSgid clears the set-group-ID bit of a file that its group may not execute, after a user
// outside of the group changed the file. live.Forest.Write clears the bit of files that the group may
// execute.
func (p *permissions) dropSgid(forest live.Writer, a live.Attr, who *fuse.InHeader) error {
	if a.Mode&(unix.S_ISGID|unix.S_IXGRP) != unix.S_ISGID || who.Gid == a.GID || p.inGroup(who, a.GID) {
		return nil
	}
	mode := a.Mode &^ (unix.S_ISGID | unix.S_ISUID)
	_, err := forest.SetAttr(a.ID, live.SetAttr{Mode: &mode})
	return err
}

// killPriv clears the set-user-ID and set-group-ID bits after a change by a request that, unlike WRITE,
// has no flag for this. Only a change by root leaves the bits. changed reports whether the file had them.
func (p *permissions) killPriv(forest live.Writer, id live.NodeID, who *fuse.InHeader) (changed bool, err error) {
	a, privileged := p.hasSetID(id, who.Uid != 0)
	if !privileged {
		return false, nil
	}

	if _, err := forest.SetAttr(id, live.SetAttr{KillPriv: true}); err != nil {
		return true, err
	}
	return true, p.dropSgid(forest, a, who)
}
