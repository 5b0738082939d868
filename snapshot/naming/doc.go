// Package naming checks the names of snapshots and forks and the paths that users give, compares paths, and
// encodes them in JSON.
//
// Imported by: all of cmd, all of fusefs, all of gitbridge, hostdir, all of service, snapshot,
// snapshot/actors/blame, snapshot/catalogue, snapshot/graft, snapshot/live, snapshot/threeway.
package naming
