// Package locate finds out which amberfs mount a directory belongs to, and
// which workspace, without asking the file system for anything: the kernel's
// own tables (getcwd, /proc/self/mountinfo) are enough, so a mount whose daemon
// is gone or stuck cannot hold a command back.
//
// A mount's table row has the file system type fuse.amberfs, the store as its
// source, and as its root the path inside the file system that is mounted:
// "/" for the mount that the daemon made, and "/.forks/x" for a fork that was
// bind-mounted into a sandbox. So a place is (mount, path inside the file
// system), and the path has the rest:
//
//	/src/a              path src/a of the workspace main
//	/.forks/x/src       path src of the fork x of main
//	/.forks/x/.forks/y  the fork y of that fork
//	/.snapshots/v1/src  path src of main, seen as v1 captured it
package locate
