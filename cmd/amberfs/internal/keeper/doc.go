// Package keeper is the process that outlives a daemon: its parent, which starts it again
// after a crash, so that programs that use the mount wait and go on.
//
// # What the keeper holds
//
// It holds what the kernel would end with the daemon: the FUSE device (the same open file,
// not a clone, whose close aborts what it has read), the lock of the store (a flock belongs to
// the open file, so that no other process gets it meanwhile), the socket that the daemon
// listens on (clients that connect meanwhile wait), and the connections of each `amberfs run` that
// uses the mount. It also has INIT, the first request of the kernel, and the answer. It never reads
// the device, and serves nobody but its child.
//
// # A start
//
// Keeper and daemon have a socket pair. The keeper first sends a Start, with all that it
// holds. The first Start has no Connection: the daemon mounts, and sends what is to be held.
// A daemon that gets a Connection takes it over (fusefs.TakeOver).
//
// # A death
//
// wait(2) returns when all threads of the daemon are gone, so no late write can follow. A
// daemon that said that it ends, or that had no Connection yet, takes the keeper with it.
// Otherwise the keeper starts its own program again: the same version, even if the package
// was replaced meanwhile. A daemon that does not become ready leaves all as it was, and says why: for want
// of space, descriptors, memory or a lock the keeper waits and starts another one, for as long as
// Config.Patience. If daemons die again and again, the keeper ends too (see deaths),
// the kernel closes the device, and programs get ENOTCONN instead of waiting for ever. A thread
// of a daemon that hangs in a notice would keep it open, so the connection is aborted first. The keeper
// learns of the beginning of a death from one thread of the daemon, and otherwise sleeps.
//
// # An upgrade
//
// The daemon compares the terms of another program, and asks for it. The keeper kills the
// daemon and starts the other program. If that does not become ready, the keeper starts its
// own again. If it does, the keeper executes it itself: its process, its child and what it
// holds stay.
package keeper
