// Package graft changes one tree to equal another, or merges one tree into another. It lists the steps, and a
// Target makes them in a state, for restores, merges, undos and imports. It also finds the actors that changed
// each path between two trees. The package works on states only, without views, locks and a journal. A caller
// connects them by setting the functions of a Target.
//
// Imported by: all of cmd, hostdir, service, snapshot, snapshot/actors/blame, snapshot/catalogue,
// snapshot/live, snapshot/threeway.
package graft
