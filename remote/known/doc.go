// Package known manages the remotes of a store: their names and URLs, the last snapshot that was
// pushed to each, and the snapshots that the store was mounted from. They are stored in the
// file remotes.json of the store, which contains no secrets.
//
// Imported by: all of cmd, service.
//
// A store may come from another user. So amberfs contacts a remote only after the user has
// agreed to its URL: by a command line with the URL, or by `amberfs remote trust`. See trust.go.
//
// The sources of a store are the remote snapshots that it was mounted from. A Registry also reads
// objects that the store lacks from its sources (tree.RemoteObjects).
package known
