package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// IgnoreFile is the name of a file with patterns of paths that git ignores.
const IgnoreFile = ".gitignore"

// maxIgnoreBytes is the largest total size of the .gitignore files that Ignored reads. If they are larger,
// Ignored fails.
const maxIgnoreBytes = 1 << 20

// Ignored reports for each path whether git add would ignore it. It reads the .gitignore files in the
// directories above the paths. The path of a directory ends with a slash. If no path is ignored, the result can be nil.
func Ignored(ctx context.Context, src *tree.Source, st *tree.State, paths []string) ([]bool, error) {
	rules, err := rulesAbove(src, st, paths)
	if err != nil || len(rules) == 0 {
		return nil, err
	}

	return ignoredBy(ctx, rules, paths)
}

// ignoredBy reports for each path whether git ignores it. rules are the texts of the .gitignore files, by
// path. git runs in a temporary directory with only these files.
func ignoredBy(ctx context.Context, rules map[string][]byte, paths []string) ([]bool, error) {
	worktree, err := newAttrWorktree(ctx, &repository{trust: trustNone, format: "sha1"}, &settings{}, &meter{})
	if err != nil {
		return nil, err
	}
	defer worktree.close()

	for name, text := range rules {
		if err := worktree.write(name, bytes.NewReader(text)); err != nil {
			return nil, err
		}
	}

	return worktree.askIgnored(ctx, paths)
}

// rulesAbove returns the texts of the .gitignore files in the directories above paths, by path. It fails
// if they have more than maxIgnoreBytes bytes.
func rulesAbove(src *tree.Source, st *tree.State, paths []string) (map[string][]byte, error) {
	remaining := int64(maxIgnoreBytes)
	files, rules, seen := treeFiles{src, st, "", &remaining}, make(map[string][]byte), make(map[string]bool)

	for _, p := range paths {
		for dir := path.Dir(strings.TrimSuffix(p, "/")); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			name := path.Join(dir, IgnoreFile)
			text, err := files.Read(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", name, err)
			}
			rules[name] = text
		}
	}

	return rules, nil
}
