// Package gitbridge carries trees between snapshots and the rest of the world:
// git repositories, tar archives and directories.
//
// # Out to git
//
// [Export] makes a commit of a snapshot. Git itself writes every object: one
// `git fast-import` gets the contents and then the commit. The tree is the one
// that `git add --all --force` into an empty index followed by `git write-tree`
// makes of the same files (without --force, when ignore rules are honoured), so
// everything that git add asks, somebody has to answer the same way:
//
//   - what is ignored: git check-ignore, and what is converted (line ends,
//     $Id$, filters, encodings): git check-attr, both asked a directory at a
//     time in a skeleton, a temporary working tree that holds only the
//     .gitignore and .gitattributes of the snapshot. A file that would really
//     change is put there too and stored by git hash-object;
//   - names: [Result.Skipped] lists the paths that git add would refuse (".GIT",
//     "git~1", a symbolic link ".gitmodules"…). Git would stop at them; an
//     export leaves them out and goes on;
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
// repository changes. Its hooks are not run. Filters that its configuration
// defines are run when the snapshot's .gitattributes ask for them, as git add
// would; whoever exports to a repository trusts its configuration.
//
// # Again to git
//
// Three things make the second export quick. A cache maps contents, by the
// hashes of their chunks, to blobs, so what was sent once is not read again.
// With a [Base], an earlier export, only what tree.Diff finds is looked at, and
// the commit starts from the tree of that export. And fast-import writes no
// object twice. When a difference reaches further than its own path (another
// .gitattributes, .gitignore or nested repository, or other settings), all is
// looked at again, with the cache.
//
// # Out to tar
//
// [WriteTar] writes PAX archives whose bytes depend on the snapshot alone.
//
// # In
//
// [ReadGit], [ReadTar], [ReadDir] and [Clone] feed a [Sink], which builds the
// tree. Paths reach it clean, relative and without "..", each directory before
// what is in it and nothing below anything but a directory, whatever the source
// claims. Nothing is extracted anywhere on the host.
//
// # How git is called
//
// In the environment of this process, so that its user's settings hold, but
// without the variables that name another repository, in the C locale (filters
// keep the user's), without hooks or background maintenance, and first in the
// repository's directory, so that its rules about the owners of repositories
// (safe.directory) apply. A process that serves a mount must not call anything
// here for a repository that lies in it.
package gitbridge
