package daemon

import (
	"slices"
	"strings"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// notifyEnv names the socket of the service manager: sd_notify(3).
const notifyEnv = "NOTIFY_SOCKET"

// notify tells the service manager, if one started this process, how it is:
// units of Type=notify. That nobody listens is no error.
func (d *Daemon) notify(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		d.log.Warn("telling the service manager", "state", state, "err", err)
	}
}

// unmanaged is the environment without the service manager: a daemon in the
// background is no service, and must not speak for the one that started it.
func unmanaged(environ []string) []string {
	return slices.DeleteFunc(environ, func(e string) bool { return strings.HasPrefix(e, notifyEnv+"=") })
}
