package actors

import "os"

// A Caller is the process on whose behalf something is done.
type Caller struct {
	UID, GID, PID uint32
	// Direct is set for a caller that came through the store's socket and not through
	// the mount.
	Direct bool
	// Command is what the caller ran, as far as that is known, for the event log.
	Command string
	// Request is the number of the kernel's request that the caller waits for, 0 if it came
	// another way.
	Request uint64
	// Actor is on whose behalf it acts, "" if it is unknown.
	Actor string
}

// OwnsStore reports whether the caller is the user that the daemon runs as, or root.
func (c Caller) OwnsStore() bool { return c.UID == 0 || int(c.UID) == os.Geteuid() }
