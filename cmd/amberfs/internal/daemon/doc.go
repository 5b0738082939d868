// Package daemon is the process that owns a store: it opens the store, mounts it,
// answers on its socket, and closes it.
//
// # Starting
//
// `amberfs mount` starts its own program again as a session leader with a pipe
// (start.go). The new process checks the paths, and whether it can mount (check.go). On
// the pipe it reports its progress, and then that it is ready, or an error. The
// first process prints these messages and ends. With -f there is one process, which
// notifies the service manager.
//
// # Living
//
// The process has three parts: the snapshot.Store, the fusefs.Server that
// translates the kernel's requests for it, and the service.Service, which carries
// out the operations of commands and control files. The log is STORE/amberfs.log, which
// is renamed when it grows (log.go).
//
// The daemon never opens a file in its own mount, and has no working directory in it:
// only its own threads can answer such a request, and all of them may be waiting for the
// answer. So operations work on the store's trees, not on paths; the working directory
// is "/"; and a program that the daemon starts for a command reads the mount's
// files from descriptors or standard input, or runs in the command's process.
//
// # Ending
//
// The daemon ends when its mount ends, by `amberfs umount`, umount(8),
// fusermount3 -u, SIGTERM or SIGINT. The order is always: requests from
// the kernel end, requests on the socket end, all data is written to disk, and the lock is
// released. A signal also ends a mount that programs keep busy: after busyGrace the mount is
// detached, and after a second busyGrace the daemon ends. `umount` without --lazy fails for a
// busy mount.
package daemon
