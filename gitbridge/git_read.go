package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/archive"
	"github.com/amberfs/amberfs/internal/scratch"
	"github.com/amberfs/amberfs/stream"
)

// GitSource selects a revision of a repository.
type GitSource struct {
	Repo string // root of a working tree, or a git directory
	Rev  string // any revision: a commit, a tag, a tree
	// TrustConfig accepts a Repo that refers to another repository, such as a worktree.
	TrustConfig bool
}

// ReadGit feeds the tree of a revision to sink, as git stores it: bytes without
// line end conversion or filters, symbolic links, and the execute bit. All files get
// the time of the commit. ReadGit returns the id of the commit or tree.
//
// The files of a submodule are not in the repository. The directory of a submodule gets a
// minimal ".git" that only names the commit, so that git add, and an export, record the same
// commit again. ReadGit reports each submodule to o.Skip.
func ReadGit(ctx context.Context, from GitSource, sink stream.Sink, o stream.Options) (id string, err error) {
	trust := trustData
	if from.TrustConfig {
		trust = trustAll
	}

	repo, err := openRepository(ctx, from.Repo, trust)
	if err != nil {
		return "", err
	}
	if id, err = repo.resolve(ctx, from.Rev); err != nil {
		return "", err
	}

	treeish, err := repo.resolve(ctx, id+"^{commit}")
	isCommit := err == nil
	if errors.Is(err, ErrNoRevision) {
		treeish, err = repo.resolve(ctx, id+"^{tree}")
	}
	if errors.Is(err, ErrNoRevision) {
		return "", fmt.Errorf("%s: %w: %q is a file, not a tree", from.Repo, ErrNoRevision, from.Rev)
	}
	if err != nil {
		return "", err
	}
	if err := repo.read(ctx, treeish, isCommit, sink, o); err != nil {
		return "", fmt.Errorf("reading %s of %s: %w", from.Rev, from.Repo, err)
	}

	return treeish, nil
}

// gitMeta returns the attributes of a file with the type and the execute bit of a git mode.
func gitMeta(o stream.Options, mode uint32, mtime int64) stream.Meta {
	m := stream.Meta{Mode: mode & unix.S_IFMT, Atime: mtime, Mtime: mtime, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	switch {
	case m.Mode == unix.S_IFLNK:
		m.Mode |= 0o777
	case m.Mode == unix.S_IFDIR, mode&0o100 != 0:
		m.Mode |= 0o777 &^ o.Umask
	default:
		m.Mode |= 0o666 &^ o.Umask
	}

	return o.WithOwner(m)
}

// read feeds the files of a tree to sink. `git archive` writes the files. git archive runs in a
// temporary git directory with the repository's objects: with the repository's settings and rules, it
// would convert files or leave some out.
func (r *repository) read(ctx context.Context, treeish string, isCommit bool, sink stream.Sink, o stream.Options) error {
	commits, err := r.submodules(ctx, treeish, stream.NewChecker(sink, o))
	if err != nil {
		return err
	}

	temp, err := scratch.New(scratch.Import)
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	defer temp.Remove()

	dir := temp.Path
	if err := initBare(ctx, dir, r.format); err != nil {
		return err
	}

	// With --worktree-attributes, git reads attributes from a working tree, which dir does not have, and not from the
	// tree, which could have any number of .gitattributes files.
	p, err := startGit(ctx, dir, append(trustNone.env(), "GIT_OBJECT_DIRECTORY="+r.objects, "GIT_ATTR_NOSYSTEM=1"),
		"-c", "core.attributesFile=/dev/null", "archive", "--format=tar", "--worktree-attributes", treeish)
	if err != nil {
		return err
	}

	err = archive.ReadTar(ctx, p.out, func(e stream.Entry) error {
		if strings.EqualFold(path.Base(e.Path), ".git") { // refuse the tree: git never writes such a path
			return fmt.Errorf("%w: the tree has the path %q", stream.ErrHostile, e.Path)
		}
		if !isCommit {
			e.Mtime = 0 // for a tree, git archive writes the current time
		}

		e.Meta = gitMeta(o, e.Mode, e.Mtime)
		if commit, ok := commits[e.Path]; ok {
			return addSubmodule(o, e, commit, sink)
		}

		return sink(e)
	}, o)
	if err != nil {
		return p.abort(err)
	}

	return p.wait()
}

// submodules returns the commits of the submodules in a tree, by path. c counts all paths of the tree,
// and limits their number: a small tree can have more paths than fit into memory.
func (r *repository) submodules(ctx context.Context, treeish string, c *stream.Checker) (map[string]string, error) {
	p, err := r.startGit(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", treeish)
	if err != nil {
		return nil, err
	}

	commits := make(map[string]string)

	for {
		line, err := p.out.ReadString(0)
		if err == io.EOF && line == "" {
			return commits, p.wait()
		}
		if err = errors.Join(err, c.CountEntry()); err != nil {
			return nil, p.abort(err)
		}

		head, name, _ := strings.Cut(strings.TrimSuffix(line, "\x00"), "\t")
		if commit, ok := strings.CutPrefix(head, "160000 commit "); ok {
			commits[name] = commit
		}
	}
}

// addSubmodule feeds the directory of a submodule to sink, with a minimal `.git` that names the commit.
func addSubmodule(o stream.Options, dir stream.Entry, commit string, sink stream.Sink) error {
	if o.Skip != nil {
		o.Skip(dir.Path, fmt.Errorf("submodule at commit %s: its files are not in the repository", commit))
	}

	top := dir.Path
	for _, d := range []string{"", "/.git", "/.git/objects", "/.git/refs"} {
		dir.Path = top + d
		if err := sink(dir); err != nil {
			return err
		}
	}

	for file, text := range map[string]string{
		"HEAD":        commit + "\n",
		"description": "Only the commit of this submodule is known. For its files, put a clone in place of this directory.\n",
	} {
		m := gitMeta(o, unix.S_IFREG, dir.Mtime)
		if err := sink(stream.Entry{Path: top + "/.git/" + file, Meta: m, Size: int64(len(text)), Data: strings.NewReader(text)}); err != nil {
			return err
		}
	}

	return nil
}
