package fusefs

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/process"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// storesXattr reports whether attributes of this name are stored.
func (f Flags) storesXattr(name string) bool {
	switch {
	case strings.HasPrefix(name, "user."), strings.HasPrefix(name, "trusted."), strings.HasPrefix(name, "security."):
		return true
	case isACL(name):
		return f.ACL
	}
	return false
}

// checkXattrName returns an error for a name that no attribute can have: a name in an unknown namespace, or a
// namespace alone, such as "user.". Other filesystems return the same errors.
func (f Flags) checkXattrName(name string) fuse.Status {
	if f.NoXattr {
		return fuse.ENOSYS // the kernel sends no more requests for attributes
	}
	if !f.storesXattr(name) {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	if strings.HasSuffix(name, ".") && strings.Count(name, ".") == 1 {
		return fuse.EINVAL
	}

	return fuse.OK
}

// copyValue copies a value into the caller's buffer and returns its length. A caller with an
// empty buffer asks for the length alone.
func copyValue(value, dest []byte) (uint32, fuse.Status) {
	if len(dest) > 0 && len(value) > len(dest) {
		return uint32(len(value)), fuse.ERANGE
	}
	copy(dest, value)
	return uint32(len(value)), fuse.OK
}

// GetXAttr returns an attribute. Most requests are for an attribute that a file does not have: the kernel asks
// for security.capability before the first write to each inode.
func (fs *filesystem) GetXAttr(_ <-chan struct{}, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if bad := fs.opts.checkXattrName(name); bad != fuse.OK {
		return 0, bad
	}
	fs.overlays.recordRequest(name)

	id := live.NodeID(h.NodeId)
	if control.IsNode(id) {
		return 0, fuse.ENODATA
	}

	value, err := fs.forest.GetXattr(id, name)
	if errors.Is(err, errs.NoAttr) {
		return 0, fuse.ENODATA
	}
	if err != nil {
		return 0, fs.replies.status("getxattr", id, err)
	}
	if isACL(name) {
		value = fs.opts.Ids.shownACL(value)
	}

	return copyValue(value, dest)
}

// ListXAttr lists names, each ended by a zero byte. Names of the trusted namespace are listed for
// administrators only: the kernel checks this for the values but not for the names.
func (fs *filesystem) ListXAttr(_ <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	if fs.opts.NoXattr {
		return 0, fuse.ENOSYS
	}
	id := live.NodeID(h.NodeId)
	if control.IsNode(id) {
		return 0, fuse.OK
	}

	names, err := fs.forest.ListXattr(id)
	if err != nil {
		return 0, fs.replies.status("listxattr", id, err)
	}

	var list []byte
	isTrusted := func(name string) bool { return strings.HasPrefix(name, "trusted.") }
	hideTrusted := slices.ContainsFunc(names, isTrusted) && !process.IsAdmin(int(h.Pid), h.Uid)
	for _, n := range names {
		if fs.opts.storesXattr(n) && !(hideTrusted && isTrusted(n)) {
			list = append(append(list, n...), 0)
		}
	}

	return copyValue(list, dest)
}

func (fs *filesystem) SetXAttr(_ <-chan struct{}, in *fuse.SetXAttrIn, name string, data []byte) fuse.Status {
	return fs.changeXattr("setxattr", &in.InHeader, name, func(writer live.Writer, id live.NodeID) error {
		if isACL(name) {
			// The kernel sets SETXATTR_ACL_KILL_SGID if the caller is not in the file's group.
			return fs.permissions.setACL(writer, id, name, data, int(in.Flags), in.SetXAttrFlags&fuse.SETXATTR_ACL_KILL_SGID != 0)
		}
		return writer.SetXattr(id, name, data, int(in.Flags), false)
	})
}

func (fs *filesystem) RemoveXAttr(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return fs.changeXattr("removexattr", h, name, func(writer live.Writer, id live.NodeID) error {
		err := writer.RemoveXattr(id, name)
		if isACL(name) && errors.Is(err, errs.NoAttr) {
			return nil // the list did not exist, which is no error in other filesystems either
		}
		return err
	})
}

// changeXattr carries out SETXATTR or REMOVEXATTR: it checks the name and the permissions, and calls the function
// change.
func (fs *filesystem) changeXattr(op string, h *fuse.InHeader, name string, change func(live.Writer, live.NodeID) error) fuse.Status {
	id := live.NodeID(h.NodeId)
	if bad := fs.opts.checkXattrName(name); bad != fuse.OK {
		return bad
	}
	if control.IsNode(id) {
		return fuse.EPERM
	}
	if bad := fs.permissions.checkSetXattr(id, name); bad != fuse.OK {
		return bad
	}
	if _, ok := fs.callers.carriedOut(h); ok {
		return fuse.OK
	}

	who, writer := fs.callers.writerFor(h)
	// A resent request that sets an access control list may be carried out again: it makes several changes, and
	// an earlier daemon may have made only some of them.
	if !isACL(name) {
		who, writer = fs.callers.onceWriterFor(h)
	}
	if err := change(writer, id); err != nil {
		return fs.replies.status(op, id, err)
	}

	fs.recordEvent(Event{Caller: who, Action: events.Modified, Node: id})

	return fuse.OK
}
