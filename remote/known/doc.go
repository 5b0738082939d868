// Package known keeps the remotes that a store knows: their names and URLs, what it
// pushed there last, and which snapshots it was mounted from. They stand in one
// file of the store, remotes.json; no secret is among them.
//
// Sources is what a store reads objects from that it does not have itself
// (snapshot.Elsewhere): those of the snapshots that it was mounted from.
package known
