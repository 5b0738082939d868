// Package main is the command amberfs, which mounts a file system with snapshots
// and works with them.
//
// Each command is one file, cmd_NAME.go, and thin: it reads its arguments,
// sends one request to the daemon that owns the store, and prints the answer.
// The daemon is this same program (internal/daemon); a command finds it from
// the directory that it runs in (internal/locate) and speaks to it over a Unix
// socket in the store (internal/control), so that a mount which hangs cannot hold
// a command back. Where the socket cannot be reached, as in a sandbox, the
// control files of the mount do what they can (internal/byfiles).
package main
