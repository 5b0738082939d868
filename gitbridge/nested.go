package gitbridge

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// nestedReader reads repositories in a snapshot. It follows no links out of the snapshot.
type nestedReader struct {
	src   *tree.Source
	state *tree.State
}

// errOutside means that a path points outside the snapshot.
var errOutside = errors.New("points outside the snapshot")

// lookup resolves a path and follows symbolic links, also in the last component. The inode is nil if the
// path does not exist. Errors: errOutside.
func (n *nestedReader) lookup(name string) (*tree.Inode, error) {
	at, links := ".", 0 // at is the path so far, without symbolic links

	for todo := strings.Split(name, "/"); len(todo) > 0; {
		next := path.Join(at, todo[0])
		if todo = todo[1:]; next == ".." {
			return nil, errOutside
		}

		node, err := n.state.InodeAt(n.src, next)
		if err != nil || node == nil {
			return nil, errs.Ignore(err, tree.ErrBadPath) // no file has such a name
		}
		if !node.IsSymlink() {
			at = next
			continue
		}

		if links++; links > 40 {
			return nil, nil
		}
		if strings.HasPrefix(node.Target, "/") {
			return nil, errOutside
		}
		todo = append(strings.Split(node.Target, "/"), todo...)
	}

	return n.state.InodeAt(n.src, at)
}

// read returns the first limit bytes of a regular file, "" if the file does not exist.
func (n *nestedReader) read(name string, limit int64) (string, error) {
	node, err := n.lookup(name)
	if err != nil || node == nil || !node.IsRegular() {
		return "", err
	}

	text, err := io.ReadAll(io.LimitReader(node.Content.Reader(n.src.Files), limit))
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", name, err)
	}

	return string(text), nil
}

// checkedOut returns the commit of HEAD of the repository whose working tree is dir, "" if the branch has no commit
// yet. is is false if dir is not a working tree by the rules of git's is_nonbare_repository_dir.
func (n *nestedReader) checkedOut(dir item) (commit string, is bool, err error) {
	if _, err := n.state.Lookup(n.src, dir.node, ".git"); err != nil {
		return "", false, errs.Ignore(err, tree.ErrNotExist)
	}
	at := path.Join(dir.path, ".git")
	node, err := n.lookup(at)
	if err != nil || node == nil {
		return "", false, err
	}

	if node.IsRegular() {
		const maxLinkBytes = 1 << 20
		text, err := n.read(at, maxLinkBytes+1)
		target, ok := strings.CutPrefix(text, "gitdir: ")
		target = strings.TrimRight(target, "\r\n")
		if err != nil || !ok || target == "" || len(text) > maxLinkBytes {
			return "", false, err
		}
		if strings.HasPrefix(target, "/") {
			return "", false, errOutside
		}
		at = dir.path + "/" + target
	}

	head, err := n.read(at+"/HEAD", 256)
	target, ok := symref(head)
	if err != nil || !ok && objectID(head) == "" || ok && !strings.HasPrefix(target, "refs/") {
		return "", false, err
	}

	common, text := at, "" // common is the directory with the refs and objects: another one for a linked worktree
	if text, err = n.read(at+"/commondir", 4096); err != nil {
		return "", false, err
	}
	if text = strings.TrimRight(text, "\r\n"); strings.HasPrefix(text, "/") {
		return "", false, errOutside
	} else if text != "" {
		common += "/" + text
	}

	for _, sub := range []string{at, common + "/objects", common + "/refs"} {
		if node, err := n.lookup(sub); err != nil || node == nil || !node.IsDir() {
			return "", false, err
		}
	}

	commit, err = n.resolve(common, head)
	return commit, true, err
}

// resolve follows the text of a ref to an object id, "" if a branch has no commit yet.
func (n *nestedReader) resolve(common, text string) (id string, err error) {
	const maxSymrefs = 5
	for range maxSymrefs {
		ref, ok := symref(text)
		if !ok || err != nil {
			return objectID(text), err
		}
		text, err = n.ref(common, ref)
	}
	return "", nil
}

// ref returns the text of a loose ref, or the id of a packed ref, "" if neither exists.
func (n *nestedReader) ref(common, ref string) (string, error) {
	text, err := n.read(common+"/"+ref, 4096)
	if err != nil || text != "" {
		return text, err
	}

	packed, err := n.read(common+"/packed-refs", 64<<20)
	for line := range strings.SplitSeq(packed, "\n") {
		if id, name, ok := strings.Cut(line, " "); ok && name == ref {
			return id, nil
		}
	}

	return "", err
}

// symref returns the target of a symbolic ref with this text, and whether it is one.
func symref(text string) (string, bool) {
	target, ok := strings.CutPrefix(text, "ref:")
	return strings.Trim(target, " \t\r\n"), ok
}

// objectID returns the object id at the beginning of text in lower case, "" if there is no whole id.
func objectID(text string) string {
	rest := strings.TrimLeft(text, "0123456789abcdefABCDEF")
	id := text[:len(text)-len(rest)]
	if len(id) != 40 && len(id) != 64 || rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
		return ""
	}
	return strings.ToLower(id)
}
