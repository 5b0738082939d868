// Package gitdir merges the changes that two sides made to a git directory, by git's own meaning. The merge of files
// never looks into a git directory.
//
// Imported by: gitbridge, service.
//
// A git directory is the `.git` of a working tree, that of a submodule below modules, a bare
// repository, or one that a `.git` file names, see [LinkAt]. A [Merge] has three states of it: the
// base, theirs, and the receiving one, which is on this machine. [Merge.Plan] decides, and reads
// only. [Plan.Commit] then changes the receiving repository, by git's commands and locks:
//
//   - objects are added, and never removed: the objects that can be reached from the refs that theirs brings;
//   - a ref that one side moved gets that side's value. A branch that both moved is forwarded if
//     one value contains the other. Otherwise the receiving side keeps its value, and the commits
//     of the other side get a branch of their own, amberfs/NAME/BRANCH;
//   - tags do not move, nor does a branch that another working tree has checked out;
//   - the index belongs to HEAD. It becomes that of the new HEAD, with what either side had
//     staged where HEAD did not change it. In doubt a path is unstaged;
//   - work in progress (a merge, a rebase, a bisect, the stash) is taken as a whole, or left.
//
// Configuration, hooks and rules are files, see [IsFile].
//
// Git decides from a repository of its own, which has a plain configuration and reads the objects
// of both sides. The receiving repository is changed with its own configuration; what the other
// side configured is data.
package gitdir
