// Package sandbox implements `amberfs run`: it runs a program in a mount namespace of its own, in which a
// workspace is mounted.
//
// # Three processes
//
//	outer   the command itself. Makes the temporary directory, fills the store, starts
//	        the daemon, passes signals on, and removes the directory at the end
//	inner   this program again, in new user and mount namespaces. Starts the program,
//	        and waits
//	daemon  mounts the workspace and serves it, in namespaces of its own (package daemon)
//
// Inner and daemon are two processes, because a process that serves a file system must not start programs in
// it: between fork and exec, the new process sends requests to the mount while its parent, the daemon, waits for
// it and cannot answer them.
//
// Outer joins the daemon that serves a STORE, if there is one. Each run gets a copy of the
// daemon's mount over the store's socket (package service, socket.go), and inner attaches
// it. The daemon ends with the last run.
//
// With --root, inner starts process 1 of a PID namespace, which makes the fork the root directory and starts the
// program (root.go). If an ordinary user has subordinate ids, the whole command runs again as root of a user
// namespace that maps these ids (ids.go). The daemon must be in this namespace too, because it can write only
// files of users that its namespace maps.
//
// # Rights
//
// Root needs only the mount namespace. For other users the user namespace
// maps one user and one group, the caller's own, to themselves, so that files have the same owners inside as
// outside. Inner and daemon get the right to mount (CAP_SYS_ADMIN in that namespace) as an ambient capability.
// Inner drops it before it starts the program. With no_new_privs the program cannot gain rights by set-user-ID
// programs either, not even as root.
//
// # The end
//
// Inner ends with outer, and the program with inner (parent-death signal, prctl(2)). The daemon ends with its
// last connection. Outer and inner adopt the processes that their descendants leave behind (child subreaper).
// When the program ends, these processes are killed, the mount ends, and a temporary store is removed. If one of
// the three processes is killed, the others end too. If outer is killed, its lock of the temporary directory is
// released, and the next run removes the directory.
package sandbox
