// Package threeway plans three-way merges of trees: of a fork into the workspace that it was forked
// from, and of an earlier state into the present one, which reverts changes. Names, file types,
// contents, attributes and hard links are merged; text files are merged by lines.
//
// Imported by: all of cmd, diff, all of gitbridge, hostdir, service, snapshot, snapshot/actors/blame.
//
// A Plan begins as the present tree, ours. Plan.TakeInterval adds the changes from a base to theirs. If a
// path is equal in ours and the base, the plan takes the version of theirs, and does not read its contents.
// If it differs, the versions are merged. Steps returns the steps from the present tree to the planned tree.
//
// "The number" of a file is its inode number. A file of ours or theirs continues a file of the base
// if it is the same file for the merge: see filePairs.
package threeway
