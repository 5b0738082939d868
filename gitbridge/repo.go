package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// Errors that callers distinguish with errors.Is.
var (
	// ErrNotRepository: the directory is not a git repository.
	ErrNotRepository = errs.New(errs.NotExist, "not a git repository")
	// ErrUnsafe: the repository belongs to another user and git does not trust it.
	ErrUnsafe = errs.New(errs.Perm, "the repository belongs to another user")
	// ErrNotSelfContained: the repository is a part of another repository, or refers to files outside of its
	// directory.
	ErrNotSelfContained = errs.New(errs.Perm, "the repository is incomplete or linked")
	// ErrBadRef: git does not allow the name of the ref, or an export must not write the ref.
	ErrBadRef = errs.New(errs.Invalid, "bad ref name")
	// ErrRefMoved: another process changed the ref during the export. The export did not change the
	// ref.
	ErrRefMoved = errs.New(errs.Busy, "the ref was changed meanwhile")
	// ErrNoRevision: the repository has no such revision.
	ErrNoRevision = errs.New(errs.NotExist, "no such revision")
)

// trust is the part of the configuration of git that git calls use. The author of the exported files
// may also have written the repository's configuration.
type trust int

const (
	trustData trust = iota // the user's settings, and the repository's except those that name programs (filters)
	trustAll               // the user's and the repository's settings, as git does
	trustNone              // neither the user's nor the repository's settings; for the store's own repository
)

// env returns additional variables for git calls.
func (t trust) env() []string {
	if t != trustNone {
		return nil
	}
	return []string{"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null/none",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
}

// repository is an opened git repository.
type repository struct {
	trust   trust
	dir     string // the path that the user gave, for messages
	gitDir  string // absolute path of the git directory
	objects string // absolute path of the object directory
	format  string // format of object ids: sha1 or sha256
}

// openRepository opens the repository at dir: the root of a working tree, or a git
// directory, bare or not. It refuses a directory inside of a repository, so that a
// mistyped path does not find a repository above it. git itself checks the owner
// (safe.directory). Errors: ErrNotRepository, ErrUnsafe, ErrNotSelfContained, ErrNotRegular.
func openRepository(ctx context.Context, dir string, t trust) (*repository, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, ErrNotRepository, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", dir, ErrNotRepository)
	}
	if err := checkFiles(ctx, abs, t); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}

	env := append(t.env(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(abs))
	out, err := runGit(ctx, abs, env, nil, "rev-parse", "--absolute-git-dir", "--show-object-format", "--git-path", "objects")
	if err != nil {
		return nil, openError(dir, err)
	}

	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 3 {
		return nil, fmt.Errorf("%s: git rev-parse answered %q", dir, out)
	}

	r := &repository{trust: t, dir: dir, gitDir: lines[0], objects: lines[2], format: lines[1]}
	if !filepath.IsAbs(r.objects) {
		r.objects = filepath.Join(abs, r.objects)
	}

	return r, r.checkSelfContained(abs)
}

// checkSelfContained returns ErrNotSelfContained if the repository at abs refers to another repository: its
// .git is a file or a link, it is a linked worktree, or its directories are links. With trustAll, such a
// repository is allowed.
func (r *repository) checkSelfContained(abs string) error {
	git := filepath.Join(abs, ".git")
	if r.trust != trustAll && (r.gitDir != abs && r.gitDir != git || r.objects != filepath.Join(r.gitDir, "objects")) {
		return r.foreignError(r.objects)
	}
	return r.checkNoLinks(git, r.objects, filepath.Join(r.objects, "pack"), filepath.Join(r.gitDir, "logs"))
}

// checkNoLinks returns ErrNotSelfContained if one of the paths is a symbolic link, unless the trust is
// trustAll.
func (r *repository) checkNoLinks(names ...string) error {
	if i := slices.IndexFunc(names, isLink); i >= 0 && r.trust != trustAll {
		return r.foreignError(names[i])
	}
	return nil
}

func (r *repository) foreignError(name string) error {
	return fmt.Errorf("%s: %w: %s; if you know why, use --trust-config", r.dir, ErrNotSelfContained, name)
}

