package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/vfs"
)

// Prefixes of the default refs: in a user's repository, and in the store's own.
const (
	userRefs  = "refs/sandbox/snapshots/"
	storeRefs = "refs/snapshots/"
)

// DefaultRef returns the ref for a snapshot if the caller names none. In a user's repository, the ref
// has a longer prefix, which git's own commands do not use.
func DefaultRef(name string, ownStore bool) string {
	if ownStore {
		return storeRefs + name
	}
	return userRefs + name
}

// reservedRefs are the prefixes of refs that git's commands show or move. An export writes no ref with
// such a prefix.
var reservedRefs = []string{"refs/heads/", "refs/tags/", "refs/remotes/", "refs/notes/", "refs/bisect/",
	"refs/rewritten/", "refs/worktree/", "refs/replace/", "refs/prefetch/", "refs/stash"}

// checkRef returns ErrBadRef if git refuses the name of a ref or if the ref is reserved, and ErrNotSelfContained
// if a part of its path is a symbolic link.
func (r *repository) checkRef(ctx context.Context, ref string) error {
	if !strings.HasPrefix(ref, "refs/") {
		return fmt.Errorf("%w: %q: give the whole name, such as %sNAME", ErrBadRef, ref, userRefs)
	}

	if _, err := r.git(ctx, nil, "check-ref-format", ref); err != nil {
		if gitdir.ExitCode(err) != 1 {
			return err
		}
		return fmt.Errorf("%w: %q is not a name that git allows", ErrBadRef, ref)
	}

	for _, t := range reservedRefs {
		if ref == strings.TrimSuffix(t, "/") || strings.HasPrefix(ref, t) {
			return fmt.Errorf("%w: %q: branches, tags and remotes are not written; use a ref such as %sNAME", ErrBadRef, ref, userRefs)
		}
	}

	for ; ref != "."; ref = path.Dir(ref) {
		if err := r.checkNoLinks(filepath.Join(r.gitDir, ref), filepath.Join(r.gitDir, "logs", ref)); err != nil {
			return err
		}
	}

	return nil
}

// readRef returns the object that ref names, "" if the ref does not exist. It returns ErrBadRef for a
// symbolic ref: an export would replace the symbolic ref, and not change its target.
func (r *repository) readRef(ctx context.Context, ref string) (string, error) {
	refs, err := r.refs(ctx, ref)
	if err != nil {
		return "", err
	}

	for _, found := range refs {
		if found.name != ref {
			continue // git uses the name as a pattern, which also matches the refs below it
		}
		if found.target != "" {
			return "", fmt.Errorf("%w: %q is a symbolic ref to %s", ErrBadRef, ref, found.target)
		}
		return found.id, nil
	}

	return "", nil
}

// A ref is a ref of a repository: its object, its whole name and, for a symbolic ref, its target.
type ref struct{ id, name, target string }

// refs returns the refs that match one of the patterns. Without patterns it returns all refs.
func (r *repository) refs(ctx context.Context, patterns ...string) (all []ref, err error) {
	out, err := r.git(ctx, nil, append([]string{"for-each-ref", "--format=%(objectname) %(refname) %(symref)"}, patterns...)...)
	if err != nil {
		return nil, fmt.Errorf("listing the refs of %s: %w", r.dir, err)
	}
	for line := range strings.Lines(out) {
		fields := append(strings.Fields(line), "")
		all = append(all, ref{fields[0], fields[1], fields[2]})
	}
	return all, nil
}

// updateRef changes the value of a ref from old to id, both ids of objects. If old is "", the ref must not
// exist yet. The text reason is for the reflog. Errors: ErrRefMoved if ref has another value; ErrBadRef if
// the name collides with another ref.
func (r *repository) updateRef(ctx context.Context, ref, old, id, reason string) error {
	_, err := r.git(ctx, nil, "update-ref", "--no-deref", "-m", reason, ref, id, old)
	if err == nil {
		return nil
	}

	if g, ok := errors.AsType[*GitError](err); ok {
		switch {
		case strings.Contains(g.Stderr, "but expected"), strings.Contains(g.Stderr, "reference already exists"),
			strings.Contains(g.Stderr, "unable to resolve reference"), strings.Contains(g.Stderr, ".lock': File exists"):
			return fmt.Errorf("%w: %s: export again", ErrRefMoved, ref)
		case strings.Contains(g.Stderr, "exists; cannot create"), strings.Contains(g.Stderr, "cannot lock ref") && strings.Contains(g.Stderr, "non-empty directory"):
			return fmt.Errorf("%w: %q: another ref is in its way: %s", ErrBadRef, ref, g.Stderr)
		}
	}

	return fmt.Errorf("moving %s: %w", ref, err)
}

