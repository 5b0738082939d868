// Package executes knows which paths other programs execute because they are there: git, shells,
// editors and coding agents.
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

// In returns the paths of a plan that other programs execute.
func In(plan []hostdir.Planned) (out []naming.BytePath) {
	for _, c := range plan {
		if File(c.Path.String(), c.After) {
			out = append(out, naming.BytePath(c.Path.String()))
		}
	}
	return out
}

// File reports whether other programs execute what comes to a path: nil for nothing. In a git
// directory that is everything but the names that are known as harmless. Other repositories
// are named by a file .git, or by a link, so these count, too.
func File(p string, now *tree.Inode) bool {
	if now == nil || now.IsDir() {
		return false
	}
	if path.Base(p) == ".git" {
		return true
	}
	if i := strings.LastIndex("/"+p, "/.git/"); i >= 0 {
		return !now.IsRegular() || !quietIn(p[i+len(".git/"):])
	}

	return executed().MatchString(p) && !strings.Contains("/"+p, "/node_modules/")
}

// executed are files of shells, editors, agents and bare repositories. What is below node_modules
// belongs to packages, in which nobody works.
var executed = pattern.New(`(^|/)(` +
	`\.vscode|\.idea|\.zed|\.husky|\.devcontainer|` +
	`\.claude|\.codex|\.cursor|\.gemini|\.agents|\.amazonq|\.cline|\.continue|\.junie|\.kiro|\.opencode|\.roo|\.windsurf|` +
	`[^/]+\.git/hooks)/|` +
	`(^|/)(\.envrc|\.devcontainer\.json|\.?mcp\.json|opencode\.jsonc?|\.aider\.conf\.yml|[^/]+\.git/(config|commondir))$`)

// quiet are the names in a git directory that name no program: git reads and shows them only.
// A name with / at its end is a directory.
var quiet = []string{
	"objects/", "lfs/objects/", "refs/", "logs/", "HEAD", "index", "packed-refs", "shallow", "description",
	"ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG", "AUTO_MERGE",
	"CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "COMMIT_EDITMSG", "TAG_EDITMSG", "NOTES_EDITMSG",
	"info/exclude", "info/refs", "info/sparse-checkout", "gc.log",
}

func quietIn(rel string) bool {
	if first, rest, ok := strings.Cut(rel, "/"); ok && (first == "worktrees" || first == "modules") {
		return quietBelow(rest, first == "modules")
	}
	if strings.HasPrefix(rel, "hooks/") {
		return strings.HasSuffix(rel, ".sample")
	}
	return slices.ContainsFunc(quiet, func(name string) bool {
		return rel == name || strings.HasSuffix(name, "/") && strings.HasPrefix(rel, name)
	})
}

// quietBelow is quietIn for the git directory of a linked worktree or a submodule, whose name comes
// first. The name of a submodule may have slashes and look like a part of a git directory, so what
// may be its configuration or a hook is never quiet.
func quietBelow(rel string, slashes bool) bool {
	parts := strings.Split(rel, "/")
	if slashes {
		loud := []string{"config", "config.worktree", "commondir", "modules", "worktrees"}
		if slices.Contains(loud, path.Base(rel)) || slices.Contains(parts[1:], "hooks") && path.Ext(rel) != ".sample" {
			return false
		}
	}

	for i := 1; i < len(parts); i++ {
		if quietIn(strings.Join(parts[i:], "/")) {
			return true
		}
		if !slashes {
			break
		}
	}

	return false
}
