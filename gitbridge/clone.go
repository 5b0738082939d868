package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CloneTemp is what the names of temporary directories of Clone begin with.
const CloneTemp = "amberfs-clone-"

// CloneOptions say what is cloned.
type CloneOptions struct {
	ImportOptions
	URL  string   // what git clone takes: a URL, or an absolute path
	Args []string // options of git clone that do not concern the working tree
	// TempDir is where git clones to first, on a disk with room for the
	// repository. "" is the system's.
	TempDir string
	// Log gets what git says, such as its progress; nil for nothing.
	Log io.Writer
}

// Cloned is a clone whose files are in the sink.
//
// The index of git holds what stat(2) says about each file, so that git status
// need not read files that look as they did. That includes inode numbers and
// change times, which are known only when the tree is in its place. So the index
// that the sink gets is one that makes git read every file once. Who puts the
// tree into the workspace replaces it by one with the numbers: StampIndex.
type Cloned struct {
	Commit string // that is checked out, "" if the remote has none
	Index  []byte // without stat data; nil if there is no commit
	SHA256 bool   // of the repository's ids
}

// Stat is what lstat(2) says of a file, as far as git's index cares.
type Stat struct {
	Dev, Ino     uint64
	UID, GID     uint32
	Size         int64
	Mtime, Ctime int64 // nanoseconds since 1970
}

// Clone feeds sink what `git clone` would make: ".git" and the files of HEAD,
// with the line ends and filters that .gitattributes ask for. Git itself clones
// into a temporary directory, without a working tree. The files are two seconds
// old, so that the index, which is written later, is younger than all of them:
// git reads every file that is not older than its index.
func Clone(ctx context.Context, o CloneOptions, sink Sink) (*Cloned, error) {
	temp, err := os.MkdirTemp(o.TempDir, CloneTemp)
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	defer os.RemoveAll(temp)
	dir := filepath.Join(temp, "repo")
	if err := gitClone(ctx, dir, o); err != nil {
		return nil, fmt.Errorf("cloning %s: %w", o.URL, noSpace(err))
	}
	repo, err := openRepository(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("cloning %s: %w", o.URL, err)
	}
	old := time.Now().Add(-2 * time.Second).UnixNano()
	g := newGuard(sink, o.Limits, o.gitMeta(unix.S_IFDIR, old), o.Progress)
	if err := g.dir(".", o.gitMeta(unix.S_IFDIR, old)); err != nil {
		return nil, err
	}
	owner := o.ImportOptions
	if owner.Owner == nil {
		owner.Owner = &Owner{uint32(os.Geteuid()), uint32(os.Getegid())}
	}
	if err := readDir(ctx, repo.gitDir, ".git", g, DirOptions{ImportOptions: owner}); err != nil {
		return nil, fmt.Errorf("cloning %s: %w", o.URL, err)
	}
	c := &Cloned{SHA256: repo.sha256}
	c.Commit, err = repo.resolve(ctx, "HEAD^{commit}")
	if errors.Is(err, ErrNoRevision) {
		return c, nil // an empty repository
	}
	if err != nil {
		return nil, err
	}
	co := &checkout{ctx: ctx, repo: repo, o: o.ImportOptions, temp: temp, mtime: old}
	if c.Index, err = co.feed(g, c.Commit); err != nil {
		return nil, fmt.Errorf("checking out %s: %w", o.URL, noSpace(err))
	}
	return c, g.file(".git/index", o.gitMeta(unix.S_IFREG, time.Now().UnixNano()), int64(len(c.Index)), bytes.NewReader(c.Index))
}

func gitClone(ctx context.Context, dir string, o CloneOptions) error {
	args := []string{"clone", "--no-checkout"}
	if o.Log == nil {
		args = append(args, "--quiet")
	} else {
		args = append(args, "--progress")
	}
	args = append(append(args, o.Args...), "--", o.URL, dir)
	cmd := command(ctx, "/", promptable(), args...)
	cmd.Stdin = os.Stdin // for those who ask a password there
	var said strings.Builder
	cmd.Stderr = &said
	if o.Log != nil {
		cmd.Stderr = io.MultiWriter(&said, o.Log)
	}
	if err := cmd.Run(); err != nil {
		if s := said.String(); strings.Contains(s, "does not exist") || strings.Contains(s, "does not appear to be a git repository") {
			return fmt.Errorf("%w: %w", ErrNotRepository, gitError(ctx, []string{"clone"}, s, err))
		}
		return gitError(ctx, []string{"clone"}, said.String(), err)
	}
	return nil
}
