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
// repository changes, and after an error, Ctrl-C or on a full disk nothing at all: that
// is promised (docs/how-to/git-and-tar.md), and without the quarantine half an export would stay.
//
// Whoever wrote the files may have written the repository's configuration too.
// So none of the programs that it names is run: hooks and monitors are switched
// off, objects are never fetched, and git converts files by a configuration that
// has only the plain settings of the repository beside those of this process's
// user. [ExportOptions.TrustConfig] lets its filters run. For the repository of
// the store itself not even the user's settings count.
//
// # Again to git
//
// With a [Base], an earlier export, only what tree.Diff finds is looked at, and
// the commit starts from the tree of that export. What that export left out
// stands in its record, since no tree of git tells. When a difference reaches
// further than its own path (another .gitattributes, .gitignore or nested
// repository, or other settings), all is looked at and sent again, of which
// fast-import stores what is new.
//
// # Why not git add
//
// Git could read a snapshot through the mount like everybody else: git add
// --all with --work-tree=MOUNT/.snapshots/NAME, a saved index, and tree.Diff
// behind core.fsmonitor. Measured with 100,000 files of 1.2 KB, in seconds of
// CPU with the daemon's (git 2.39):
//
//	                     fast-import   git add
//	first export                12.6      19.0   as 100,000 loose objects, 407 MB
//	                                      31.5   packed after that: 48 MB
//	ten changes                  0.3       0.4
//
// It would also lose what an export promises. Files that this user may not read
// are part of a snapshot, but not of what git add can see. A nested repository
// may lead git to any place of the host. And an export that is asked for by a
// rename onto the control file could not look up .snapshots/NAME: the kernel
// holds that directory's lock until the rename is answered.
//
// # Out to tar
//
// [WriteTar] writes PAX archives whose bytes depend on the snapshot alone.
//
// # In
//
// [ReadGit], [ReadTar] and [ReadDir] feed a [Sink], which builds the tree. Paths
// reach it clean, relative and without "..", each directory before what is in it
// and nothing below anything but a directory, whatever the source claims.
// Nothing is extracted anywhere on the host.
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
