// Package locate finds the amberfs mount and the workspace of a directory. It
// sends no request to the file system: the kernel's own tables (getcwd,
// /proc/self/mountinfo) are enough. So a mount whose daemon has ended or hangs
// does not block a command.
//
// A mount's row in the table has the file system type fuse.amberfs, the store as
// its source, and as its root the mounted path inside the file system:
// "/" for the mount that the daemon made, and "/.forks/x" for a fork that was
// bind-mounted into a sandbox. So a location is a mount and a path inside the file
// system. The path gives the workspace and the snapshot:
//
//	/src/a              path src/a of the workspace main
//	/.forks/x/src       path src of the fork x of main
//	/.forks/x/.forks/y  the fork y of that fork
//	/.snapshots/v1/src  path src in the snapshot v1 of main
package locate
