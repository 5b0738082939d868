package executes

import (
	"testing"

	"github.com/amberfs/amberfs/snapshot/tree"
)

func inode(mode uint32) *tree.Inode { return &tree.Inode{Mode: mode} }

func TestFile(t *testing.T) {
	const file, link, dir = 0o100644, 0o120777, 0o040755
	for path, want := range map[string]bool{
		// Files that git only reads and shows.
		".git/HEAD": false, ".git/index": false, ".git/packed-refs": false, ".git/ORIG_HEAD": false, ".git/COMMIT_EDITMSG": false,
		".git/objects/11/22": false, ".git/lfs/objects/11/22/1122": false, ".git/lfs/config": true, ".git/refs/heads/config": false, ".git/logs/HEAD": false, ".git/info/exclude": false,
		".git/hooks/pre-commit.sample": false, "sub/.git/index": false,
		".git/worktrees/w/HEAD": false, ".git/worktrees/w/index": false, ".git/worktrees/w/logs/HEAD": false,
		".git/modules/sm/objects/11/22": false, ".git/modules/libs/sm/objects/pack/p.idx": false, ".git/modules/libs/sm/HEAD": false,
		".git/modules/a/modules/b/index": false,

		// Other files in a git directory.
		".git": true, "sub/.git": true, "node_modules/x/.git": true,
		".git/hooks/pre-commit": true, ".git/config": true, ".git/config.worktree": true, "sub/.git/hooks/x": true,
		".git/commondir": true, ".git/info/attributes": true, ".git/info/grafts": true, ".git/new-in-git-9": true, ".git/HEAD/config": true,
		".git/rebase-merge/git-rebase-todo": true, ".git/sequencer/todo": true, ".git/objects.old/x": true,
		".git/worktrees/w/config.worktree": true, ".git/worktrees/w/commondir": true, ".git/worktrees/w/gitdir": true, ".git/worktrees/config": true,
		".git/modules/sm/config": true, ".git/modules/libs/sm/config": true, ".git/modules/sm/hooks/post-checkout": true,
		".git/modules/evil/refs/config": true, ".git/modules/evil/refs/hooks/post-checkout": true, ".git/modules/a/modules/b/config": true,
		"repo.git/config": true, "a/repo.git/hooks/update": true, "repo.git/objects/11": false, "repo.git/src/main.go": false,

		// Files of shells, editors and agents.
		".envrc": true, "a/.envrc": true, ".envrc/x": false, ".vscode/tasks.json": true, ".idea/workspace.xml": true, ".husky/pre-push": true,
		".claude/settings.json": true, ".claude/settings.local.json": true, ".claude/hooks/x.sh": true, ".mcp.json": true, "a/.mcp.json": true,
		"mcp.json": true, ".cursor/mcp.json": true, ".codex/config.toml": true, ".gemini/settings.json": true, ".devcontainer.json": true,
		".gitattributes": false, "src/main.go": false, "hooks/x": false, "claude/settings.json": false, "my.mcp.json": false,
		"node_modules/a/.gitattributes": false, "a/node_modules/b/.vscode/tasks.json": false, "node_modules/.envrc": false, "my_node_modules/.envrc": true,
	} {
		if got := IsExecuted(path, inode(file)); got != want {
			t.Errorf("%s: %v", path, got)
		}
		if IsExecuted(path, nil) || IsExecuted(path, inode(dir)) {
			t.Errorf("%s, deleted or a directory", path)
		}
	}
	for _, path := range []string{".git", ".git/HEAD", ".git/objects", ".git/refs", ".git/modules/sm/objects"} {
		if !IsExecuted(path, inode(link)) {
			t.Errorf("%s, a link", path)
		}
	}
}
