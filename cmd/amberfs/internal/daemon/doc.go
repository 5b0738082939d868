// Package daemon is the process that owns a store: it opens it, mounts it,
// answers on its socket, and ends cleanly.
//
// # Starting
//
// `amberfs mount` starts its own program again as a session leader with a pipe
// (start.go). The new process checks what can be checked (check.go). On the pipe it
// reports its progress, that it is ready, or in one sentence why not. The
// first process prints that and ends. With -f there is one process, which notifies
// a service manager that waits for it.
//
// # Living
//
// The process has three parts: the snapshot.Store, the fusefs.Server that
// translates the kernel's requests for it, and the service.Service, which carries
// out what commands and control files ask for. The log is STORE/amberfs.log, which
// is renamed when it grows (log.go).
//
// The daemon never opens, reads or stands in its own mount: a request to
// itself can only be answered by threads that may all be waiting for it. So
// operations work on the store's trees, not on paths; its working directory is
// "/"; and the programs that it starts on behalf of a command get the mount's
// files as descriptors or standard input, or run in the command's process.
//
// # Ending
//
// Whatever ends the mount ends the daemon: `amberfs umount`, umount(8),
// fusermount3 -u, SIGTERM or SIGINT. The order is always: no more requests from
// the kernel, no more from the socket, everything to disk, the lock goes. A
// signal does not wait for programs that keep the mount busy: the mount is
// detached, and ended after a short grace; `umount` without --lazy refuses.
package daemon