func isLink(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

func openError(dir string, err error) error {
	g, ok := errors.AsType[*GitError](err)
	if !ok {
		return err
	}

	switch {
	case strings.Contains(g.Stderr, "dubious ownership"):
		return fmt.Errorf("%s: %w: if you trust it, run: git config --global --add safe.directory %s", dir, ErrUnsafe, dir)
	case strings.Contains(g.Stderr, "not a git repository"):
		return fmt.Errorf("%s: %w: name the root of a working tree or a bare repository", dir, ErrNotRepository)
	}

	return fmt.Errorf("%s: %w: %s", dir, ErrNotRepository, g.Stderr)
}

// initBare makes a bare repository without templates at dir, an absolute path.
func initBare(ctx context.Context, dir, format string) error {
	_, err := runGit(ctx, "", trustNone.env(), nil, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", "--object-format="+format, dir)
	return err
}

// ownConfig is the whole configuration of the store's own repository.
const ownConfig = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"

// initOwn makes the store's own repository at dir, unless it exists. It always writes the configuration
// again, because another user may have written the store and the configuration in it.
func initOwn(ctx context.Context, dir string) error {
	if isLink(dir) {
		return fmt.Errorf("%s: %w", dir, ErrNotSelfContained)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the store's git repository: %w", err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the store's git repository: %w", err)
	}
	defer root.Close()

	ownRepoLock.Lock()
	defer ownRepoLock.Unlock()

	if err := checkOwn(root); err != nil {
		return fmt.Errorf("the store's git repository: %w; move %s away, and a new one is created", err, dir)
	}

	isMissing := func(name string) bool { _, err := root.Lstat(name); return err != nil }
	if slices.ContainsFunc([]string{"HEAD", "objects", "refs"}, isMissing) { // new, or half made before a crash
		// Other exports use the repository too, so a cancelled export still makes it completely.
		if err := initBare(context.WithoutCancel(ctx), dir, "sha1"); err != nil {
			return fmt.Errorf("making the store's git repository: %w", err)
		}
	}

	err = root.WriteFile("config.new", []byte(ownConfig), 0o600)
	if err = errors.Join(err, root.Rename("config.new", "config")); err != nil {
		return fmt.Errorf("configuring the store's git repository: %w", err)
	}

	return nil
}

// ownRepoLock is locked by initOwn while it checks, makes or configures a repository: for a moment, git init has a
// symbolic link in the new repository, which checkOwn would refuse. A lock in memory is enough: all exports to a
// store's own repository are made by one process.
var ownRepoLock sync.Mutex

// checkOwn returns ErrNotSelfContained in these cases:
//
//   - The store's own repository contains a symbolic link, or a special file on which git would block,
//     such as a FIFO.
//   - A file outside of objects has other hard links.
//   - The repository has alternates.
//
// It does not check hooks, which are never run. Concurrent exports may remove files during the walk.
func checkOwn(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != ".":
			return nil
		case err != nil:
			return err
		case name == "hooks":
			if e.IsDir() {
				return fs.SkipDir
			}
		case !e.IsDir() && !e.Type().IsRegular(), path.Base(name) == "alternates":
			return fmt.Errorf("%w: %s", ErrNotSelfContained, name)
		case e.IsDir(), strings.HasPrefix(name, "objects/"):
			// Hard links to files of objects do no harm: git never writes to such a file, but replaces it.
			return nil
		}

		info, err := e.Info()
		if err == nil && !vfs.HasOneName(info) {
			err = fmt.Errorf("%w: %s has other hard links", ErrNotSelfContained, name)
		}

		return errs.Ignore(err, fs.ErrNotExist)
	})
}

// git runs git on the repository and returns its output without the last line end.
func (r *repository) git(ctx context.Context, env []string, args ...string) (string, error) {
	out, err := r.gitWithInput(ctx, env, nil, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// gitWithInput runs git on the repository with a standard input and returns its whole output.
func (r *repository) gitWithInput(ctx context.Context, env []string, stdin io.Reader, args ...string) ([]byte, error) {
	return runGit(ctx, r.gitDir, slices.Concat(r.trust.env(), env), stdin, append([]string{"--git-dir=" + r.gitDir}, args...)...)
}

// startGit starts a git command on the repository that reads requests and writes answers.
func (r *repository) startGit(ctx context.Context, env []string, args ...string) (*process, error) {
	return startGit(ctx, r.gitDir, slices.Concat(r.trust.env(), env), append([]string{"--git-dir=" + r.gitDir}, args...)...)
}

// idLength returns the number of hex digits of an object id.
func (r *repository) idLength() int {
	if r.format == "sha256" {
		return 64
	}
	return 40
}

// resolve returns the id of the object that a revision names. Errors: ErrNoRevision.
func (r *repository) resolve(ctx context.Context, rev string) (string, error) {
	id, err := r.git(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", rev)
	if exit := gitdir.ExitCode(err); exit == 1 || exit == 128 || strings.HasPrefix(id, "^") { // git accepts "^HEAD", which names no single object
		return "", fmt.Errorf("%s: %w: %q", r.dir, ErrNoRevision, rev)
	}
	return id, err
}
