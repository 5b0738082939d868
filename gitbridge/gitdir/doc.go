// Package gitdir merges the changes that two sides made to a git directory. It decides about refs, HEAD, the index
// and operations in progress as git does. The merge of files (package threeway) does not interpret these.
//
// Imported by: gitbridge, service.
//
// A git directory is the directory `.git` of a working tree, the git directory of a submodule below modules, a bare
// repository, or a directory that a `.git` file names, see [LinkAt]. A [Merge] has three states of a git directory:
// the base, theirs, and ours. Ours is the receiving side: a repository on this machine. [Merge.Plan] decides, and
// changes no repository. [Plan.CarryOut] then changes the receiving repository, with git's commands and locks:
//
//   - objects are added, and never removed: all objects that can be reached from the new values of refs, see
//     [Plan.AddObjects];
//   - a ref that only one side moved is set to the value of that side. A branch that both sides moved is set to the
//     newer commit if the history of that commit has the other one. Otherwise the receiving side keeps its value, and
//     the commits of theirs are parked: they get a branch of their own, amberfs/NAME/BRANCH;
//   - a tag that the receiving side has does not move, nor does a branch that another working tree has checked out;
//   - the index gets the entries of the new HEAD. A path that one side has staged stays staged if the move of HEAD
//     does not change the path. In doubt a path is unstaged;
//   - an operation in progress (a merge, a rebase, a bisect) and the stash are taken from theirs as a whole, or not at
//     all.
//
// Configuration, hooks and ignore rules are merged as ordinary files, see [IsOrdinaryFile].
//
// Plan asks git in a scratch repository, which has a plain configuration and the objects of both sides. CarryOut runs
// git in the receiving repository, with the configuration of that repository. Git does not run with the configuration
// of theirs.
package gitdir
