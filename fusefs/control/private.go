package control

import (
	"strings"
	"syscall"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A private file is a file that a program creates in .snapshots. A scratch file (create.tmp.1) collects a
// command, which runs when the file is renamed onto a control file. A call file (call.ANYTHING) takes
// requests as `call` does, but only its user may read and write it. Private files are in the tenant's part of
// the cache, so the least recently used one is removed if the part is full.

// maxScratchSize is the size in bytes of the largest scratch file.
const maxScratchSize = 64 << 10

// streamSuffix ends the name of the file with the stream of an answer, for streams that are too long for the
// answer or not text. The stream's file is removed with the call file, or when the call file takes another
// request.
const streamSuffix = ".stream"

// Create creates a scratch file or a call file. Files with other names cannot be created.
func (t *Tree) Create(dir live.NodeID, name string, mode uint32, who actors.Caller) (Entry, error) {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return Entry{}, err
	}

	var n node
	kind := mode & syscall.S_IFMT
	switch _, taken := findFile(name); {
	case taken && !forks:
		return Entry{}, errs.Exist
	case forks || kind != 0 && kind != syscall.S_IFREG:
		return Entry{}, errs.Perm
	case isCall(name) && !strings.HasSuffix(name, streamSuffix):
		n = callFile{&answerFile{inode: inode{mode: typeFile | 0o600, owner: &who}}}
	case isScratch(name):
		n = &scratchFile{inode: inode{mode: typeFile | mode&0o777, owner: &who}}
	default:
		return Entry{}, errs.Perm
	}

	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()

	d, s := t.cache.dirLocked(ws), nodeKey{name, anybody}
	if d.nodes[s] != nil {
		return Entry{}, errs.Exist
	}
	t.cache.addLocked(d, s, n)

	return entryLocked(n, live.Attr{}), nil
}

// Unlink removes a private file. The private files of the previous daemon no longer exist, so a request
// that is sent again succeeds without a file.
func (t *Tree) Unlink(dir live.NodeID, name string, r Request) error {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}

	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()

	d := t.cache.dirLocked(ws)
	n := d.nodes[nodeKey{name, anybody}]
	switch {
	case !forks && n == nil && isPrivateName(name) && r.Resent:
		return nil
	case !forks && n == nil && isPrivateName(name):
		return errs.NotExist
	case forks || n == nil || !isPrivateFile(n):
		return errs.Perm
	}

	s := n.core().key
	t.cache.dropNameLocked(d, s)
	t.cache.dropNameLocked(d, s.streamKey())

	return nil
}

// privateFile returns the private file with a name, nil if there is none.
func (t *Tree) privateFile(ws *snapshot.Workspace, name string) node {
	if n := t.cache.currentNode(ws, nodeKey{name, anybody}); isPrivateFile(n) {
		return n
	}
	return nil
}

// lookupStream returns the stream of an answer.
func (t *Tree) lookupStream(ws *snapshot.Workspace, name string, who actors.Caller) (Entry, error) {
	s := nodeKey{name, anybody}
	if name == callName+streamSuffix {
		s = keyOf(ws, name, who)
	}
	if n := t.cache.currentNode(ws, s); n != nil {
		return t.cache.entry(n), nil
	}

	return Entry{}, errs.NotExist
}

// renamePrivate renames a private file. If a scratch file is renamed onto a control file, its content is
// submitted as a command to that file. The rename of a call file moves its answer.
func (t *Tree) renamePrivate(n node, to string, r Request) error {
	f, ok := n.(*scratchFile)
	if !ok {
		return t.renameCall(n.(callFile), to, r)
	}

	switch {
	case isCommand(to):
		t.cache.mu.Lock()
		line := f.content.copyBytes()
		t.cache.mu.Unlock()
		if err := t.commands.submit(f.dir.ws, to, nil, line, r); err != nil {
			return err
		}

		t.cache.mu.Lock()
		defer t.cache.mu.Unlock()

		t.cache.dropNameLocked(f.dir, f.key)

		return nil

	case !isScratch(to):
		return errs.Perm
	}

	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()

	t.cache.renameLocked(f, nodeKey{to, anybody})

	return nil
}

// renameCall renames a call file with an answer to another call file or to `call`.
func (t *Tree) renameCall(n callFile, to string, r Request) error {
	target := nodeKey{to, anybody}
	switch {
	case to == callName:
		target = keyOf(n.dir.ws, to, r.Caller)
	case !isCall(to) || strings.HasSuffix(to, streamSuffix):
		return errs.Perm
	}

	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()

	d, stream := n.dir, n.dir.nodes[n.key.streamKey()]
	if n.content == nil {
		return errs.New(errs.Invalid, "%s has no complete request", n.key.name)
	}

	t.cache.renameLocked(n, target)
	t.cache.dropNameLocked(d, target.streamKey())

	if to == callName { // from now on, the node is an answer of `call` and no call file
		n.owner = nil
		t.cache.mu.nodes[n.id], n.element.Value, d.nodes[target] = n.answerFile, n.answerFile, n.answerFile
	}
	if stream != nil {
		stream.core().owner = n.owner
		t.cache.renameLocked(stream, target.streamKey())
	}

	return nil
}

// write writes to a scratch file. It fails with errs.TooBig if the file would exceed maxScratchSize.
func (n *scratchFile) write(data []byte, off int64) (int, error) {
	end := off + int64(len(data))
	if off < 0 || end > maxScratchSize {
		return 0, errs.TooBig
	}

	cache := n.dir.cache
	cache.mu.Lock()
	defer cache.mu.Unlock()

	b := resizedCopy(n.content.copyBytes(), int(max(end, n.content.Size())))
	copy(b[off:], data)
	n.content, n.mtime = newContent(b), now()
	cache.rechargeLocked(n)

	return len(data), nil
}

// resizedCopy returns a copy of b with another size. Further bytes are zero.
func resizedCopy(b []byte, size int) []byte {
	out := make([]byte, size)
	copy(out, b)
	return out
}
