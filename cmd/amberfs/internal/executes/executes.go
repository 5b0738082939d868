// Package executes finds files that programs execute, or take commands from, without being told to by
// the user: the hooks of git, and settings of shells, editors and coding agents.
package executes

import (
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ExecutedPaths returns the paths in a plan at which an apply would write a file that other programs execute.
func ExecutedPaths(plan []hostdir.PlannedChange) (out []naming.BytePath) {
	for _, c := range plan {
		if IsExecuted(c.Path.String(), c.After) {
			out = append(out, naming.BytePath(c.Path.String()))
		}
	}
	return out
}

// IsExecuted reports whether other programs execute the file with the path p. file is nil for a deleted file. In a
// git directory, it reports true for all files, except for names that are known as harmless. It also reports true for
// a file or a link .git, because that can name another repository.
func IsExecuted(p string, file *tree.Inode) bool {
	if file == nil || file.IsDir() {
		return false
	}
	if path.Base(p) == ".git" {
		return true
	}
	if i := strings.LastIndex("/"+p, "/.git/"); i >= 0 {
		return !file.IsRegular() || !isHarmless(p[i+len(".git/"):])
	}

	return executedPathPattern().MatchString(p) && !strings.Contains("/"+p, "/node_modules/")
}

// executedPathPattern matches the paths of files of shells, editors, agents and bare repositories. IsExecuted does not
// use it below node_modules, because nobody works in the directories of packages.
var executedPathPattern = pattern.New(`(^|/)(` +
	`\.vscode|\.idea|\.zed|\.husky|\.devcontainer|` +
	`\.claude|\.codex|\.cursor|\.gemini|\.agents|\.amazonq|\.cline|\.continue|\.junie|\.kiro|\.opencode|\.roo|\.windsurf|` +
	`[^/]+\.git/hooks)/|` +
	`(^|/)(\.envrc|\.devcontainer\.json|\.?mcp\.json|opencode\.jsonc?|\.aider\.conf\.yml|[^/]+\.git/(config|commondir))$`)

// harmlessNames has the names of harmless files in a git directory: these files name no program, and git only reads and
// shows them. A name with / at its end is the name of a directory whose files are all harmless.
var harmlessNames = []string{
	"objects/", "lfs/objects/", "refs/", "logs/", "HEAD", "index", "packed-refs", "shallow", "description",
	"ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG", "AUTO_MERGE",
	"CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "COMMIT_EDITMSG", "TAG_EDITMSG", "NOTES_EDITMSG",
	"info/exclude", "info/refs", "info/sparse-checkout", "gc.log",
}

// isHarmless reports whether git neither executes a file in a git directory nor reads the name of a program from it. rel
// is the path of the file in the git directory.
func isHarmless(rel string) bool {
	if first, rest, ok := strings.Cut(rel, "/"); ok && (first == "worktrees" || first == "modules") {
		return isHarmlessBelow(rest, first == "modules")
	}
	if strings.HasPrefix(rel, "hooks/") {
		return strings.HasSuffix(rel, ".sample")
	}
	return slices.ContainsFunc(harmlessNames, func(name string) bool {
		return rel == name || strings.HasSuffix(name, "/") && strings.HasPrefix(rel, name)
	})
}

// isHarmlessBelow is isHarmless for a file below worktrees/ or modules/. rel begins with the name of a worktree or a
// submodule. The names of submodules may have slashes, and may look like a part of a git directory. So if
// nameHasSlashes is set, a file that could be the configuration or a hook of a submodule is never harmless.
func isHarmlessBelow(rel string, nameHasSlashes bool) bool {
	parts := strings.Split(rel, "/")
	if nameHasSlashes {
		dangerous := []string{"config", "config.worktree", "commondir", "modules", "worktrees"}
		if slices.Contains(dangerous, path.Base(rel)) || slices.Contains(parts[1:], "hooks") && path.Ext(rel) != ".sample" {
			return false
		}
	}

	for i := 1; i < len(parts); i++ {
		if isHarmless(strings.Join(parts[i:], "/")) {
			return true
		}
		if !nameHasSlashes {
			break
		}
	}

	return false
}
