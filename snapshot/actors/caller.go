package actors

import "os"

// A Caller is the process that requested an operation.
type Caller struct {
	UID, GID, PID uint32
	// ViaSocket is set if the request came through the store's socket, not through
	// the mount.
	ViaSocket bool
	// Command is the name of the process's program for the event log, "" if it is unknown.
	Command string
	// Request is the number of the kernel's request that the caller waits for. For a request through the socket
	// it is 0.
	Request uint64
	// Actor is the actor of the process, "" if it is unknown.
	Actor string
}

// OwnsStore reports whether the caller is the user that the daemon runs as, or root.
func (c Caller) OwnsStore() bool { return c.UID == 0 || int(c.UID) == os.Geteuid() }
