// Package repair checks that all objects and journal bytes of the trees of a store can be read,
// reports the paths of damaged files, and repairs stores that are not open.
//
// Imported by: all of cmd, service, snapshot.
package repair
