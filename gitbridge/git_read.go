package gitbridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// GitSource says what of a repository is read.
type GitSource struct {
	Repo string // root of a working tree, or a git directory
	Rev  string // any revision: a commit, a tag, a tree
	// TrustConfig takes a Repo that leads to another one, such as a worktree.
	TrustConfig bool
}

// ReadGit feeds the tree of a revision to sink, as git has it: bytes without
// line end conversion or filters, symbolic links, the execute bit. The times of
// all files are the commit's. It returns the commit or tree that was read.
//
// The files of a submodule are not in the repository. Its directory gets a
// ".git" that says only which commit is checked out, so that git add, and an
// export, record the same commit again; Skip is told of it, if it is set.
func ReadGit(ctx context.Context, from GitSource, sink Sink, o ImportOptions) (id string, err error) {
	trust := noPrograms
	if from.TrustConfig {
		trust = all
	}
	repo, err := openRepository(ctx, from.Repo, trust)
	if err != nil {
		return "", err
	}
	if id, err = repo.resolve(ctx, from.Rev); err != nil {
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
	f := &treeFeeder{repo: repo, mtime: mtime, checker: newChecker(sink, o)}
	if err := f.feed(ctx, treeish); err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", from.Rev, from.Repo, err)
	}
	return treeish, nil
}

