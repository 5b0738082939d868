package control

import (
	"container/list"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A nodeKey is a name in .snapshots for one user. A file with answers has a node for each user, with the
// answers to the user's commands, and one for the workspace's owner, with all answers.
type nodeKey struct {
	name string
	user int64 // the user id, or anybody
}

// anybody is the user of files that are the same for all users, and of the owner's answers.
const anybody = -1

// streamKey returns the key of the stream of an answer.
func (s nodeKey) streamKey() nodeKey { return nodeKey{s.name + streamSuffix, s.user} }

// A node is a file or a symlink. It is a *renderedFile, an *answerFile, a *scratchFile, a callFile or an *eventLog.
// Callers of methods that end in Locked hold cache.mu, callers of read do not.
type node interface {
	// core returns the fields that nodes of all types have.
	core() *inode
	// input returns the commands that are being written to the node, nil if the node takes no commands.
	input() *input
	// sizeLocked returns the size of the file, and memoryLocked the bytes to charge for the node.
	sizeLocked() int64
	memoryLocked() int64
	// staysCached reports whether a node that has its name stays in the cache after the kernel has forgotten it.
	staysCached() bool
	// read reads up to len(p) bytes at an offset. At the end of the file it reads fewer.
	read(p []byte, off int64) (int, error)
}

// An inode has the fields that nodes of all types have. cache.mu guards the fields that change.
type inode struct {
	id  live.NodeID
	dir *directory
	key nodeKey
	// owner is the owner of a private file and of its stream. It is nil for other files, which belong to the
	// workspace's owner.
	owner *actors.Caller

	element      *list.Element // the node's element in tenant.nodes, nil after the node was removed
	chargedBytes int64

	kernelRefs uint64 // how many lookups returned the node, less those that the kernel has forgotten
	mode       uint32
	mtime      int64 // ns
}

func (i *inode) core() *inode      { return i }
func (i *inode) input() *input     { return nil }
func (i *inode) staysCached() bool { return true }

// touchLocked records that a node was used now.
func (i *inode) touchLocked() {
	if i.element != nil {
		i.dir.tenant.nodes.MoveToFront(i.element)
	}
}

// A renderedFile is a generated file or a symlink.
type renderedFile struct {
	inode
	content  *content
	source   source // the states from which the content was rendered
	commands input  // the commands that are being written to policy
}

func (n *renderedFile) input() *input       { return &n.commands }
func (n *renderedFile) sizeLocked() int64   { return n.content.Size() }
func (n *renderedFile) memoryLocked() int64 { return n.content.Size() + n.commands.sizeLocked() }
func (n *renderedFile) staysCached() bool   { return false }

func (n *renderedFile) read(p []byte, off int64) (int, error) {
	n.dir.cache.mu.Lock()
	n.commands.pagesCached = true
	n.touchLocked()
	n.dir.cache.mu.Unlock()

	return n.content.ReadAt(p, off), nil // the content of the node never changes
}

// An answerFile is a file to which commands are written, and which shows the answer to the last one.
type answerFile struct {
	inode
	content     *content
	replacement *answerFile // if set, a newer node of the key, whose content this node shows
	blankCount  int64       // the number of blanks before the content, see commands.write
	commands    input
}

func (n *answerFile) input() *input       { return &n.commands }
func (n *answerFile) sizeLocked() int64   { return n.blankCount + n.contentLocked().Size() }
func (n *answerFile) memoryLocked() int64 { return n.content.Size() + n.commands.sizeLocked() }

// contentLocked returns the content of the node, or of the newer node that replaced it.
func (n *answerFile) contentLocked() *content {
	if n.replacement != nil {
		return n.replacement.content
	}
	return n.content
}

func (n *answerFile) read(p []byte, off int64) (int, error) {
	n.dir.cache.mu.Lock()
	n.commands.pagesCached = true
	n.touchLocked()
	c, blanks, stale := n.contentLocked(), n.blankCount, n.replacement != nil && n.replacement.element == nil
	n.dir.cache.mu.Unlock()

	switch {
	case stale:
		return 0, errs.Stale
	case c == lostAnswer:
		return 0, errUnanswered
	}

	before := p[:max(0, min(int64(len(p)), blanks-off))]
	for i := range before {
		before[i] = ' '
	}

	return len(before) + c.ReadAt(p[len(before):], max(off, blanks)-blanks), nil
}

// A callFile is a file call.ANYTHING, see private.go. A request runs as soon as it is completely written.
type callFile struct{ *answerFile }

// answerOf returns the answer that a node shows, nil for a node of another type.
func answerOf(n node) *answerFile {
	switch n := n.(type) {
	case *answerFile:
		return n
	case callFile:
		return n.answerFile
	}
	return nil
}

// A scratchFile is a file like create.tmp.1, see private.go. Its command runs when the file is renamed.
type scratchFile struct {
	inode
	content *content
}

func (n *scratchFile) sizeLocked() int64   { return n.content.Size() }
func (n *scratchFile) memoryLocked() int64 { return n.content.Size() }

func (n *scratchFile) read(p []byte, off int64) (int, error) {
	n.dir.cache.mu.Lock()
	defer n.dir.cache.mu.Unlock()

	n.touchLocked()
	return n.content.ReadAt(p, off), nil
}

// An eventLog is the event log of a workspace. It keeps its node while it grows.
type eventLog struct {
	inode
	events *events.Reader
	size   int64 // the size in the last answer to the kernel
}

func (n *eventLog) sizeLocked() int64   { return n.size }
func (n *eventLog) memoryLocked() int64 { return 0 }
func (n *eventLog) staysCached() bool   { return false }

// read returns an error only if it read no byte.
func (n *eventLog) read(p []byte, off int64) (int, error) {
	size := n.events.Size()
	if off >= size {
		return 0, nil
	}

	read, err := n.events.ReadAt(p[:min(int64(len(p)), size-off)], off)
	if read > 0 {
		err = nil
	}

	return read, err
}

// isPrivateFile reports whether a node is a private file.
func isPrivateFile(n node) bool {
	switch n.(type) {
	case *scratchFile, callFile:
		return true
	}
	return false
}

// attrLocked returns the attributes of a node. root has the attributes of the workspace's root.
func attrLocked(n node, root live.Attr) live.Attr {
	f, size := n.core(), n.sizeLocked()
	a := live.Attr{
		ID: f.id, Mode: f.mode, UID: root.UID, GID: root.GID, Nlink: 1, Size: size, Blocks: (size + 511) / 512,
		Atime: f.mtime, Mtime: f.mtime, Ctime: f.mtime, Btime: f.mtime,
	}
	if f.owner != nil {
		a.UID, a.GID = f.owner.UID, f.owner.GID
	} else if isShared(f.key.name) {
		a.Mode |= root.Mode & 0o222
	}

	return a
}

// entryLocked returns a node as the answer to a lookup, and counts the kernel's reference to it. root
// has the attributes of the workspace's root.
func entryLocked(n node, root live.Attr) Entry {
	n.core().kernelRefs++
	n.core().touchLocked()
	return Entry{Attr: attrLocked(n, root)}
}

// rootAttr returns the attributes of a workspace's root, whose owner is the owner of its control files. The
// attributes are zero if the workspace has ended, so that its files belong to root.
func rootAttr(ws *snapshot.Workspace) live.Attr {
	a, _ := waitAttr(ws, ws.Root())
	return a
}

// keyOf returns the key of the node that a caller sees under a name. For the owner of the store or of the
// workspace, it is the node with all answers. For another caller, it is the node with the caller's own
// answers.
func keyOf(ws *snapshot.Workspace, name string, who actors.Caller) nodeKey {
	if who.OwnsStore() || rootAttr(ws).UID == who.UID {
		return nodeKey{name, anybody}
	}
	return nodeKey{name, int64(who.UID)}
}
