// Package gitbridge connects trees with git repositories.
//
// Imported by: all of cmd, all of service.
//
// # Out to git
//
// [Export] makes a commit of a snapshot. Git itself writes every object: one
// `git fast-import` gets the contents and then the commit. The tree of the commit equals the
// tree that `git add --all --force` into an empty index, followed by `git write-tree`, makes
// of the same files (without --force, if the export honours ignore rules):
//
//   - ignored paths: `git check-ignore` finds them, in an attrWorktree;
//   - conversions (line ends, $Id$, filters, encodings): `git check-attr` finds the files that
//     have one, in the same attrWorktree. If the bytes of a file would change, git hash-object
//     stores it;
//   - names: [Result.Skipped] lists the paths that git add would refuse (".GIT",
//     "git~1", a symbolic link ".gitmodules"…). Git would stop at them; an
//     export leaves them out;
//   - a directory with a working ".git" of its own is recorded as a link to the
//     commit that is checked out there, without its files. If there is no
//     commit yet, git add would stop; an export leaves it out. The ".git" at the
//     top of the workspace is never part of an export;
//   - empty directories, FIFOs, sockets and devices are left out, and extended
//     attributes, hard links and most permission bits are lost. The result lists these
//     losses, and the commit's trailers count them.
//
// git writes the objects to a quarantine directory. When all are written, they move to the
// repository, and one compare-and-swap moves the ref. An export changes only the objects and
// the ref; after an error it has changed neither.
//
// The author of the files may also have written the repository's configuration. So no program
// that the configuration names is run: hooks and monitors are switched off, objects are never
// fetched, and git converts files by the plain settings of the repository and all settings of
// this process's user. [ExportOptions.TrustConfig] lets the repository's filters run. For the
// store's own repository the user's settings do not count either.
//
// # Again to git
//
// With a [Base], an earlier export, the commit starts from the tree of that export. The export
// compares only the paths that tree.Diff finds and nested repositories. The losses of all other
// paths are in the record of the earlier export. If a difference affects other paths (a
// different .gitattributes or .gitignore, or different settings), the export reads and sends
// all files again, and fast-import stores only new objects.
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
