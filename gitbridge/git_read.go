package gitbridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// GitSource says what of a repository is read.
type GitSource struct {
	Repo string // root of a working tree, or a git directory
	Rev  string // any revision: a commit, a tag, a tree
	Path string // a directory of it, "" for all
}

// ReadGit feeds the tree of a revision to sink, as git has it: bytes without
// line end conversion or filters, symbolic links, the execute bit. The times of
// all files are the commit's. It returns the commit or tree that was read.
//
// The files of a submodule are not in the repository. Its directory gets a
// ".git" that says only which commit is checked out, so that git add, and an
// export, record the same commit again; Skip is told of it, if it is set.
func ReadGit(ctx context.Context, from GitSource, sink Sink, o ImportOptions) (id string, err error) {
	repo, id, err := openRevision(ctx, from.Repo, from.Rev)
	if err != nil {
		return "", err
	}
	treeish, mtime, err := repo.treeOf(ctx, id)
	if err != nil {
		return "", err
	}
	if treeish == "" {
		kind, err := repo.git(ctx, nil, "cat-file", "-t", id)
		if err != nil {
			return "", err
		}
		return "", fmt.Errorf("%s: %w: %q is a %s, not a tree", from.Repo, ErrNoRevision, from.Rev, kind)
	}
	id = treeish
	if p := strings.Trim(from.Path, "/"); p != "" && p != "." {
		if treeish, err = repo.resolve(ctx, id+":"+p); err != nil {
			return "", fmt.Errorf("%w has no %q", err, p)
		}
		kind, err := repo.git(ctx, nil, "cat-file", "-t", treeish)
		if err != nil {
			return "", err
		}
		if kind != "tree" {
			return "", fmt.Errorf("%s: %w: %q is a %s, not a tree", from.Repo, ErrNoRevision, p, kind)
		}
	}
	g := newGuard(sink, o.Limits, o.gitMeta(unix.S_IFDIR, mtime), o.Progress)
	entries, err := repo.listTree(ctx, treeish)
	if err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", from.Rev, from.Repo, err)
	}
	f := &treeFeeder{repo: repo, mtime: mtime, g: g, o: o, links: true}
	if err := f.feed(ctx, entries); err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", from.Rev, from.Repo, err)
	}
	return id, nil
}

// gitMeta is what a file of a given type and execute bit has.
func (o ImportOptions) gitMeta(mode uint32, mtime int64) Meta {
	m := Meta{Mode: mode, Atime: mtime, Mtime: mtime, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	switch mode {
	case unix.S_IFDIR, unix.S_IFREG | 0o100:
		m.Mode = mode&unix.S_IFMT | 0o777&^o.Umask
	case unix.S_IFREG:
		m.Mode |= 0o666 &^ o.Umask
	}
	return o.own(m)
}

// treeOf returns the commit that an object is, or that a tag names, and the
// committer's time of it in nanoseconds; of a tree the tree and 0. It returns ""
// for anything else.
func (r *repository) treeOf(ctx context.Context, id string) (treeish string, mtime int64, err error) {
	ask := strings.NewReader(id + "^{commit}\n" + id + "^{tree}\n")
	out, err := run(ctx, r.gitDir, nil, ask, "--git-dir="+r.gitDir, "cat-file", "--batch")
	if err != nil {
		return "", 0, err
	}
	head, rest, _ := strings.Cut(string(out), "\n")
	if fields := strings.Fields(head); len(fields) == 3 && fields[1] == "commit" {
		return fields[0], committed(rest), nil
	}
	head, _, _ = strings.Cut(rest, "\n")
	if fields := strings.Fields(head); len(fields) == 3 && fields[1] == "tree" {
		return fields[0], 0, nil
	}
	return "", 0, nil
}

// committed finds the committer's time in a commit; 0 if that has none that
// makes sense.
func committed(commit string) int64 {
	for line := range strings.Lines(commit) {
		if line == "\n" {
			break
		}
		who, ok := strings.CutPrefix(line, "committer ")
		if !ok {
			continue
		}
		fields := strings.Fields(who[strings.LastIndexByte(who, '>')+1:])
		if len(fields) == 0 {
			break
		}
		sec, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			break
		}
		const limit = 1 << 33
		return min(max(sec, 0), limit) * 1e9
	}
	return 0
}

// treeEntry is a line of git ls-tree.
type treeEntry struct {
	mode uint32
	id   string
	path string
}

