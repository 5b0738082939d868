// Package gitbridge connects trees with git repositories.
//
// Imported by: all of cmd, all of service.
//
// # Out to git
//
// [Export] makes a commit of a snapshot. Git itself writes every object: one
// `git fast-import` gets the contents and then the commit. The tree is the one
// that `git add --all --force` into an empty index followed by `git write-tree`
// makes of the same files (without --force, when ignore rules are honoured):
//
//   - what is ignored: git check-ignore, and what is converted (line ends,
//     $Id$, filters, encodings): git check-attr, both in an attrWorktree. A file that
//     would really change is stored by git hash-object;
//   - names: [Result.Skipped] lists the paths that git add would refuse (".GIT",
//     "git~1", a symbolic link ".gitmodules"…). Git would stop at them; an
//     export leaves them out;
//   - a directory with a working ".git" of its own is recorded as a link to the
//     commit that is checked out there, without its files. If there is no
//     commit yet, git add would stop; an export leaves it out. The ".git" at the
//     top of the workspace is never part of an export;
//   - empty directories, FIFOs, sockets and devices are left out, and extended
//     attributes, hard links and most permission bits are lost. All that is
//     listed in the result and counted in the commit's trailers.
//
// Objects are collected in a quarantine directory and join the repository when
// all are written; then one compare-and-swap moves the ref. Nothing else in the
// repository changes, and after an error nothing at all.
//
// The files' author may have written the repository's configuration too. So no program
// that it names is run: hooks and monitors are switched off, objects are never fetched,
// and git converts files by a configuration that has only the plain settings of the
// repository beside those of this process's user. [ExportOptions.TrustConfig] lets its
// filters run. For the repository of the store itself not even the user's settings count.
//
// # Again to git
//
// With a [Base], an earlier export, the commit starts from the tree of that export, and
// only what tree.Diff finds, and nested repositories, are looked at. The
// record of that export has what it left out of the rest. When a
// difference affects other paths (another .gitattributes or .gitignore, or other
// settings), all is looked at and sent again; fast-import stores only what is new.
//
// # In
//
// [ReadGit] feeds a revision to a [stream.Sink], which builds the tree.
//
// # Repositories of a workspace
//
// When a workspace is merged or applied, its git directories are brought together by git's meaning:
// [Merger] for two states, [HostGit] for a directory of the host. Package gitdir decides.
//
// # How git is called
//
// In the environment of this process, so that its user's settings apply, but
// without the variables that name another repository, in the C locale (filters
// keep the user's), without hooks or background maintenance, and first in the
// repository's directory, so that git checks its owner (safe.directory). A process that
// serves a mount must not call anything here for a repository that lies in it.
package gitbridge
