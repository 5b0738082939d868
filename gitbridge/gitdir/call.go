package gitdir

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// A Git runs git in the directory dir with additional environment variables, and returns the standard output. The
// implementation adds the options that all calls of git need.
type Git func(ctx context.Context, dir string, env []string, stdin io.Reader, args ...string) ([]byte, error)

// A gitCaller calls git for one repository.
type gitCaller struct {
	run      Git
	gitDir   string   // the git directory
	worktree string   // the working tree, in which git is started; "" for none
	env      []string // environment variables of each call
}

// ask calls git with additional environment variables, and returns its standard output.
func (g gitCaller) ask(ctx context.Context, env []string, stdin io.Reader, args ...string) (string, error) {
	options := []string{"--git-dir=" + g.gitDir}
	if g.worktree != "" {
		options = append(options, "--work-tree="+g.worktree)
	}

	out, err := g.run(ctx, g.worktree, slices.Concat(g.env, env), stdin, append(options, args...)...)
	return string(out), err
}

// missingObjects returns the ids among the given ones whose objects the repository does not have.
func (g gitCaller) missingObjects(ctx context.Context, ids []string) (map[string]bool, error) {
	missing := make(map[string]bool)
	if len(ids) == 0 {
		return missing, nil
	}

	out, err := g.ask(ctx, nil, strings.NewReader(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check")
	for l := range strings.Lines(out) {
		if id, answer, _ := strings.Cut(strings.TrimSpace(l), " "); answer == "missing" {
			missing[id] = true
		}
	}

	return missing, err
}

// changedPaths returns the paths of the working tree with changes that are not committed.
func (g gitCaller) changedPaths(ctx context.Context) (map[string]bool, error) {
	out, err := g.ask(ctx, nil, nil, "status", "--porcelain", "-z", "--no-renames", "-uall", "--ignore-submodules=dirty")
	changed := make(map[string]bool)
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if len(entry) > 3 { // two status letters and a space precede the path
			changed[entry[3:]] = true
		}
	}

	return changed, err
}

// ExitCode returns the exit status of the git call that failed with err, -1 if err has no exit status.
func ExitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
