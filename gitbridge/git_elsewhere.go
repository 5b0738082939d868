package gitbridge

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A gitLink is a `.git` of a directory that leads to a git directory outside of it: that of a
// linked worktree, of a submodule, or of a repository that was set up so. A copy of the
// directory gets a git directory of its own, made of what git sees there, with the objects by
// alternates. What changes in it is applied to the git directories that it was made of.
type gitLink struct {
	dir    string // of this working tree
	common string // of all working trees of the repository; dir if it has no others
}

// commonNames are what the working trees of a repository share.
var commonNames = []string{"branches", "common", "config", "hooks", "info", "logs", "lost-found", "objects", "packed-refs", "refs", "remotes", "rr-cache", "shallow", "svn"}

// notCopied are parts of a git directory that belong to other working trees, or that the copy
// gets in another form.
var notCopied = []string{"objects", "worktrees", "modules", "commondir", "gitdir", "locked"}

// ownLog is the log of HEAD: each working tree has its own, although they share the other logs.
const ownLog = "logs/HEAD"

// source is the directory that has an entry of the git directory.
func (l *gitLink) source(name string) string {
	if slices.Contains(commonNames, name) {
		return l.common
	}
	return l.dir
}

// alternates is the file that leads to the objects.
func (l *gitLink) alternates() string { return filepath.Join(l.common, "objects") + "\n" }

const alternatesPath = "objects/info/alternates"

// gitLinkIn finds what the entry `.git` of an open directory leads to; nil if that is in root,
// or no git directory.
func gitLinkIn(dir int, root string) *gitLink {
	at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(dir))
	if err != nil {
		return nil
	}
	l := linkOf(at)
	if l == nil || l.dir == root || strings.HasPrefix(l.dir, root+"/") {
		return nil
	}
	return l
}

// linkOf finds what the entry `.git` of a directory leads to, nil if that is no git directory.
func linkOf(at string) *gitLink {
	to, err := "", error(nil)
	if to, err = os.Readlink(filepath.Join(at, ".git")); err != nil {
		text, err := readSmall(filepath.Join(at, ".git"))
		is := false
		if to, is = strings.CutPrefix(text, "gitdir: "); err != nil || !is {
			return nil
		}
	}
	l := &gitLink{dir: resolved(at, strings.TrimRight(to, "\r\n"))}
	if l.common = l.dir; l.dir == "" {
		return nil
	}
	if text, err := readSmall(filepath.Join(l.dir, "commondir")); err == nil {
		l.common = resolved(l.dir, strings.TrimRight(text, "\r\n"))
	}
	for _, must := range []string{filepath.Join(l.dir, "HEAD"), filepath.Join(l.common, "objects"), filepath.Join(l.common, "refs")} {
		if _, err := os.Stat(must); err != nil {
			return nil
		}
	}
	return l
}

// resolved is a path relative to a directory, without symbolic links; "" if it leads nowhere.
func resolved(dir, to string) string {
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	to, err := filepath.EvalSymlinks(to)
	if err != nil {
		return ""
	}
	return to
}

// readSmall reads the beginning of a file.
func readSmall(name string) (string, error) {
	text, err := readRegular(name)
	return string(text[:min(len(text), 64<<10)]), err
}

// withoutWorktree is the configuration of a repository for a git directory of its own.
func withoutWorktree(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		word, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		word, value = strings.ToLower(strings.TrimSpace(word)), strings.ToLower(strings.TrimSpace(value))
		if word != "worktree" && !(word == "bare" && value == "true") {
			out = append(out, line...)
		}
	}
	return out
}

