// Package known keeps the remotes that a store knows: their names and URLs, what it
// pushed there last, and which snapshots it was mounted from. They stand in one
// file of the store, remotes.json; no secret is among them.
//
// A store may come from another user, so a remote that it names is contacted only once
// the user has agreed to its URL: by naming it on a command line, or by `amberfs remote
// trust`. See trust.go.
//
// A Registry is also what a store reads objects from that it does not have itself
// (tree.Elsewhere): those of the snapshots that it was mounted from.
package known