// gitMeta is what a file of a given type and execute bit has.
func (o ImportOptions) gitMeta(mode uint32, mtime int64) Meta {
	m := Meta{Mode: mode & unix.S_IFMT, Atime: mtime, Mtime: mtime, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	switch {
	case m.Mode == unix.S_IFLNK:
		m.Mode |= 0o777
	case m.Mode == unix.S_IFDIR, mode&0o100 != 0:
		m.Mode |= 0o777 &^ o.Umask
	default:
		m.Mode |= 0o666 &^ o.Umask
	}
	return o.own(m)
}

// treeOf returns the commit that an object is, or that a tag names, and the
// committer's time of it in nanoseconds; of a tree the tree and 0. It returns ""
// for anything else.
func (r *repository) treeOf(ctx context.Context, id string) (treeish string, mtime int64, err error) {
	ask := strings.NewReader(id + "^{commit}\n" + id + "^{tree}\n")
	out, err := r.ask(ctx, nil, ask, "cat-file", "--batch")
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

func parseEntry(line string) (treeEntry, error) {
	head, name, ok := strings.Cut(line, "\t")
	fields := strings.Fields(head)
	if !ok || len(fields) != 3 {
		return treeEntry{}, fmt.Errorf("git ls-tree answered %q", line)
	}
	mode, err := strconv.ParseUint(fields[0], 8, 32)
	if err != nil {
		return treeEntry{}, fmt.Errorf("git ls-tree answered %q", line)
	}
	return treeEntry{uint32(mode), fields[2], name}, nil
}

func (e treeEntry) isBlob() bool {
	return e.mode&unix.S_IFMT == unix.S_IFREG || e.mode&unix.S_IFMT == unix.S_IFLNK
}

// treeFeeder hands the files of a tree to the sink.
type treeFeeder struct {
	*checker
	repo  *repository
	mtime int64
}

// feed hands over a tree as git ls-tree lists it. The contents come from one git
// cat-file, in that order.
func (f *treeFeeder) feed(ctx context.Context, treeish string) error {
	g, ctx := errgroup.WithContext(ctx)
	list, err := f.repo.start(ctx, nil, "ls-tree", "-r", "-t", "-z", "--full-tree", treeish)
	if err != nil {
		return err
	}
	blobs, err := f.repo.start(ctx, nil, "cat-file", "--batch")
	if err != nil {
		return list.fail(err)
	}
	entries := make(chan treeEntry, 256)
	g.Go(func() error {
		defer close(entries)
		return f.list(ctx, list, blobs, entries)
	})
	g.Go(func() error {
		if err := f.all(bufio.NewReaderSize(blobs.out, 256<<10), entries); err != nil {
			return blobs.fail(err)
		}
		return blobs.wait()
	})
	return g.Wait()
}

// list passes on what git ls-tree says, and asks for the contents.
func (f *treeFeeder) list(ctx context.Context, list, blobs *process, entries chan<- treeEntry) error {
	in := bufio.NewReaderSize(list.out, 64<<10)
	for {
		line, err := in.ReadString(0)
		if err == io.EOF && line == "" {
			return list.wait()
		}
		if err != nil {
			return list.fail(err)
		}
		e, err := parseEntry(strings.TrimSuffix(line, "\x00"))
		if err != nil {
			return list.fail(err)
		}
		if e.isBlob() {
			// If git dies, reading from it says so.
			_, _ = io.WriteString(blobs.in, e.id+"\n")
		}
		select {
		case entries <- e:
		case <-ctx.Done():
			return list.fail(ctx.Err())
		}
	}
}

func (f *treeFeeder) all(blobs *bufio.Reader, entries <-chan treeEntry) error {
	order := treeOrder{{}}
	for e := range entries {
		if err := checkTreePath(e.path); err != nil {
			return err
		}
		if err := order.next(e); err != nil {
			return err
		}
		if err := f.entry(blobs, e); err != nil {
			return err
		}
	}
	return nil
}

func (f *treeFeeder) entry(blobs *bufio.Reader, e treeEntry) error {
	name, err := clean(e.path)
	if err != nil {
		return err
	}
	switch e.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return f.add(Entry{Path: name, Meta: f.gitMeta(unix.S_IFDIR, f.mtime)})
	case modeGitlink:
		return f.submodule(name, e.id)
	case unix.S_IFREG, unix.S_IFLNK:
		return f.blob(blobs, e, name)
	}
	return fmt.Errorf("%w: %q has the mode %o", ErrHostile, e.path, e.mode)
}

// treeOrder checks that a tree comes in git's order: each name once, and below
// directories only. It holds the directories that lead to the present entry, and
// the name that came last in each.
type treeOrder []struct{ dir, last string }

func (o *treeOrder) next(e treeEntry) error {
	dir, key := parentOf(e.path), path.Base(e.path)
	for len(*o) > 0 && (*o)[len(*o)-1].dir != dir {
		*o = (*o)[:len(*o)-1]
	}
	isTree := e.mode&unix.S_IFMT == unix.S_IFDIR
	if isTree {
		key += "/"
	}
	if len(*o) == 0 || key <= (*o)[len(*o)-1].last {
		return fmt.Errorf("%w: the tree has %q twice, or not in order", ErrHostile, e.path)
	}
	(*o)[len(*o)-1].last = key
	if isTree {
		*o = append(*o, struct{ dir, last string }{dir: e.path})
	}
	return nil
}

// submodule makes the directory of a submodule, with as much of a repository as
// names the commit.
func (f *treeFeeder) submodule(name, commit string) error {
	if f.Skip != nil {
		f.Skip(name, fmt.Errorf("submodule at commit %s: its files are not in the repository", commit))
	}
	for _, d := range []string{name, name + "/.git", name + "/.git/objects", name + "/.git/refs"} {
		if err := f.add(Entry{Path: d, Meta: f.gitMeta(unix.S_IFDIR, f.mtime)}); err != nil {
			return err
		}
	}
	for file, text := range map[string]string{
		"HEAD":        commit + "\n",
		"description": "Only the commit of this submodule is known. For its files, put a clone in place of this directory.\n",
	} {
		e := Entry{Path: name + "/.git/" + file, Meta: f.gitMeta(unix.S_IFREG, f.mtime), Size: int64(len(text)), Data: strings.NewReader(text)}
		if err := f.add(e); err != nil {
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
	size, err := blobHeader(blobs)
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	body := &wholeReader{r: blobs, left: size}
	file := Entry{Path: name, Meta: f.gitMeta(e.mode, f.mtime)}
	if e.mode&unix.S_IFMT == unix.S_IFREG {
		file.Size, file.Data = size, body
	} else {
		target, err := io.ReadAll(io.LimitReader(body, maxPath+1)) // a longer one is refused
		if err != nil {
			return err
		}
		file.Target = string(target)
	}
	if err := f.add(file); err != nil {
		return err
	}
	return blobEnd(blobs, body)
}

// blobHeader reads what git cat-file writes before a blob, and returns its size.
func blobHeader(r *bufio.Reader) (size int64, err error) {
	head, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(head)
	if len(fields) != 3 || fields[1] != "blob" {
		return 0, fmt.Errorf("git has no such blob: %s", strings.TrimSpace(head))
	}
	if size, err = strconv.ParseInt(fields[2], 10, 64); err != nil {
		return 0, fmt.Errorf("git cat-file answered %q", head)
	}
	return size, nil
}

// blobEnd passes over what is left of a blob and the line end after it.
func blobEnd(r *bufio.Reader, body io.Reader) error {
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if c, err := r.ReadByte(); err != nil {
		return err
	} else if c != '\n' {
		return errors.New("git cat-file lost its place")
	}
	return nil
}
