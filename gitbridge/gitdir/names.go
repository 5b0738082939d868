package gitdir

import (
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot/naming"
)

// sharedNames are the entries of a git directory that all working trees of a repository share. ownNames are
// exceptions: paths below these entries that are not shared. Each working tree has its own version of them.
// Git has these lists, see gitrepository-layout(5).
var (
	sharedNames = []string{"branches", "common", "config", "gc.pid", "hooks", "info", "logs", "lost-found", "modules", "objects",
		"packed-refs", "refs", "reftable", "remotes", "rr-cache", "shallow", "svn", "worktrees"}
	ownNames = []string{"info/sparse-checkout", "logs/HEAD", "logs/refs/bisect", "logs/refs/rewritten", "logs/refs/worktree",
		"refs/bisect", "refs/rewritten", "refs/worktree"}
)

// IsPrivate reports whether each working tree has its own version of a path below a git directory.
func IsPrivate(name string) bool {
	if below(name, ownNames...) {
		return true
	}
	first, _, _ := strings.Cut(name, "/")
	return !slices.Contains(sharedNames, first)
}

// below reports whether a path is equal to one of the given paths, or lies below it.
func below(name string, of ...string) bool {
	return naming.IsUnderAny(name, of)
}

// operationNames are the files and directories of operations in progress: a merge, a rebase, a cherry-pick, a bisect.
var operationNames = []string{"MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "MERGE_RR", "MERGE_AUTOSTASH", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD",
	"REBASE_HEAD", "AUTO_MERGE", "BISECT_LOG", "BISECT_NAMES", "BISECT_START", "BISECT_TERMS", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK", "BISECT_FIRST_PARENT",
	"BISECT_HEAD", "BISECT_RUN", "rebase-merge", "rebase-apply", "sequencer"}

// wholeDirs are directories that a merge takes as a whole or not at all: the records of rerere, and refs in a
// reftable, which this package cannot read.
var wholeDirs = []string{"rr-cache", "reftable"}

// leftoverNames are files that git commands leave behind. Each is from the last command that writes such a file.
var leftoverNames = []string{"ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG"}

// copiedSharedNames and copiedOwnNames are the paths that an import copies from the git directory of a working tree,
// if that lies outside of the imported directory. copiedSharedNames are copied from the part that all working trees
// share, and copiedOwnNames from the part that belongs to this working tree. Configuration, hooks and rules are not
// copied, because they could contain secrets or name programs. Objects are not copied: the copy has the objects of the
// original as alternates.
var copiedSharedNames, copiedOwnNames = []string{"refs", "packed-refs", "logs", "shallow"},
	slices.Concat([]string{"HEAD", "index", "ORIG_HEAD", "COMMIT_EDITMSG"}, operationNames, ownNames)

// IsCopied reports whether an import copies a path from a git directory that lies outside of the imported directory.
// own means that the path is in the part of the working tree, not in the shared part.
func IsCopied(name string, own bool) bool {
	if own {
		return below(name, copiedOwnNames...) || strings.HasPrefix(name, "sharedindex.")
	}
	return below(name, copiedSharedNames...) && !IsPrivate(name)
}

// generatedNames are the files and directories of a git directory that only git writes.
var generatedNames = slices.Concat([]string{"HEAD", "index", lockMark, "packed-refs", "refs", "reftable", "logs", "objects", "shallow", "info/sparse-checkout",
	"info/refs", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG", "gc.log", "gc.pid", "rr-cache", "commondir", "gitdir", "worktrees"}, operationNames)

// IsOrdinaryFile reports whether a path below a git directory is merged as an ordinary file, such as the
// configuration and hooks. All other paths are written only by git.
func IsOrdinaryFile(name string) bool {
	return !below(name, generatedNames...) && !strings.HasPrefix(name, "sharedindex.") && !strings.HasSuffix(name, ".lock")
}

// IsLFS reports whether a path below a git directory belongs to Git LFS. The names of LFS objects are their hashes.
func IsLFS(name string) bool { return below(name, "lfs") }
