// Package api holds the arguments and results of the daemon's operations, as
// they cross the control socket and as `--json` prints them. Their JSON names
// are promises to scripts: fields are added, never renamed or removed.
package api
