package keeper

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/mounts"
)

// loop serves the running daemon, and starts another one after each death, until the mount ends or waitToStart
// gives a reason to give up.
func (k *keeper) loop() (status int, err error) {
	for {
		ws := k.serveDaemon()
		if k.isEnding() || k.Connection == nil {
			return exitStatus(ws), nil
		}

		k.recordDeath(ws)

		for {
			if why := k.waitToStart(); why != "" {
				return 1, k.giveUp(why)
			}

			err := k.startDaemon()
			if err == nil {
				break
			}

			k.failure = &Failure{Reason: err.Error(), Shortage: errs.IsShortage(err)}
			k.recordDeath(unix.WaitStatus(1 << 8)) // the wait status of a process with the exit status 1
		}
	}
}

func (k *keeper) isEnding() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ending
}

// waitToStart waits until the next daemon may be started. If no further daemon may be started, it returns the
// reason.
func (k *keeper) waitToStart() (why string) {
	if why = k.Deaths.giveUpReason(k.Patience); why != "" {
		return why
	}

	if pause := k.Deaths.pause(); pause > 0 {
		if k.isUnmounted() {
			return "the mount is gone, and what it left in the store stays there until the next mount"
		}
		k.sleep(pause)
	}
	if k.isEnding() {
		return "a signal ended the wait"
	}

	return ""
}

// sleep waits for a time, or until the kernel ends the mount or a signal comes.
func (k *keeper) sleep(pause time.Duration) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(k.Device)}}, int(pause.Milliseconds()))
	}()

	select {
	case <-ended:
	case <-k.signalled:
	}
}

// isUnmounted reports whether the kernel has ended the mount.
func (k *keeper) isUnmounted() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(k.Device)}}, 0)
	return err == nil && n > 0
}

// giveUp ends the mount. It returns an error with why, the reason to give up, and the reason of the last death.
func (k *keeper) giveUp(why string) error {
	k.Log(k.Connection.Store, "giving up: the mount ends, and programs get ENOTCONN", "reason", k.Reason, "deaths", why)
	if err := mounts.Abort(k.Connection.Mountpoint, k.Connection.Store); err != nil {
		k.Log(k.Connection.Store, "the mount could not be aborted: if programs hang, use umount -f", "mountpoint", k.Connection.Mountpoint, "err", err)
	}
	return fmt.Errorf("the mount of %s has ended: %s: %s", k.Connection.Store, why, k.Reason)
}

// recordDeath updates the state after the death of a daemon that had a Connection, for the next Start.
func (k *keeper) recordDeath(ws unix.WaitStatus) {
	reason := describeEnd(ws)
	if k.failure != nil {
		reason = k.failure.Reason
	}
	if k.ready || k.DiedAt.IsZero() { // a failed start does not change DiedAt: the pause began when the last ready daemon died
		k.DiedAt = time.Now()
	}
	if k.FrozenUntil.After(time.Now()) {
		k.ThawedAt = time.Now()
	}

	k.FrozenUntil = time.Time{}
	switch {
	case k.nextProgram != "":
		k.Upgraded, k.RefusalReason = true, ""
		reason = "upgrade"
	case k.triedProgram != "" && !k.ready: // the upgrade failed
		k.Upgraded, k.RefusalReason = false, fmt.Sprintf("%s did not become ready: %s", k.triedProgram, reason)
		k.Log(k.Connection.Store, "the upgrade failed", "program", k.triedProgram, "reason", reason)
		reason, k.triedProgram = "upgrade refused", ""
	default:
		k.Upgraded, k.RefusalReason = false, ""
		k.Deaths.add(death{ws, k.ready, k.failure, k.begunRequests})
		k.Poison, k.Suspects = k.Deaths.Poison, k.Deaths.suspects()
		k.Frugal = k.Deaths.mustBeFrugal()
		if !k.ready && k.loggedReason != reason {
			k.Log(k.Connection.Store, "the next daemon did not become ready", "reason", reason)
			k.loggedReason = reason
		}
	}

	k.Restarts++
	k.Reason = reason
	k.ready, k.begunRequests, k.failure = false, nil, nil
	// A client without an answer to its join does not know whether the daemon counted it, so its connection
	// is not passed on.
	for _, u := range slices.Clone(k.Users) {
		if u.State == Joining {
			k.dropUser(u.ID)
		}
	}
}
