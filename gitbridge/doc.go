// Package gitbridge connects trees with git repositories.
//
// Imported by: all of cmd, all of service.
//
// # Exports
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
//   - a directory with a valid ".git" is recorded as a link to the commit that is checked out there,
//     without its files. If the repository has no commit yet, git add would stop; an export leaves the
//     directory out. The ".git" at the top of the workspace is never part of an export;
//   - empty directories, FIFOs, sockets and devices are left out, and extended
//     attributes, hard links and most permission bits are lost. The result lists these
//     losses, and the commit's trailers count them.
//
// git writes the objects to a quarantine directory. After the last object, all are moved to the
// repository, and one compare-and-swap moves the ref. An export changes only the objects and the ref.
// After an error the ref is unchanged. If the error is in the last two steps, the repository may have
// new objects.
//
// The author of the files may also have written the repository's configuration. So no program that the
// configuration names is run: hooks and monitors are switched off, objects are never fetched, and git
// converts files by the settings of the repository that name no program, and by all settings of this
// process's user.
// [ExportOptions.TrustConfig] lets the repository's filters run. In the store's own repository, git
// does not use the user's settings either.
//
// # Incremental exports
//
// With a [Base], an earlier export, the commit starts from the tree of that export. The export compares
// only nested repositories and the paths that tree.Diff finds. It copies the losses of all other paths
// from the record of the earlier export. If a difference affects other paths (a different
// .gitattributes or .gitignore, or different settings), the export reads and sends all files again, and
// fast-import stores only new objects.
//
// # Imports
//
// [ReadGit] feeds a revision to a [stream.Sink], which builds the tree.
//
// # Repositories of a workspace
//
// When a workspace is merged or applied, package gitdir merges its git directories as git understands
// them. [Merger] does this for two states, [HostGit] for a directory of the host.
//
// # How git is called
//
// Git runs in the environment of this process, so that the settings of the process's user apply.
// Variables that name another repository are removed. The locale is C, but filters have the user's
// locale. Hooks and background maintenance are off. Git changes to the repository's directory first, so
// that it checks the owner (safe.directory). A process that serves a mount must not call this package
// for a repository in the mount.
package gitbridge
