// Package sandbox runs a program in a mount namespace of its own, in which a
// workspace is mounted: what `amberfs run` does.
//
// # Three processes
//
//	outer   the command itself. Makes the temporary directory, fills the store, starts
//	        the daemon, passes signals on, and removes the directory at the end
//	inner   this program again, in new user and mount namespaces. Starts the program,
//	        and waits
//	daemon  mounts the workspace and serves it, in namespaces of its own (package daemon)
//
// Inner and daemon are two, because a process that serves a file system must
// not start programs in it: between fork and exec the new process uses the mount
// while the old one waits for it, and its requests would never be answered.
//
// Outer joins the daemon that serves a STORE, if there is one. Each run gets a copy of the
// daemon's mount over the store's socket (package service, socket.go), and inner attaches
// it. The daemon ends with the last run.
//
// With --root, process 1 of a namespace of processes stands between inner and the program
// (root.go). It makes the fork the root directory. If an ordinary user has subordinate ids,
// the whole command runs again as root of a user namespace that maps them (ids.go): the
// daemon must be in it too, as files of users that it cannot name cannot be written.
//
// # Rights
//
// Root needs only the mount namespace. For other users the user namespace
// maps one user and one group, the caller's own, to themselves, so that inside
// everything looks as it does outside. The right to mount (CAP_SYS_ADMIN in that
// namespace) is handed to inner and daemon as an ambient capability, and taken
// away before the program starts. The program cannot gain any by set-user-ID programs
// either (no_new_privs), whichever user runs it.
//
// # Nothing left
//
// Inner and the program end with the process before them (parent-death signal, prctl(2)),
// the daemon with its last connection, and outer and inner adopt what their descendants
// leave behind (child subreaper). When the program ends, the processes that it left are killed, the
// mount ends, and a temporary store is removed. When any of the three is killed, the others end
// too. If outer is killed, the lock of its temporary directory is free, and the next run removes the
// directory.
package sandbox