// gitDir reads the git directory that a link leads to as one of the directory's own.
func (d *dirReader) gitDir(at string, l *gitLink, was *tree.Inode) error {
	add := func(name string, mode uint32, data []byte) error {
		var st unix.Stat_t
		if err := unix.Stat(l.dir, &st); err != nil {
			return err
		}
		e := Entry{Path: path.Join(at, name), Size: int64(len(data)), Data: bytes.NewReader(data)}
		e.Meta = d.own(Meta{Mode: mode, UID: st.Uid, GID: st.Gid, Atime: timeOf(st.Ctim), Mtime: 1})
		if mode&unix.S_IFMT == unix.S_IFDIR {
			e.Size, e.Data = 0, nil
		}
		return d.add(e)
	}
	for _, dir := range []string{".", "objects", "objects/info", "objects/pack"} {
		if err := add(dir, unix.S_IFDIR|0o755, nil); err != nil {
			return err
		}
	}
	if err := add(alternatesPath, unix.S_IFREG|0o644, []byte(l.alternates())); err != nil {
		return err
	}
	d.omit[path.Join(at, ownLog)] = l.dir != l.common
	names := []string{"objects"}
	for _, from := range []string{l.common, l.dir} {
		parent, err := os.Open(from)
		if err != nil {
			return d.skip(at, reason(err))
		}
		entries, err := parent.ReadDir(-1)
		for _, e := range entries {
			name := e.Name()
			if err != nil || l.source(name) != from || slices.Contains(notCopied, name) || slices.Contains(names, name) {
				continue
			}
			names = append(names, name)
			if name == "config" {
				text, rerr := readRegular(filepath.Join(from, name))
				if err = reason(rerr); err == nil {
					err = add(name, unix.S_IFREG|0o644, withoutWorktree(text))
				}
				continue
			}
			then, terr := d.beforeIn(was, name)
			if err = terr; err == nil {
				err = d.entry(path.Join(at, name), parent, name, then)
			}
		}
		parent.Close()
		if err != nil {
			return err
		}
	}
	if err := d.ownLog(at, l, was, slices.Contains(names, "logs")); err != nil {
		return err
	}
	slices.Sort(names)
	return d.gone(at, was, names)
}

// ownLog reads the log of HEAD, which each working tree has for itself.
func (d *dirReader) ownLog(at string, l *gitLink, was *tree.Inode, logs bool) error {
	if !logs || l.dir == l.common {
		return nil
	}
	parent, err := os.Open(filepath.Join(l.dir, path.Dir(ownLog)))
	if err != nil {
		return nil // it has none
	}
	defer parent.Close()
	if was, err = d.beforeIn(was, path.Dir(ownLog)); err == nil {
		was, err = d.beforeIn(was, path.Base(ownLog))
	}
	if err != nil {
		return err
	}
	at = path.Join(at, ownLog)
	d.omit[at] = false
	return d.entry(at, parent, path.Base(ownLog), was)
}

// linkAt returns the link of the `.git` at a path of the host, which is nil for another path.
// It counts if the base was made of it.
func (h *host) linkAt(p *tree.Path) *gitLink {
	if p == nil || p.Name != ".git" || h.linkOf == nil {
		return nil
	}
	l, known := h.links[p.String()]
	if known {
		return l
	}
	h.links[p.String()] = nil // what is above it has no link of its own
	if above, err := h.walk(p.Dir); err == nil {
		if l = gitLinkIn(above, h.path); l != nil && h.linkOf(p) != l.alternates() {
			l = nil
		}
		_ = unix.Close(above)
	}
	h.links[p.String()] = l
	return l
}

// passedOver reports whether a path is the `.git` of a link, or what is never applied in it.
func (h *host) passedOver(p *tree.Path) bool {
	if h.linkAt(p) != nil {
		return true
	}
	if dir := h.ownLogOf(p); dir != "" {
		_, err := os.Stat(dir)
		return err != nil // it has no logs
	}
	for at := p.Dir; at != nil; at = at.Dir {
		if h.linkAt(at) == nil {
			continue
		}
		return strings.TrimPrefix(p.String(), at.String()+"/") == alternatesPath
	}
	return false
}

// ownLogOf is the directory of the log of HEAD, if that is what a path is and it is not with the
// other logs; else "".
func (h *host) ownLogOf(p *tree.Path) string {
	if p.Name != path.Base(ownLog) || p.Dir == nil || p.Dir.Name != path.Dir(ownLog) {
		return ""
	}
	if l := h.linkAt(p.Dir.Dir); l != nil && l.dir != l.common {
		return filepath.Join(l.dir, path.Dir(ownLog))
	}
	return ""
}

// openLinked opens a git directory that is elsewhere.
func openLinked(dir string) (int, error) {
	return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// dirOf opens the directory that has a path.
func (h *host) dirOf(p *tree.Path) (int, error) {
	if p == nil {
		return h.root, nil
	}
	dir := h.ownLogOf(p)
	if l := h.linkAt(p.Dir); l != nil {
		dir = l.source(p.Name)
	}
	if dir == "" {
		return h.open(p.Dir)
	}
	if fd, ok := h.gitDirs[dir]; ok {
		return fd, nil
	}
	fd, err := openLinked(dir)
	if err == nil {
		h.gitDirs[dir] = fd
	}
	return fd, err
}
