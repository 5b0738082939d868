package fusefs

import (
	"errors"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
)

// overlays has the rules for an overlayfs that has a layer in the mount.
type overlays struct {
	forest *live.Forest
	// attrRequested is set at the first request for an extended attribute of overlayfs. Overlays in all mount
	// namespaces send such requests, so attrRequested is also set for an overlay in another namespace than the
	// daemon's. tookOver is set after a takeover: the earlier daemon may have answered such a request.
	attrRequested atomic.Bool
	tookOver      bool
}

// recordRequest records a request for an extended attribute, if the attribute is one of overlayfs.
func (o *overlays) recordRequest(xattr string) {
	if strings.HasPrefix(xattr, "trusted.overlay.") || strings.HasPrefix(xattr, "user.overlay.") {
		o.attrRequested.Store(true)
	}
}

// mayBeCopyUp reports whether a change of owner can be the step with which overlayfs copies a file to its
// upper layer. Overlayfs sets the mode and the capabilities before this step, and they must stay, although
// the kernel asks to clear them as for chown(2). Such a file has no name yet or, before Linux 6.2, a name
// that begins with #. The caller owns the file, so it gains no right: it could set the mode again.
func (o *overlays) mayBeCopyUp(id live.NodeID, uid uint32) bool {
	if !o.attrRequested.Load() && !o.tookOver {
		return false
	}
	a, err := o.forest.GetAttr(id)
	if err != nil || a.UID != uid {
		return false
	}

	name, err := o.forest.Path(id, unix.PathMax)
	return errors.Is(err, errs.NotExist) || err == nil && strings.HasPrefix(path.Base(name), "#")
}
