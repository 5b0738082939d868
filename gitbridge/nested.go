package gitbridge

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

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
	root, err := n.state.Resolve(n.src, "")
	if err != nil {
		return nil, err
	}

	dirs, links := []*tree.Inode{root}, 0 // dirs has the directories from the root to the current one

	for todo := strings.Split(name, "/"); len(todo) > 0; {
		c, dir := todo[0], dirs[len(dirs)-1]
		todo = todo[1:]

		switch {
		case c == "" || c == ".":
			continue
		case c == ".." && len(dirs) == 1:
			return nil, errOutside
		case c == "..":
			dirs = dirs[:len(dirs)-1]
			continue
		case !dir.IsDir():
			return nil, nil
		}

		child, err := n.state.Lookup(n.src, dir, c)
		if errors.Is(err, tree.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}

		if !child.IsSymlink() {
			dirs = append(dirs, child)
			continue
		}

		if links++; links > 40 {
			return nil, nil
		}
		if strings.HasPrefix(child.Target, "/") {
			return nil, errOutside
		}
		todo = append(strings.Split(child.Target, "/"), todo...)
	}

	return dirs[len(dirs)-1], nil
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

// gitDir returns the git directory of the working tree at dir, "" if dir is not a working tree. It
// follows the rules of git's is_nonbare_repository_dir.
func (n *nestedReader) gitDir(dir string) (string, error) {
	at := path.Join(dir, ".git")
	node, err := n.lookup(at)
	if err != nil || node == nil {
		return "", err
	}

	if node.IsRegular() {
		const maxLinkBytes = 1 << 20
		text, err := n.read(at, maxLinkBytes+1)
		if err != nil {
			return "", err
		}

		target, ok := strings.CutPrefix(text, "gitdir: ")
		target = strings.TrimRight(target, "\r\n")
		if !ok || target == "" || len(text) > maxLinkBytes {
			return "", nil
		}
		if strings.HasPrefix(target, "/") {
			return "", errOutside
		}
		at = dir + "/" + target
	}

	if head, err := n.head(at); err != nil || head == "" {
		return "", err
	}

	common, err := n.commonDir(at)
	if err != nil {
		return "", err
	}

	for _, sub := range []string{at, common + "/objects", common + "/refs"} {
		if node, err := n.lookup(sub); err != nil || node == nil || !node.IsDir() {
			return "", err
		}
	}

	return at, nil
}

// head returns the text of HEAD, "" if it is neither a ref nor an object id.
func (n *nestedReader) head(dir string) (string, error) {
	text, err := n.read(dir+"/HEAD", 256)
	if target, ok := symref(text); !ok && objectID(text) == "" || ok && !strings.HasPrefix(target, "refs/") {
		text = ""
	}
	return text, err
}

// commonDir returns the directory with the refs and objects of the git directory dir. For a linked
// worktree this is another directory, otherwise dir.
func (n *nestedReader) commonDir(dir string) (string, error) {
	text, err := n.read(dir+"/commondir", 4096)
	if err != nil {
		return "", err
	}

	text = strings.TrimRight(text, "\r\n")
	switch {
	case text == "":
		return dir, nil
	case strings.HasPrefix(text, "/"):
		return "", errOutside
	}

	return dir + "/" + text, nil
}

// commit returns the commit of HEAD in a git directory, "" if the branch has no commit yet.
func (n *nestedReader) commit(dir string) (string, error) {
	common, err := n.commonDir(dir)
	if err != nil {
		return "", err
	}

	text, err := n.head(dir)
	const maxSymrefs = 5
	for range maxSymrefs {
		if err != nil {
			return "", err
		}
		if id := objectID(text); id != "" {
			return id, nil
		}

		ref, ok := symref(text)
		if !ok {
			return "", nil
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
