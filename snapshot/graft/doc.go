// Package graft changes one tree to equal another, or merges one tree into another. It lists the
// steps, and a Target makes them in a state, for restores, merges, undos and imports. It also finds
// the actors that changed each path between two trees. It works on states only: it has no views,
// no lock and no journal. A caller that has them sets the functions of a Target.
//
// Imported by: all of cmd, hostdir, service, snapshot, snapshot/actors/blame, snapshot/catalogue,
// snapshot/live, snapshot/threeway.
package graft
