// Package actors names the actors that change files, and records the inodes that each changed.
//
// Imported by: all of cmd, all of fusefs, service, snapshot, snapshot/actors/blame,
// snapshot/catalogue, snapshot/engine, snapshot/live.
//
// An actor is a string, see Check. A Set has the inodes that each actor changed between
// two snapshots. It has no paths: a comparison of the two trees returns the inodes
// of each path before and after, and the Set returns their actors (blame.OpenInterval).
package actors
