package gitbridge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// IgnoreFile is the name of a file with patterns of paths that git ignores.
const IgnoreFile = ".gitignore"

// maxIgnoreBytes is the largest total size of the .gitignore files that Ignored reads. If they are larger, Ignored
// returns no path.
const maxIgnoreBytes = 1 << 20

// Ignored returns the paths among the given ones that git add would ignore. It reads the .gitignore files in
// the directories above them. The path of a directory ends with a slash.
func Ignored(ctx context.Context, src *tree.Source, st *tree.State, paths []string) (map[string]bool, error) {
	rules, err := rulesAbove(src, st, paths)
	if err != nil || len(rules) == 0 {
		return nil, err
	}

	are, err := ignoredBy(ctx, rules, paths)
	if err != nil {
		return nil, err
	}

	ignored := make(map[string]bool)
	for i, is := range are {
		if is {
			ignored[paths[i]] = true
		}
	}

	return ignored, nil
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

	p, err := worktree.startGit(ctx, ignoreArgs...)
	if err != nil {
		return nil, err
	}

	const patternField, fieldCount = 2, 4
	ignored := make([]bool, len(paths))
	err = p.ask(paths, fieldCount, func(i, field int, text string) {
		if field == patternField {
			ignored[i] = text != "" && !strings.HasPrefix(text, "!")
		}
	})

	const noneMatched = 1
	if werr := p.wait(); err == nil && werr != nil && gitdir.ExitCode(werr) != noneMatched {
		err = werr
	}
	if err != nil {
		return nil, fmt.Errorf("asking git what is ignored: %w", err)
	}

	return ignored, nil
}

// rulesAbove returns the texts of the .gitignore files in the directories above paths, by path. It
// returns nil if they have more than maxIgnoreBytes bytes.
func rulesAbove(src *tree.Source, st *tree.State, paths []string) (map[string][]byte, error) {
	rules, seen, size := make(map[string][]byte), make(map[string]bool), int64(0)

	for _, p := range paths {
		for dir := path.Dir(strings.TrimSuffix(p, "/")); !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			n, err := st.InodeAt(src, path.Join(dir, IgnoreFile))
			if err != nil || n == nil || !n.IsRegular() {
				continue // dir has no readable rules; dir may also be a file or not exist
			}
			if size += n.Size(); size > maxIgnoreBytes {
				return nil, nil
			}

			text, err := io.ReadAll(n.Content.Reader(src.Files))
			if err != nil {
				return nil, fmt.Errorf("reading %q: %w", path.Join(dir, IgnoreFile), err)
			}
			rules[path.Join(dir, IgnoreFile)] = text
		}
	}

	return rules, nil
}
