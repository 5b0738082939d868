// Package keeper has the keeper: the parent process of a daemon. It outlives the daemon and starts
// another one after a crash. Programs that use the mount wait for the new daemon and continue.
//
// Imported by: all of cmd.
//
// # Files of the keeper
//
// The keeper has descriptors of the files that would be closed at the end of the daemon:
//
//   - The FUSE device. It is the open file of the daemon and no clone of the device: when a clone is
//     closed, the kernel aborts the requests that were read from it.
//   - The lock of the store. A flock belongs to the open file, so no other process gets the lock between
//     two daemons.
//   - The socket on which the daemon listens. Clients that connect between two daemons wait.
//   - The connection of each `amberfs run` that uses the mount.
//
// The keeper also has INIT, the first request of the kernel, and its answer. It never reads from the device,
// and answers no process but its child.
//
// To add a file, change the daemon's side (Link.SendConnection and InheritedLink), the keeper's side
// (handleMessage, sendStart and setCloseOnExec), and maxFDs. To add a value, add a field to Connection or
// Start. In both cases raise Version, so that an upgrade from an older keeper is refused.
//
// # A start
//
// Keeper and daemon have a socket pair. The keeper first sends a Start, with the files that it has.
// The first Start has no Connection: the daemon mounts, and sends a Connection with the files to the
// keeper. A daemon that receives a Connection takes the mount over (fusefs.TakeOver).
//
// # A death
//
// wait(2) returns when all threads of the daemon have ended, so the dead daemon cannot write anything later.
// If the daemon has reported its end (Message.Ending), or has sent no Connection yet, the keeper ends, too.
// Otherwise the keeper starts its own program again: the same version, even if the installed file was
// replaced since.
//
// A daemon that does not become ready changes nothing, and reports the reason. If space, descriptors, memory
// or a lock are missing, the keeper waits and starts another daemon, for as long as Config.Patience. If
// daemons die repeatedly (see deaths), the keeper ends too: the kernel closes the device, and programs get
// ENOTCONN instead of waiting for ever. Because a thread of a daemon that hangs in a notice would keep the
// device open, the keeper aborts the connection first. The keeper sleeps until a message comes or the thread
// that watches for the daemon's death ends (Message.Thread).
//
// # An upgrade
//
// The daemon checks that another program would answer INIT as it does itself, and sends the path of this
// program to the keeper. The keeper kills the daemon and starts the other program. If the new daemon does not
// become ready, the keeper starts its own program again. If it becomes ready, the keeper executes the new
// program in its own process: the process id, the child and the open files stay.
package keeper
