package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/worktrees"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/internal/plainfile"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// hideFile is the name of a file with patterns, as in .gitignore. The paths that match are hidden in runs of the
// directory that contains the file.
const hideFile = ".amberhide"

// hideEmptyValue is a value of --hide: hidden files exist in the run, but are empty.
const hideEmptyValue = "empty"

// wholeWorkspace is the value of --read-only without a path.
const wholeWorkspace = "/"

// restrictions are the paths that are hidden or read-only in a run.
type restrictions struct {
	hideArgs       []string // values of --hide
	readOnlyValues []string // values of --read-only

	// relativeTo records paths of the command line for checkAllFound. found has the paths that are in at least one
	// directory of the run. notFound has the paths that are outside of at least one directory. A path can be in both.
	found, notFound []string
}

// makesWorkspaceReadOnly reports whether the whole workspace is read-only.
func (x *restrictions) makesWorkspaceReadOnly() bool {
	return slices.Contains(x.readOnlyValues, wholeWorkspace)
}

func (x *restrictions) hasHidden() bool { return len(x.hideArgs) > 0 }

// forDir returns the restrictions of a directory, also those of its .amberhide. The paths of the command line are
// relative to dir, unless they begin with "/", "./" or "../". If dir is "", they are relative to the root of the
// workspace.
func (x *restrictions) forDir(dir string) (o snapshot.ForkOptions, h hostdir.Hidden, err error) {
	if o.Hide, err = readHideFile(dir); err != nil {
		return o, h, err
	}

	for _, p := range x.readOnlyValues {
		rel, ok, err := x.relativeTo(dir, p)
		if err != nil {
			return o, h, err
		}
		if ok && p != wholeWorkspace {
			o.ReadOnly = append(o.ReadOnly, filepath.Clean(rel))
		}
	}

	for _, p := range x.hideArgs {
		if p == hideEmptyValue {
			o.HideAsEmpty = true
			continue
		}

		rel, ok, err := x.relativeTo(dir, p)
		if err != nil {
			return o, h, err
		}
		if rel != p {
			rel = hide.Literal(rel)
		}
		if ok {
			o.Hide = append(o.Hide, rel)
		}
	}

	h.ShowEmpty = o.HideAsEmpty
	if h.Paths, err = hide.New(o.Hide); err != nil {
		return o, h, errs.Fail(errs.Invalid, "--hide or %s: %w", hideFile, err)
	}

	return o, h, nil
}

// relativeTo converts a path of the command line to a path relative to a directory. ok is false if the path is not in
// the directory. relativeTo records the path in found or notFound, unless it was already relative.
func (x *restrictions) relativeTo(dir, p string) (rel string, ok bool, err error) {
	if !filepath.IsAbs(p) && !strings.HasPrefix(p, "./") && !strings.HasPrefix(p, "../") {
		return p, true, nil
	}
	if dir == "" {
		return strings.TrimPrefix(path.Clean("/"+p), "/"), true, nil
	}

	mounts, err := locate.Mounts()
	if err != nil {
		return "", false, err
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", false, err
	}

	// Resolve only the directory: if the path itself is a symbolic link, the link is hidden and not its target.
	abs = filepath.Join(locate.Resolve(mounts, filepath.Dir(abs)), filepath.Base(abs))
	if rel, err = filepath.Rel(dir, abs); err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		x.notFound = append(x.notFound, p)
		return p, false, nil
	}

	x.found = append(x.found, p)
	return rel, true, nil
}

// checkAllFound fails if a path of the command line is in none of the directories.
func (x *restrictions) checkAllFound() error {
	for _, p := range x.notFound {
		if p != wholeWorkspace && !slices.Contains(x.found, p) {
			return errs.Fail(errs.Invalid, "%s is not in the directory of the run", quote(p))
		}
	}
	return nil
}

// readHideFile returns the patterns in .amberhide of a directory.
func readHideFile(dir string) (lines []string, err error) {
	if dir == "" {
		return nil, nil
	}
	text, err := plainfile.Read(filepath.Join(dir, hideFile), policy.MaxPolicyBytes/2)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, errs.Fail(errs.ScriptKind(err), "cannot read %s: %w", filepath.Join(dir, hideFile), err)
	}

	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}

	return lines, nil
}

