package gitbridge

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// nested answers questions about repositories inside of a snapshot. It reads
// them in the snapshot, never on the host.
type nested struct {
	src   *tree.Source
	state *tree.State
}

// errOutside means that a path points outside the snapshot.
var errOutside = errors.New("points outside the snapshot")

// lookup resolves a path and follows symbolic links, also the last one. Nil
// means that there is nothing.
func (n *nested) lookup(name string) (*tree.Inode, error) {
	todo := strings.Split(name, "/")
	var done []string
	links := 0
	node, err := n.state.Resolve(n.src, "")
	if err != nil {
		return nil, err
	}
	at := []*tree.Inode{node}
	for len(todo) > 0 {
		c := todo[0]
		todo = todo[1:]
		switch {
		case c == "" || c == ".":
			continue
		case c == "..":
			if len(done) == 0 {
				return nil, errOutside
			}
			done, at = done[:len(done)-1], at[:len(at)-1]
			continue
		}
		if !at[len(at)-1].IsDir() {
			return nil, nil
		}
		child, err := n.state.Lookup(n.src, at[len(at)-1], c)
		if errors.Is(err, tree.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if child.IsSymlink() {
			if links++; links > 40 {
				return nil, nil
			}
			if strings.HasPrefix(child.Target, "/") {
				return nil, errOutside
			}
			todo = append(strings.Split(child.Target, "/"), todo...)
			continue
		}
		done, at = append(done, c), append(at, child)
	}
	return at[len(at)-1], nil
}

// read returns the first bytes of a file, "" if there is none.
func (n *nested) read(name string, limit int64) (string, error) {
	node, err := n.lookup(name)
	if err != nil || node == nil || !node.IsRegular() {
		return "", err
	}
	buf := make([]byte, min(node.Content.Size(), limit))
	if len(buf) == 0 {
		return "", nil
	}
	got, err := node.Content.ReadAt(n.src.Files, buf, 0)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", name, err)
	}
	return string(buf[:got]), nil
}

func (n *nested) isDir(name string) (bool, error) {
	node, err := n.lookup(name)
	return node != nil && node.IsDir(), err
}

// gitDir returns the git directory of the working tree at dir, "" if dir is
// none. The rules are is_nonbare_repository_dir's.
func (n *nested) gitDir(dir string) (string, error) {
	at := path.Join(dir, ".git")
	node, err := n.lookup(at)
	if err != nil || node == nil {
		return "", err
	}
	if node.IsRegular() {
		const longest = 1 << 20
		text, err := n.read(at, longest+1)
		if err != nil {
			return "", err
		}
		target, ok := strings.CutPrefix(text, "gitdir: ")
		target = strings.TrimRight(target, "\r\n")
		if !ok || target == "" || len(text) > longest {
			return "", nil
		}
		if strings.HasPrefix(target, "/") {
			return "", errOutside
		}
		at = dir + "/" + target
	}
	ok, err := n.isGitDir(at)
	if err != nil || !ok {
		return "", err
	}
	return at, nil
}

func (n *nested) isGitDir(dir string) (bool, error) {
	if ok, err := n.isDir(dir); err != nil || !ok {
		return false, err
	}
	head, err := n.head(dir)
	if err != nil || head == "" {
		return false, err
	}
	common, err := n.commonDir(dir)
	if err != nil {
		return false, err
	}
	for _, sub := range []string{"/objects", "/refs"} {
		if ok, err := n.isDir(common + sub); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// head returns what HEAD has, if that is a ref or an object id, else "".
func (n *nested) head(dir string) (string, error) {
	text, err := n.read(dir+"/HEAD", 256)
	if target, ok := symref(text); !ok && objectID(text) == "" || ok && !strings.HasPrefix(target, "refs/") {
		text = ""
	}
	return text, err
}

// commonDir is where the refs and objects of a linked worktree are.
func (n *nested) commonDir(dir string) (string, error) {
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

// commit returns the object that HEAD of a git directory stands for, "" if
// there is none yet.
func (n *nested) commit(dir string) (string, error) {
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

// ref reads a loose or packed ref.
func (n *nested) ref(common, ref string) (string, error) {
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

// symref returns the target of a symbolic ref's text.
func symref(text string) (string, bool) {
	target, ok := strings.CutPrefix(text, "ref:")
	return strings.Trim(target, " \t\r\n"), ok
}

// objectID returns the id that text begins with, "" if it does not.
func objectID(text string) string {
	n := 0
	for n < len(text) && strings.IndexByte("0123456789abcdefABCDEF", text[n]) >= 0 {
		n++
	}
	if n != 40 && n != 64 || n < len(text) && strings.IndexByte(" \t\r\n", text[n]) < 0 {
		return ""
	}
	return strings.ToLower(text[:n])
}
