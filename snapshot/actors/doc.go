// Package actors has the names of the actors that change files, and which inodes each changed.
//
// An actor is a string, see Check. A Set says which actors changed which inodes between
// two snapshots. The path is not part of it: a comparison of the two trees gives the inode
// that each path led to before and after, and these the actors (snapshot.OpenInterval).
package actors
