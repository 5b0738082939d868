// Package naming checks the names of snapshots and forks and the paths that users give, and encodes
// paths in JSON.
//
// Imported by: all of cmd, all of fusefs, gitbridge, hostdir, all of service, snapshot,
// snapshot/actors/blame, snapshot/catalogue, snapshot/graft, snapshot/threeway.
package naming