// listTree lists a whole tree, directories before what is in them.
func (r *repository) listTree(ctx context.Context, treeish string) ([]treeEntry, error) {
	out, err := r.git(ctx, nil, "ls-tree", "-r", "-t", "-z", "--full-tree", treeish)
	if err != nil {
		return nil, err
	}
	var entries []treeEntry
	for _, line := range strings.Split(out, "\x00") {
		if line == "" {
			continue
		}
		head, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 3 {
			return nil, fmt.Errorf("git ls-tree answered %q", line)
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		if err != nil {
			return nil, fmt.Errorf("git ls-tree answered %q", line)
		}
		entries = append(entries, treeEntry{uint32(mode), fields[2], name})
	}
	return entries, nil
}

// treeFeeder hands the files of a tree to the guard.
type treeFeeder struct {
	repo  *repository
	mtime int64
	g     *guard
	o     ImportOptions
	links bool // submodules get a ".git"
}

// feed hands over entries. Their contents come from one git cat-file, in order.
func (f *treeFeeder) feed(ctx context.Context, entries []treeEntry) error {
	p, err := startBulk(ctx, f.repo.gitDir, nil, "--git-dir="+f.repo.gitDir, "cat-file", "--batch", "--buffer")
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		// If git dies, reading from it says so.
		in := bufio.NewWriterSize(p.in, 64<<10)
		for _, e := range entries {
			if e.isBlob() {
				in.WriteString(e.id)
				in.WriteByte('\n')
			}
		}
		in.Flush()
		p.in.Close()
	}()
	err = f.all(bufio.NewReaderSize(p.out, 256<<10), entries)
	if err != nil {
		err = p.fail(err)
		<-sent
		return err
	}
	<-sent
	return p.wait()
}

func (e treeEntry) isBlob() bool {
	return e.mode&unix.S_IFMT == unix.S_IFREG || e.mode&unix.S_IFMT == unix.S_IFLNK
}

func (f *treeFeeder) all(blobs *bufio.Reader, entries []treeEntry) error {
	seen := make(map[string]bool, len(entries))
	for _, e := range entries {
		if err := checkTreePath(e.path); err != nil {
			return err
		}
		if seen[e.path] {
			return fmt.Errorf("%w: the tree has %q twice", ErrHostile, e.path)
		}
		seen[e.path] = true
		name, err := clean(e.path)
		if err != nil {
			return err
		}
		switch e.mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = f.g.dir(name, f.o.gitMeta(unix.S_IFDIR, f.mtime))
		case modeGitlink:
			err = f.submodule(name, e.id)
		case unix.S_IFREG, unix.S_IFLNK:
			err = f.blob(blobs, e, name)
		default:
			err = fmt.Errorf("%w: %q has the mode %o", ErrHostile, e.path, e.mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// submodule makes the directory of a submodule, with as much of a repository as
// names the commit.
func (f *treeFeeder) submodule(name, commit string) error {
	if f.o.Skip != nil {
		f.o.Skip(name, fmt.Errorf("submodule at commit %s: its files are not in the repository", commit))
	}
	dirs := []string{name}
	if f.links {
		dirs = append(dirs, name+"/.git", name+"/.git/objects", name+"/.git/refs")
	}
	for _, d := range dirs {
		if err := f.g.dir(d, f.o.gitMeta(unix.S_IFDIR, f.mtime)); err != nil {
			return err
		}
	}
	if !f.links {
		return nil
	}
	for file, text := range map[string]string{
		"HEAD":        commit + "\n",
		"description": "Only the commit of this submodule is known. For its files, put a clone in place of this directory.\n",
	} {
		m := f.o.gitMeta(unix.S_IFREG, f.mtime)
		if err := f.g.file(name+"/.git/"+file, m, int64(len(text)), strings.NewReader(text)); err != nil {
			return err
		}
	}
	return nil
}

// checkTreePath refuses what only a forged tree has: git makes no such names.
func checkTreePath(p string) error {
	for _, c := range strings.Split(p, "/") {
		if c == "" || c == "." || c == ".." || strings.EqualFold(c, ".git") {
			return fmt.Errorf("%w: the tree has the path %q", ErrHostile, p)
		}
	}
	return nil
}

// blob reads the next object of git cat-file.
func (f *treeFeeder) blob(blobs *bufio.Reader, e treeEntry, name string) error {
	head, err := blobs.ReadString('\n')
	if err != nil {
		return err
	}
	fields := strings.Fields(head)
	if len(fields) != 3 || fields[1] != "blob" {
		return fmt.Errorf("%q: git has no blob %s: %s", name, e.id, strings.TrimSpace(head))
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return fmt.Errorf("git cat-file answered %q", head)
	}
	body := &wholeReader{r: blobs, left: size}
	if e.mode&unix.S_IFMT == unix.S_IFLNK {
		if size > maxPath {
			return fmt.Errorf("%w: the symbolic link %q is %d bytes long", ErrHostile, name, size)
		}
		target, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		if err := f.g.symlink(name, string(target), f.o.gitMeta(unix.S_IFLNK, f.mtime)); err != nil {
			return err
		}
	} else {
		mode := uint32(unix.S_IFREG) | e.mode&0o100
		if err := f.g.file(name, f.o.gitMeta(mode, f.mtime), size, body); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
	}
	if c, err := blobs.ReadByte(); err != nil {
		return err
	} else if c != '\n' {
		return errors.New("git cat-file lost its place")
	}
	return nil
}