// findAndNoteHidden finds and prints the hidden paths of a directory for a new run. If a hidden file has other hard
// links, it adds patterns that hide these too. It also prints which of the paths are committed to git.
func findAndNoteHidden(ctx context.Context, a *app, dir string, patterns []string, h hostdir.Hidden, exclude ...string) ([]string, hostdir.Hidden, error) {
	if h.Paths == nil {
		return patterns, h, nil
	}
	found, links, err := hostdir.FindHidden(ctx, dir, h, exclude)
	if err != nil {
		return nil, h, errs.Fail(errs.ScriptKind(err), "cannot look for hidden paths: %w", err)
	}

	for _, name := range links {
		patterns = append(patterns, hide.Literal(name))
	}
	if h.Paths, err = hide.New(patterns); err != nil {
		return nil, h, err
	}

	if found = append(found, links...); len(found) == 0 {
		a.note("hidden: nothing, %s has no such path", quote(dir))
		return patterns, h, nil
	}

	a.note("hidden: %s", gitquote.ListNames(found))
	if shown := committedPaths(ctx, dir, found); len(shown) > 0 {
		a.note("committed, so git shows it: %s", gitquote.ListNames(shown))
	}

	return patterns, h, nil
}

// worktreePatterns returns the patterns of the paths that are hidden in a new worktree of a repository.
func worktreePatterns(ctx context.Context, a *app, r *worktrees.Repository) ([]string, error) {
	o, h, err := (&restrictions{}).forDir(r.Top)
	if err != nil {
		return nil, err
	}

	excluded := []string{worktrees.LinksDir(r.Top), filepath.Join(r.Root, naming.SnapshotsDir), filepath.Join(r.Root, naming.ForksDir)}
	patterns, _, err := findAndNoteHidden(ctx, a, r.Top, o.Hide, h, excluded...)
	return patterns, err
}

// committedPaths returns the paths that are in git's index, or that contain such a path. It examines only the first 500
// paths, because it passes them to git on a command line, which has a limited length.
func committedPaths(ctx context.Context, dir string, paths []string) []string {
	const maxPaths = 500
	args := []string{"--literal-pathspecs", "ls-files", "-z", "--cached", "--"}
	out, err := gitbridge.Git(ctx, dir, append(args, paths[:min(len(paths), maxPaths)]...)...)
	if err != nil || out == "" {
		return nil // the directory has no repository
	}

	files := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return !slices.ContainsFunc(files, func(f string) bool { return naming.IsUnder(f, p) })
	})
}

// setHiddenOfResumed sets k.hidden for the refresh of a resumed run: to the paths that are hidden in the run, and
// those that .amberhide hides now.
func (k *keptRun) setHiddenOfResumed(ctx context.Context, fork *client.Client) error {
	var current policy.Policy
	if err := fork.Do(ctx, service.Policy{}, client.Streams{}, &current); err != nil {
		return err
	}

	for _, line := range k.forkOptions.Hide {
		if !slices.Contains(current.Hide, line) {
			k.a.note("%s is newer than the run %s, which keeps what it has of these paths", filepath.Join(k.dir, hideFile), k.name)
			break
		}
	}

	var err error
	k.hidden.ShowEmpty = current.HideAsEmpty
	k.hidden.Paths, err = hide.New(append(current.Hide, k.forkOptions.Hide...))
	return err
}

// restrictWorkspace adds the restrictions of a run to the policy of an existing workspace.
func restrictWorkspace(ctx context.Context, a *app, p locate.Location, fork snapshot.ForkOptions) error {
	if len(fork.Hide)+len(fork.ReadOnly) == 0 {
		return nil
	}

	var current policy.Policy
	if err := a.call(ctx, p, service.Policy{}, &current); err != nil {
		return err
	}

	patch := make(map[string]any)
	for _, ro := range fork.ReadOnly {
		if !slices.Contains(current.ReadOnly, ro) {
			current.ReadOnly = append(current.ReadOnly, ro)
			patch["read_only"] = current.ReadOnly
		}
	}

	if slices.ContainsFunc(fork.Hide, func(pattern string) bool { return !slices.Contains(current.Hide, pattern) }) {
		if fork.Name != "" {
			return errs.Fail(errs.Exist, "the fork %s exists, and other paths are hidden in it", fork.Name).WithHint("choose another name")
		}
		patch["hide"], patch["hide_empty"] = fork.Hide, fork.HideAsEmpty
	}
	if len(patch) == 0 {
		return nil
	}

	b, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return a.call(ctx, p, service.SetPolicy{Patch: b}, nil)
}

// joinReadOnlyPaths changes "--read-only PATH" in the arguments of run to "--read-only=PATH". If the next word is a
// store or a flag, --read-only has no path, and applies to the whole workspace.
func joinReadOnlyPaths(argv []string) []string {
	if firstWord(argv) != "run" {
		return argv
	}

	var out []string
	for i := 0; i < len(argv); i++ {
		if argv[i] == "--" {
			return append(out, argv[i:]...)
		}

		if argv[i] == "--read-only" && i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "-") && !isStore(argv[i+1]) {
			out = append(out, "--read-only="+argv[i+1])
			i++
			continue
		}

		out = append(out, argv[i])
	}

	return out
}

func isStore(name string) bool {
	_, err := os.Lstat(filepath.Join(name, "format"))
	return err == nil
}