// DropRefs deletes the refs of the store's own repository at dir for which drop returns true. dropped
// reports whether there was such a ref.
func DropRefs(ctx context.Context, dir string, drop func(ref string) bool) (dropped bool, err error) {
	repo, err := openOwn(ctx, dir)
	if repo == nil || err != nil {
		return false, err
	}

	names, err := repo.deleteRefs(ctx, func(r ref) bool { return drop(r.name) }, false)
	return len(names) > 0, err
}

// openOwn opens the store's own repository at dir. It returns nil if the repository does not exist yet.
func openOwn(ctx context.Context, dir string) (*repository, error) {
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err := initOwn(ctx, dir); err != nil {
		return nil, err
	}
	return openRepository(ctx, dir, trustNone)
}

// deleteRefs deletes the refs for which drop returns true, and returns their names. With dryRun it only returns the
// names.
func (r *repository) deleteRefs(ctx context.Context, drop func(ref) bool, dryRun bool) (names []string, err error) {
	refs, err := r.refs(ctx)
	if err != nil {
		return nil, err
	}

	var input strings.Builder
	for _, ref := range refs {
		if drop(ref) {
			names = append(names, ref.name)
			fmt.Fprintf(&input, "delete %s\n", ref.name)
		}
	}
	if dryRun || len(names) == 0 {
		return names, nil
	}

	if _, err := r.gitWithInput(ctx, nil, strings.NewReader(input.String()), "update-ref", "--no-deref", "--stdin"); err != nil {
		return nil, fmt.Errorf("deleting refs of %s: %w", r.gitDir, err)
	}

	return names, nil
}

// KeepOnlyCommits removes all commits but the given ones from the store's own repository at dir. It deletes
// each ref with another commit in its history, all reflogs, and the objects that the remaining refs do not
// need. It returns the deleted refs; with dryRun it only returns the refs that it would delete. The caller
// must let no export run at the same time.
func KeepOnlyCommits(ctx context.Context, dir string, commits map[string]bool, dryRun bool) (deleted []string, err error) {
	repo, err := openOwn(ctx, dir)
	if repo == nil || err != nil {
		return nil, err
	}

	// git lists parents before their children, so each line has only parents about which kept has an answer.
	out, err := repo.git(ctx, nil, "rev-list", "--all", "--topo-order", "--reverse", "--parents")
	if err != nil {
		return nil, fmt.Errorf("listing the commits of %s: %w", dir, err)
	}

	kept := make(map[string]bool)
	for line := range strings.Lines(out) {
		ids := strings.Fields(line)
		kept[ids[0]] = commits[ids[0]] && !slices.ContainsFunc(ids[1:], func(parent string) bool { return !kept[parent] })
	}

	deleted, err = repo.deleteRefs(ctx, func(r ref) bool { return !kept[r.id] }, dryRun)
	if err != nil || dryRun {
		return deleted, err
	}
	if _, err := repo.git(ctx, nil, "reflog", "expire", "--expire=now", "--all"); err != nil {
		return nil, fmt.Errorf("emptying the reflogs of %s: %w", dir, err)
	}

	return deleted, Prune(ctx, dir)
}

// Prune removes the objects of the store's own repository at dir that no ref needs, and overwrites the files that
// git removes. The caller must let no export run at the same time: the objects of an unfinished export have
// no ref yet.
func Prune(ctx context.Context, dir string) error {
	repo, err := openRepository(ctx, dir, trustNone)
	if err != nil {
		return err
	}

	// Give each file a second name. When git then removes the file, its blocks are not freed, and eraseNames
	// can overwrite them. A killed Prune may have left such names.
	names := filepath.Join(dir, "pruning")
	if err := eraseNames(names); err != nil {
		return err
	}
	if err := addNames(repo.objects, names); err != nil {
		return fmt.Errorf("preparing to free objects of %s: %w", dir, err)
	}

	if _, err := repo.git(ctx, nil, "gc", "--prune=now", "--quiet"); err != nil {
		return fmt.Errorf("freeing objects of %s: %w", dir, err)
	}

	return eraseNames(names)
}

// addNames gives each file below objects a second name in a new directory.
func addNames(objects, names string) error {
	if err := os.Mkdir(names, 0o700); err != nil {
		return err
	}

	number := 0
	return filepath.WalkDir(objects, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		number++
		return os.Link(name, filepath.Join(names, strconv.Itoa(number)))
	})
}

// eraseNames removes the directory of addNames. It overwrites each file that has only this name left, because
// git has removed the name in objects.
func eraseNames(names string) error {
	files, err := os.ReadDir(names)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	for _, f := range files {
		name := filepath.Join(names, f.Name())
		if fi, serr := f.Info(); serr == nil && vfs.HasOneName(fi) {
			err = errors.Join(err, os.Chmod(name, 0o600), vfs.Erase(vfs.OS, name))
		} else {
			err = errors.Join(err, serr, os.Remove(name))
		}
	}
	if err = errors.Join(err, os.Remove(names)); err != nil {
		return fmt.Errorf("overwriting what git removed: %w", err)
	}

	return nil
}
