// Package actors names the actors that change files, and records the inodes that each actor changed.
//
// Imported by: all of cmd, all of fusefs, service, snapshot, all of snapshot/actors, snapshot/catalogue,
// snapshot/engine, snapshot/live.
//
// An actor is a string, see Check. A Set has the inodes that each actor changed between two snapshots. It has no
// paths. To find the actors of a path, a comparison of the two trees returns the path's inodes before and after,
// and the Set returns the actors of these inodes (blame.OpenInterval).
package actors
