package main

import "github.com/amberfs/amberfs/cmd/amberfs/internal/fail"

// The exit statuses. Scripts depend on them; `amberfs help exit-status` lists
// them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitExists   = 4
	exitBusy     = 5
	exitNoSpace  = 6
	exitDamage   = 7
)

// exitStatus gives the status for a kind of failure.
func exitStatus(k fail.Kind) int {
	switch k {
	case "":
		return exitDone
	case fail.Usage:
		return exitUsage
	case fail.NotFound:
		return exitNotFound
	case fail.Exists:
		return exitExists
	case fail.Busy:
		return exitBusy
	case fail.NoSpace:
		return exitNoSpace
	case fail.Damage:
		return exitDamage
	}
	return exitFailed
}
