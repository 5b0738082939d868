package control

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// GetAttr returns the attributes of a node. The kernel may cache the attributes of a directory for
// BriefCacheTime. It must not cache the attributes of a file.
func (t *Tree) GetAttr(id live.NodeID) (live.Attr, error) {
	if IsDir(id) {
		return t.dirAttr(id)
	}
	n, err := t.cache.get(id)
	if err != nil {
		return live.Attr{}, err
	}

	if log, ok := n.(*eventLog); ok {
		t.logs.updateSize(log)
	}

	root := rootAttr(n.core().dir.ws)
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()

	return attrLocked(n, root), nil
}

// SetAttr truncates a scratch file, or changes its mode. For other files it accepts the requests of open(2)
// with O_TRUNC and of touch, and does not change the file.
func (t *Tree) SetAttr(id live.NodeID, s live.SetAttr, who actors.Caller) (live.Attr, error) {
	if IsDir(id) {
		return live.Attr{}, errs.Perm
	}
	n, err := t.cache.get(id)
	if err != nil {
		return live.Attr{}, err
	}
	if n.core().owner == nil && (s.Mode != nil || s.UID != nil || s.GID != nil) {
		return live.Attr{}, errs.Perm
	}
	if s.Size != nil && n.input() != nil {
		t.commands.dropPartial(n, who)
	}

	root := rootAttr(n.core().dir.ws)
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()

	if f, ok := n.(*scratchFile); ok && s.Mode != nil {
		f.mode = typeFile | *s.Mode&0o777
	}
	if s.Size == nil {
		return attrLocked(n, root), nil
	}
	if err := t.truncateLocked(n, *s.Size); err != nil {
		return live.Attr{}, err
	}

	a := attrLocked(n, root)
	a.Size = *s.Size
	return a, nil
}

// truncateLocked truncates a scratch file, and checks that other files can be written.
func (t *Tree) truncateLocked(n node, size int64) error {
	f, isScratch := n.(*scratchFile)
	switch {
	case n.core().mode&0o200 == 0:
		return errs.Perm
	case isScratch && size > maxScratchSize:
		return errs.TooBig
	case isScratch:
		f.content = newContent(resizedCopy(f.content.copyBytes(), int(size)))
		t.cache.rechargeLocked(f)
	case size == 0:
		n.input().pagesCached = false
	}

	return nil
}

// Readlink returns the target of a symlink.
func (t *Tree) Readlink(id live.NodeID) (string, error) {
	n, err := t.cache.get(id)
	if err != nil {
		return "", err
	}
	link, ok := n.(*renderedFile)
	if !ok {
		return "", errs.Invalid
	}

	return string(link.content.copyBytes()), nil
}

// ReadAt reads up to len(p) bytes at an offset. At the end of the file it reads fewer.
func (t *Tree) ReadAt(id live.NodeID, p []byte, off int64) (int, error) {
	n, err := t.cache.get(id)
	if err != nil {
		return 0, err
	}
	return n.read(p, off)
}

// Write writes to a scratch file, or runs a command, whose error becomes the error of write(2).
func (t *Tree) Write(id live.NodeID, data []byte, off int64, r Request) (int, error) {
	n, err := t.cache.get(id)
	if err != nil && r.Carried != nil {
		n, err = t.commands.recreateNode(id, data, r)
	}
	if err != nil {
		return 0, err
	}
	if f, ok := n.(*scratchFile); ok {
		return f.write(data, off)
	}

	return t.commands.write(n, data, off, r)
}

// Forget subtracts the references that the kernel has dropped from the references to a node.
func (t *Tree) Forget(id live.NodeID, times uint64) {
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()

	n, ok := t.cache.mu.nodes[id]
	if !ok {
		return
	}

	f := n.core()
	f.kernelRefs -= min(times, f.kernelRefs)
	if f.kernelRefs == 0 && (!n.staysCached() || f.dir.nodes[f.key] != n) {
		t.cache.removeLocked(n)
	}
}

// Seek answers SEEK_DATA and SEEK_HOLE for a file without holes.
func (t *Tree) Seek(id live.NodeID, off int64, whence int) (int64, error) {
	a, err := t.GetAttr(id)
	switch {
	case err != nil:
		return 0, err
	case a.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return 0, errs.Invalid
	case off < 0 || off >= a.Size:
		return 0, errs.NoData
	case whence == unix.SEEK_HOLE:
		return a.Size, nil
	}

	return off, nil
}
