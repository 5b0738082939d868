package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotRepository: the directory named is no git repository.
	ErrNotRepository = errors.New("not a git repository")
	// ErrUnsafe: the repository belongs to another user and git does not trust it.
	ErrUnsafe = errors.New("the repository belongs to another user")
	// ErrBadRef: git has no such ref names, or the ref is not one of ours to move.
	ErrBadRef = errors.New("bad ref name")
	// ErrRefMoved: somebody else changed the ref meanwhile. Nothing was changed.
	ErrRefMoved = errors.New("the ref was changed by somebody else meanwhile")
	// ErrNoRevision: the repository has no such revision.
	ErrNoRevision = errors.New("no such revision")
)

// repository is an opened git repository.
type repository struct {
	dir     string // as the user named it
	gitDir  string // absolute
	objects string // absolute: the object directory
	sha256  bool
}

// openRepository opens the repository at dir: a working tree's root or a git
// directory, bare or not. A directory inside of a repository is refused, so
// that a mistyped path never finds somebody else's repository further up. git
// itself checks that the owner is trusted (safe.directory).
func openRepository(ctx context.Context, dir string) (*repository, error) {
	r, _, err := openWith(ctx, dir)
	return r, err
}

// openRevision opens the repository at dir and resolves a revision of it, with
// one call of git instead of two if all is well.
func openRevision(ctx context.Context, dir, rev string) (r *repository, id string, err error) {
	r, more, err := openWith(ctx, dir, "--verify", "--quiet", "--end-of-options", rev)
	if err == nil && len(more) == 1 && !strings.HasPrefix(more[0], "^") {
		return r, more[0], nil
	}
	if r, err = openRepository(ctx, dir); err != nil {
		return nil, "", err
	}
	id, err = r.resolve(ctx, rev)
	return r, id, err
}

// openWith calls git rev-parse with more arguments and returns what it says to them.
func openWith(ctx context.Context, dir string, args ...string) (r *repository, more []string, err error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", dir, ErrNotRepository, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, nil, fmt.Errorf("%s: %w", dir, ErrNotRepository)
	}
	ceiling := "GIT_CEILING_DIRECTORIES=" + filepath.Dir(abs)
	args = append([]string{"rev-parse", "--absolute-git-dir", "--show-object-format", "--git-path", "objects"}, args...)
	out, err := run(ctx, abs, []string{ceiling}, nil, args...)
	if err != nil {
		return nil, nil, openError(dir, err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) < 3 {
		return nil, nil, fmt.Errorf("%s: git rev-parse answered %q", dir, out)
	}
	r = &repository{dir: dir, gitDir: lines[0], objects: lines[2], sha256: lines[1] == "sha256"}
	if !filepath.IsAbs(r.objects) {
		r.objects = filepath.Join(abs, r.objects)
	}
	return r, lines[3:], nil
}

func openError(dir string, err error) error {
	var g *GitError
	if !errors.As(err, &g) {
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

// initBare makes an empty bare repository at dir unless there is one.
func initBare(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the store's git repository: %w", err)
	}
	_, err := run(ctx, dir, nil, nil, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--initial-branch=main", ".")
	if err != nil {
		return fmt.Errorf("making the store's git repository: %w", err)
	}
	return nil
}

// git calls git on the repository, whatever the working directory is.
func (r *repository) git(ctx context.Context, env []string, args ...string) (string, error) {
	out, err := run(ctx, r.gitDir, env, nil, append([]string{"--git-dir=" + r.gitDir}, args...)...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// idLength is the number of hex digits of an object id.
func (r *repository) idLength() int {
	if r.sha256 {
		return 64
	}
	return 40
}

func (r *repository) zeroID() string { return strings.Repeat("0", r.idLength()) }

// resolve returns the object that a revision names.
func (r *repository) resolve(ctx context.Context, rev string) (string, error) {
	id, err := r.git(ctx, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", rev)
	if err == nil && strings.HasPrefix(id, "^") { // git lets "^HEAD" pass
		return "", fmt.Errorf("%s: %w: %q", r.dir, ErrNoRevision, rev)
	}
	if err != nil {
		if exitCode(err) == 1 || exitCode(err) == 128 {
			return "", fmt.Errorf("%s: %w: %q", r.dir, ErrNoRevision, rev)
		}
		return "", err
	}
	return id, nil
}
